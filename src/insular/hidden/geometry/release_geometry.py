"""What a release mechanism is shaped by: Fisher matrix, prompt differences, states."""

from dataclasses import dataclass
from typing import final

from jaxtyping import Float
from torch import Tensor

from insular.errors import InvalidArgumentError
from insular.hidden.matrices.covariance import PsdMatrix
from insular.hidden.matrices.psd_algebra import trace_of_product
from insular.hidden.matrices.rows import checked_rows
from insular.hidden.matrices.spectral import SpectralMatrix, matrix_from_rows


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class ReleaseGeometry:
    """The matrices of one layer, as estimated from a calibration set."""

    fisher: SpectralMatrix
    """F: mean of g g', g the gradient of log p with respect to the state, label of the model."""
    differences: SpectralMatrix
    """S_d: mean of d d' over the differences between the states of two prompts."""
    states: SpectralMatrix
    """Covariance of the states."""
    mean: Float[Tensor, " hidden"]
    """Mean state."""
    pairs: Float[Tensor, "pair hidden"] | None = None
    """The differences of an adjacency set, where one was given."""

    def __post_init__(self) -> None:
        """Refuse parts of different sizes."""
        sizes = [self.differences.hidden_size, self.states.hidden_size, len(self.mean)]
        if self.pairs is not None:
            sizes.append(self.pairs.shape[1])
        if any(size != self.hidden_size for size in sizes):
            raise InvalidArgumentError(
                f"all parts must have the Fisher matrix's hidden size {self.hidden_size}, got "
                f"{sizes}."
            )

    @property
    def hidden_size(self) -> int:
        """Numbers in a state."""
        return self.fisher.hidden_size

    def first_order_budget(self, covariance: PsdMatrix) -> float:
        """``tr(F S)/2``: the KL in nats that noise of covariance S costs, to second order.

        It holds to about 2 nats; above that, measure.

        Args:
            covariance: S.

        Returns:
            The budget in nats.
        """
        return trace_of_product(self.fisher, covariance) / 2


def release_geometry(
    states: Float[Tensor, "record hidden"],
    gradients: Float[Tensor, "label hidden"],
    *,
    fisher_shrinkage: float,
    state_shrinkage: float,
    differences: Float[Tensor, "pair hidden"] | None = None,
) -> ReleaseGeometry:
    """Estimate the matrices from states and gradients.

    Guarantees:
        * Without ``differences``, S_d is exactly the mean over all pairs of two different records:
          ``2 Cov(h)``.
        * The Fisher matrix is a mean of squares, never the square of a mean.
        * Shrinkage keeps every trace.

    Args:
        states: Released states of the calibration set, without duplicates.
        gradients: Of log p with respect to the state, one row a record and sampled label.
        fisher_shrinkage: Share of the Fisher matrix's trace that is spread evenly, from 0 to 1.
            Without any, mechanisms that invert the matrix refuse a singular one.
        state_shrinkage: The same for the differences and the states.
        differences: Of an adjacency set: S_d is their mean square then.

    Returns:
        The geometry.

    Raises:
        InvalidArgumentError: If there are too few rows, or rows of different sizes.
    """
    rows = checked_rows(states, name="states")
    size = rows.shape[1]
    slopes = checked_rows(gradients, name="gradients", hidden_size=size)
    if len(rows) < 2 or not len(slopes):
        raise InvalidArgumentError(
            f"states must hold at least 2 rows and gradients 1, got {len(rows)} and {len(slopes)}."
        )
    mean = rows.mean(0)
    covariance = matrix_from_rows((rows - mean) / (len(rows) - 1) ** 0.5, shrinkage=state_shrinkage)
    pairs = None
    if differences is not None:
        pairs = checked_rows(differences, name="differences", hidden_size=size)
    return ReleaseGeometry(
        fisher=matrix_from_rows(slopes / len(slopes) ** 0.5, shrinkage=fisher_shrinkage),
        differences=covariance.scaled(2.0)
        if pairs is None
        else matrix_from_rows(pairs / max(1, len(pairs)) ** 0.5, shrinkage=state_shrinkage),
        states=covariance,
        mean=mean,
        pairs=pairs,
    )
