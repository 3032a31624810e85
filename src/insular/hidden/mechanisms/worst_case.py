"""The covariance that is best for the worst pair of a finite adjacency set."""

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor

from insular import _check
from insular.errors import InvalidArgumentError
from insular.hidden.geometry.release_geometry import ReleaseGeometry
from insular.hidden.matrices.covariance import PsdMatrix
from insular.hidden.matrices.spectral import EPS, SpectralMatrix, matrix_from_rows
from insular.hidden.mechanisms.gaussian import GaussianReleaseMechanism
from insular.hidden.mechanisms.optimal import mean_optimum


@final
@dataclass(frozen=True, kw_only=True)
class WorstCase(GaussianReleaseMechanism):
    """The S of least ``max x' S^-1 x`` over the geometry's pairs, within a certified gap.

    Guarantees:
        * With ``pair_shrinkage`` 0, no S of this budget has a largest D^2 below
          ``1/(1 + gap)`` of this one's.
        * Directions that no pair takes get no noise at ``pair_shrinkage`` 0, and some above it.
    """

    gap: float = 0.01
    """Largest relative distance from the optimum."""
    max_steps: int = 1000
    """Steps after which the search is refused."""
    pair_shrinkage: float = 0.0
    """Share of the weighted pairs' trace that is spread evenly over all directions."""

    kind: ClassVar[str] = "worst case"

    def __post_init__(self) -> None:
        """Refuse values outside their rule."""
        _check.positive_finite(gap=self.gap)
        _check.at_least(1, max_steps=self.max_steps)
        _check.probability(pair_shrinkage=self.pair_shrinkage)

    def covariance(self, geometry: ReleaseGeometry, budget_nats: float) -> PsdMatrix:
        """S."""
        if geometry.pairs is None or not len(geometry.pairs):
            raise InvalidArgumentError(
                "worst case noise needs a geometry with pairs, got none; give differences to "
                "release_geometry."
            )
        found = worst_case_weights(
            geometry.pairs, geometry.fisher, gap=self.gap, max_steps=self.max_steps
        )
        weighted = geometry.pairs * found.weights.sqrt()[:, None]
        shape = matrix_from_rows(weighted, shrinkage=self.pair_shrinkage)
        return mean_optimum(geometry.fisher, shape, budget_nats=budget_nats)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class PairWeights:
    """Which pairs are the hard ones, and how close to the optimum their mix is."""

    weights: Float[Tensor, " pair"]
    """At or above 0, adding up to 1."""
    lower: float
    """No covariance of budget K has a largest D^2 below ``lower / K``."""
    upper: float
    """The covariance of these weights has the largest D^2 ``upper / K``."""
    n_steps: int
    """Steps taken."""


def worst_case_weights(
    pairs: Float[Tensor, "pair hidden"],
    fisher: SpectralMatrix,
    *,
    gap: float = 0.01,
    max_steps: int = 1000,
) -> PairWeights:
    """Multiplicative weights on the closed form of the mean optimum.

    ``min_S max_x x' S^-1 x = max_w (tr (F^(1/2) S_w F^(1/2))^(1/2))^2 / 2K`` with
    ``S_w = sum w x x'``; weights are multiplied by the root of their pair's D^2.

    Guarantees:
        * ``lower <= optimum <= upper <= (1 + gap) lower``.

    Args:
        pairs: Differences of the adjacency set.
        fisher: F.
        gap: Where to stop.
        max_steps: Where to give up.

    Returns:
        The weights.

    Raises:
        InvalidArgumentError: If the gap is not reached in ``max_steps``.
    """
    rows = fisher.power(0.5).apply(pairs)
    if len(rows) < rows.shape[1]:  # in the span of the pairs: the same inner products
        rows = torch.linalg.qr(rows.T)[1].T
    weights = torch.full((len(rows),), 1 / len(rows), dtype=torch.float64)
    lower, upper = 0.0, float("inf")
    for step in range(1, max_steps + 1):
        trace, squares = _mean_optimum_of(rows, weights)
        lower = max(lower, trace**2 / 2)
        upper = float(squares.max()) * trace / 2
        if upper <= (1 + gap) * lower:
            return PairWeights(weights=weights, lower=lower, upper=upper, n_steps=step)
        weights = weights * (squares / (weights @ squares)).sqrt()
        weights = weights / weights.sum()
    raise InvalidArgumentError(
        f"gap must be reached in max_steps={max_steps} steps, got a gap of "
        f"{upper / lower - 1:.3g} above gap={gap}; allow more steps or a wider gap."
    )


def _mean_optimum_of(rows: Tensor, weights: Tensor) -> tuple[float, Tensor]:
    """``tr M^(1/2)`` and each ``y' M^(-1/2) y`` of ``M = sum w y y'``, in its range."""
    values, vectors = torch.linalg.eigh((rows.T * weights) @ rows)
    kept = values > len(values) * EPS * values[-1]
    roots = values[kept].sqrt()
    return float(roots.sum()), (rows @ vectors[:, kept]).square() @ roots.reciprocal()
