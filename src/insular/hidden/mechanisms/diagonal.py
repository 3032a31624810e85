"""Noise that is independent from coordinate to coordinate: what few records can estimate."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, final

from jaxtyping import Float
from torch import Tensor

from insular.errors import InvalidArgumentError
from insular.hidden.geometry.release_geometry import ReleaseGeometry
from insular.hidden.matrices.covariance import DiagonalMatrix, PsdMatrix
from insular.hidden.mechanisms.gaussian import GaussianReleaseMechanism


@dataclass(frozen=True, kw_only=True)
class _Diagonal(GaussianReleaseMechanism):
    """Variances up to their scale, which the budget gives."""

    def covariance(self, geometry: ReleaseGeometry, budget_nats: float) -> PsdMatrix:
        """S."""
        fisher = geometry.fisher.diagonal()
        if not bool((fisher > 0).all()):
            raise InvalidArgumentError(
                f"{self.kind} noise needs a Fisher diagonal above 0, got "
                f"{int((fisher <= 0).sum())} coordinates at 0; estimate it with "
                "fisher_shrinkage > 0."
            )
        shape = self._variances(fisher, geometry)
        return DiagonalMatrix(variances=shape * (2 * budget_nats / float(fisher @ shape)))

    @abstractmethod
    def _variances(
        self, fisher: Float[Tensor, " hidden"], geometry: ReleaseGeometry
    ) -> Float[Tensor, " hidden"]:
        """S_ii up to a scale."""


@final
@dataclass(frozen=True, kw_only=True)
class DiagonalInverseFisher(_Diagonal):
    """``S_ii = 2K / (d F_ii)``: every coordinate costs the same.

    The minimax choice among diagonal covariances over all shifts of equal Fisher length.
    """

    kind: ClassVar[str] = "diagonal inverse fisher"

    def _variances(
        self, fisher: Float[Tensor, " hidden"], geometry: ReleaseGeometry
    ) -> Float[Tensor, " hidden"]:
        """1 / F_ii."""
        return fisher.reciprocal()


@final
@dataclass(frozen=True, kw_only=True)
class AlphaFamily(_Diagonal):
    """``S_ii = c F_ii^-a``, ``c = 2K / sum F_ii^(1 - a)``: isotropic at 0, inverse Fisher at 1."""

    alpha: float
    """The exponent a."""

    kind: ClassVar[str] = "alpha family"

    def __post_init__(self) -> None:
        """Refuse an exponent that is not a number."""
        if not math.isfinite(self.alpha):
            raise InvalidArgumentError(f"alpha must be finite, got alpha={self.alpha!r}.")

    def _variances(
        self, fisher: Float[Tensor, " hidden"], geometry: ReleaseGeometry
    ) -> Float[Tensor, " hidden"]:
        """F_ii^-a, with the mean F_ii as unit so that no power overflows."""
        return (fisher / fisher.mean()) ** -self.alpha


@final
@dataclass(frozen=True, kw_only=True)
class DiagonalMahalanobis(_Diagonal):
    """``S_ii`` proportional to ``sqrt(S_d,ii / F_ii)``: the least mean D^2 of a diagonal S."""

    kind: ClassVar[str] = "diagonal mahalanobis"

    def _variances(
        self, fisher: Float[Tensor, " hidden"], geometry: ReleaseGeometry
    ) -> Float[Tensor, " hidden"]:
        """sqrt(S_d,ii / F_ii)."""
        spread = geometry.differences.diagonal()
        if not bool((spread > 0).all()):
            raise InvalidArgumentError(
                "differences must vary in every coordinate, got "
                f"{int((spread <= 0).sum())} constant ones; estimate them with "
                "state_shrinkage > 0."
            )
        return (spread / fisher).sqrt()
