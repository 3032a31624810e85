"""Isotropic noise, and noise that keeps to a few or to all but a few directions."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, final

import torch

from insular import _check
from insular.errors import InvalidArgumentError
from insular.hidden.geometry.release_geometry import ReleaseGeometry
from insular.hidden.matrices.covariance import PsdMatrix
from insular.hidden.matrices.psd_algebra import sandwich, trace_of_product
from insular.hidden.matrices.spectral import SpectralMatrix, isotropic_matrix, matrix_from_rows
from insular.hidden.mechanisms.gaussian import GaussianReleaseMechanism


@final
@dataclass(frozen=True, kw_only=True)
class Isotropic(GaussianReleaseMechanism):
    """``S = (2K / tr F) I``: the yardstick."""

    kind: ClassVar[str] = "isotropic"

    def covariance(self, geometry: ReleaseGeometry, budget_nats: float) -> PsdMatrix:
        """S."""
        variance = 2 * budget_nats / geometry.fisher.trace()
        return isotropic_matrix(geometry.hidden_size, variance)


@dataclass(frozen=True, kw_only=True)
class _LowRank(GaussianReleaseMechanism):
    """A singular covariance, mixed with an isotropic floor if one is asked for."""

    rank: int
    """Directions k that the mechanism singles out."""
    floor_share: float = 0.0
    """Share of the budget that goes to isotropic noise; at 0 the null space is released exactly."""

    def __post_init__(self) -> None:
        """Refuse values outside their rule."""
        _check.at_least(1, rank=self.rank)
        _check.probability(floor_share=self.floor_share)
        if self.floor_share == 1:
            raise InvalidArgumentError(
                "floor_share must be below 1, got floor_share=1; use Isotropic instead."
            )

    def covariance(self, geometry: ReleaseGeometry, budget_nats: float) -> PsdMatrix:
        """S."""
        shape = self._shape(geometry)
        cost = trace_of_product(geometry.fisher, shape) / 2
        # rounding leaves some cost even where there is none
        if cost <= 1e-12 * geometry.fisher.trace() * shape.trace() / geometry.hidden_size:
            raise InvalidArgumentError(
                f"rank must leave directions with Fisher information, got rank={self.rank}; give a "
                "smaller rank, or estimate the Fisher matrix with fisher_shrinkage > 0."
            )
        noise = shape.scaled((1 - self.floor_share) * budget_nats / cost)
        floor = self.floor_share * 2 * budget_nats / geometry.fisher.trace()
        return noise.plus_identity(floor)

    @abstractmethod
    def _shape(self, geometry: ReleaseGeometry) -> SpectralMatrix:
        """S up to its scale."""

    def _keep_below(self, geometry: ReleaseGeometry) -> None:
        """Refuse to single out every direction."""
        if self.rank >= geometry.hidden_size:
            raise InvalidArgumentError(
                f"rank must be below the hidden size {geometry.hidden_size}, got "
                f"rank={self.rank}: no direction would be left to add noise to."
            )


@final
@dataclass(frozen=True, kw_only=True)
class Complement(_LowRank):
    """``S = c (I - P)``, P the projector on the top k Fisher directions."""

    kind: ClassVar[str] = "complement"

    def _shape(self, geometry: ReleaseGeometry) -> SpectralMatrix:
        """I - P."""
        self._keep_below(geometry)
        top = geometry.fisher.top(self.rank)
        return SpectralMatrix(vectors=top, values=torch.zeros_like(top[0]), rest=1.0)


@final
@dataclass(frozen=True, kw_only=True)
class FisherComplement(_LowRank):
    """``S = c (I - P) F^-1 (I - P)``: inverse-Fisher noise outside the top k Fisher directions."""

    kind: ClassVar[str] = "fisher complement"

    def _shape(self, geometry: ReleaseGeometry) -> SpectralMatrix:
        """(I - P) F^-1 (I - P)."""
        self._keep_below(geometry)
        geometry.fisher.top(self.rank)  # the rank must be one that the rows determine
        inverse = geometry.fisher.power(-1.0)
        values = inverse.values.clone()
        values[torch.argsort(geometry.fisher.values, descending=True)[: self.rank]] = 0.0
        return SpectralMatrix(vectors=inverse.vectors, values=values, rest=inverse.rest)


@final
@dataclass(frozen=True, kw_only=True)
class GeneralizedEigen(_LowRank):
    """``S = (2K/k) sum u_i u_i'`` over the k largest ``S_d u = lam F u`` with ``u' F u = 1``.

    The best S against an attacker who measures plain distances; rank one is the optimum. It falls
    to one who looks at the null space.
    """

    kind: ClassVar[str] = "generalized eigen"

    def _shape(self, geometry: ReleaseGeometry) -> SpectralMatrix:
        """The sum."""
        root = geometry.fisher.power(-0.5)
        top = sandwich(root, geometry.differences).top(self.rank)
        return matrix_from_rows(root.apply(top.T))
