"""Releases that add Gaussian noise of any covariance, singular ones included."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from jaxtyping import Float
from scipy.special import gammainccinv, gammaincinv
from torch import Tensor

from insular.accounting import pair_epsilon
from insular.hidden.geometry.release_geometry import ReleaseGeometry
from insular.hidden.matrices.covariance import DiagonalMatrix, PsdMatrix
from insular.hidden.matrices.draws import Draws
from insular.hidden.matrices.rows import checked_rows
from insular.hidden.matrices.spectral import SpectralMatrix
from insular.hidden.mechanisms.interface import Release, ReleaseMechanism, Seen

NULL_TOLERANCE = 1e-10
"""Length over a state's own, up to which a null-space component is rounding."""
_STORED_TOLERANCE = 1e-5
"""The same where states may have been stored in float32."""
_FALSE_ALARM = 1e-9


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class GaussianRelease(Release):
    """``z = h + e`` with ``e`` Gaussian of covariance S.

    Guarantees:
        * A pair of states with difference x is as hard to tell apart as two unit Gaussians
          ``mu = sqrt(x' S^-1 x)`` apart, exactly.
        * What lies in the null space of S is released as it is: mu is infinite there.
    """

    covariance: PsdMatrix
    """S."""

    gaussian: ClassVar[bool] = True

    @property
    def hidden_size(self) -> int:
        """Numbers in a state."""
        return self.covariance.hidden_size

    @property
    def nominal_covariance(self) -> PsdMatrix:
        """S."""
        return self.covariance

    def sample(
        self, states: Float[Tensor, "record hidden"], *, generator: Draws
    ) -> Float[Tensor, "record hidden"]:
        """Add fresh noise to each state."""
        rows = self._rows(states, "states")
        return rows + self.covariance.sample(len(rows), generator=generator)

    def scaled(self, factor: float) -> "GaussianRelease":
        """``factor * S``: the noise grows by its root."""
        return GaussianRelease(
            mechanism=self.mechanism,
            budget_nats=self.budget_nats * factor,
            covariance=self.covariance.scaled(factor),
        )

    def whiten(self, rows: Float[Tensor, "record hidden"]) -> Float[Tensor, "record rank"]:
        """Coordinates in which the noise is standard normal; the null space is left out."""
        return self.covariance.whiten(self._rows(rows, "rows"))

    def null_part(self, rows: Float[Tensor, "record hidden"]) -> Float[Tensor, "record rank"]:
        """Coordinates that are released as they are; none where S has full rank."""
        return self.covariance.null_part(self._rows(rows, "rows"))

    def squared_distance(self, differences: Float[Tensor, "pair hidden"]) -> Float[Tensor, " pair"]:
        """``D^2 = x' S^-1 x`` of each difference, infinite where the null space shows it.

        Args:
            differences: Between the states of two prompts.

        Returns:
            D^2; ``mu`` of the pair is its root.
        """
        rows = self._rows(differences, "differences")
        leaked = self._shows(rows, rows.square().sum(1), NULL_TOLERANCE)
        return torch.where(leaked, torch.inf, self.covariance.whiten(rows).square().sum(1))

    def epsilon(
        self, differences: Float[Tensor, "pair hidden"], *, delta: float
    ) -> Float[Tensor, " pair"]:
        """The exact epsilon of each pair at ``delta``, in nats.

        Args:
            differences: Between the states of two prompts.
            delta: From 0, below 1.

        Returns:
            Epsilon, infinite where the null space shows the difference.
        """
        apart = self.squared_distance(differences).sqrt().tolist()
        return torch.tensor(
            [mu if mu == torch.inf else pair_epsilon(mu, delta) for mu in apart],
            dtype=torch.float64,
        )

    def see_candidates(self, states: Float[Tensor, "record hidden"]) -> tuple[Seen, ...]:
        """The null space first, then the whitened state."""
        rows = self._rows(states, "states")
        white = Seen(values=self.covariance.whiten(rows))
        if self.covariance.rank == self.hidden_size:
            return (white,)
        tolerance = NULL_TOLERANCE**2 * rows.square().sum(1)
        return Seen(values=self.covariance.null_part(rows), tolerance=tolerance), white

    def see_released(self, released: Float[Tensor, "record hidden"]) -> tuple[Seen, ...]:
        """The null space first, then the whitened state."""
        return self.see_candidates(released)

    def implausible(
        self, released: Float[Tensor, "record hidden"], states: Float[Tensor, "record hidden"]
    ) -> str:
        """By the chi-squared law of the whitened noise, of all rows together and of each."""
        clean = self._rows(states, "states")
        noise = self._rows(released, "released") - clean
        if bool(self._shows(noise, clean.square().sum(1), _STORED_TOLERANCE).any()):
            return "they differ where the mechanism adds no noise"
        squares, rank = self.covariance.whiten(noise).square().sum(1), self.covariance.rank
        if not len(squares):
            return ""
        each = _chi_squared_range(rank, _FALSE_ALARM / len(squares))
        together = _chi_squared_range(rank * len(squares), _FALSE_ALARM)
        for found, (low, high) in (
            (squares.min(), each),
            (squares.max(), each),
            (squares.sum(), together),
        ):
            if not 0.98 * low <= float(found) <= 1.02 * high:
                return f"their noise is {float(found):.3g} where {low:.3g} to {high:.3g} is likely"
        return ""

    def tensors(self) -> dict[str, Tensor]:
        """The covariance."""
        if isinstance(self.covariance, DiagonalMatrix):
            return {"variances": self.covariance.variances}
        assert isinstance(self.covariance, SpectralMatrix)
        rest = torch.tensor(self.covariance.rest, dtype=torch.float64)
        return {
            "vectors": self.covariance.vectors,
            "values": self.covariance.values,
            "rest": rest,
        }

    @classmethod
    def restored(
        cls, mechanism: ReleaseMechanism, budget_nats: float, tensors: Mapping[str, Tensor]
    ) -> "GaussianRelease":
        """The inverse of ``tensors``."""
        if "variances" in tensors:
            covariance = DiagonalMatrix(variances=tensors["variances"])
        else:
            covariance = SpectralMatrix(
                vectors=tensors["vectors"],
                values=tensors["values"],
                rest=float(tensors["rest"]),
            )
        return cls(mechanism=mechanism, budget_nats=budget_nats, covariance=covariance)

    def _rows(self, rows: Tensor, name: str) -> Tensor:
        """Rows of the right size."""
        return checked_rows(rows, name=name, hidden_size=self.hidden_size)

    def _shows(self, differences: Tensor, squares: Tensor, tolerance: float) -> Tensor:
        """Which differences have a null-space part beyond rounding of rows so long."""
        return self.covariance.null_part(differences).square().sum(1) > tolerance**2 * squares


@dataclass(frozen=True, kw_only=True)
class GaussianReleaseMechanism(ReleaseMechanism):
    """A mechanism that is known by its covariance."""

    release_type: ClassVar[type[Release]] = GaussianRelease

    @abstractmethod
    def covariance(self, geometry: ReleaseGeometry, budget_nats: float) -> PsdMatrix:
        """S, with ``tr(F S)/2`` equal to the budget."""

    def fit(self, geometry: ReleaseGeometry, *, budget_nats: float) -> GaussianRelease:
        """The release of this shape whose first-order cost is the budget."""
        release = super().fit(geometry, budget_nats=budget_nats)
        assert isinstance(release, GaussianRelease)
        return release

    def _fit(self, geometry: ReleaseGeometry, budget_nats: float) -> GaussianRelease:
        """``fit``, once the budget is known to be a number."""
        return GaussianRelease(
            mechanism=self,
            budget_nats=budget_nats,
            covariance=self.covariance(geometry, budget_nats),
        )


def _chi_squared_range(degrees: int, outside: float) -> tuple[float, float]:
    """Where a chi-squared variable lies but for ``outside`` on either side."""
    half = degrees / 2
    return 2 * float(gammaincinv(half, outside)), 2 * float(gammainccinv(half, outside))
