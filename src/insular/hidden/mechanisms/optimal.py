"""Closed-form optima over all covariances of equal first-order cost."""

import math
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from scipy.optimize import brentq

from insular.hidden.geometry.release_geometry import ReleaseGeometry
from insular.hidden.matrices.covariance import PsdMatrix
from insular.hidden.matrices.psd_algebra import root_fidelity_trace, sandwich
from insular.hidden.matrices.spectral import SpectralMatrix
from insular.hidden.mechanisms.gaussian import GaussianReleaseMechanism


@final
@dataclass(frozen=True, kw_only=True)
class InverseFisher(GaussianReleaseMechanism):
    """``S = (2K/d) F^-1``: minimax over all shifts of equal Fisher length.

    Guarantees:
        * ``D^2 = (d/K) x'Fx/2`` for every shift x.
    """

    kind: ClassVar[str] = "inverse fisher"

    def covariance(self, geometry: ReleaseGeometry, budget_nats: float) -> PsdMatrix:
        """S."""
        return geometry.fisher.power(-1.0).scaled(2 * budget_nats / geometry.hidden_size)


@final
@dataclass(frozen=True, kw_only=True)
class AdaptiveOptimum(GaussianReleaseMechanism):
    """``S = (2K / tr M^(1/2)) F^(-1/2) M^(1/2) F^(-1/2)``, ``M = F^(1/2) S_d F^(1/2)``.

    Guarantees:
        * The mean D^2 over the differences is ``(tr M^(1/2))^2 / 2K``, and no other S of this
          budget has a smaller one.
    """

    kind: ClassVar[str] = "adaptive optimum"

    def covariance(self, geometry: ReleaseGeometry, budget_nats: float) -> PsdMatrix:
        """S."""
        return mean_optimum(geometry.fisher, geometry.differences, budget_nats=budget_nats)


@final
@dataclass(frozen=True, kw_only=True)
class MutualInformationOptimum(GaussianReleaseMechanism):
    """The S of least ``log det(I + S^-1 Cov)``: what a Gaussian state tells of itself.

    In the eigenbasis of ``F^(1/2) Cov F^(1/2)`` with eigenvalues m_i, ``F^(1/2) S F^(1/2)`` has
    ``a_i = (-m_i + sqrt(m_i^2 + 4 m_i / nu)) / 2``, nu such that they add up to 2K.

    Guarantees:
        * No other S of this budget gives less information.
    """

    kind: ClassVar[str] = "mutual information optimum"

    def covariance(self, geometry: ReleaseGeometry, budget_nats: float) -> PsdMatrix:
        """S."""
        fisher = geometry.fisher
        spread = sandwich(fisher.power(0.5), geometry.states)
        # in units of the mean, so that the search has one range for every scale
        unit = 2 * budget_nats / fisher.hidden_size

        def noise(log_nu: float) -> SpectralMatrix:
            return spread.mapped(lambda m: unit * _water(m / unit, math.exp(log_nu)))

        log_nu = brentq(
            lambda x: math.log(noise(x).trace() / (2 * budget_nats)), -100.0, 100.0, xtol=1e-13
        )
        assert isinstance(log_nu, float)
        return sandwich(fisher.power(-0.5), noise(log_nu))


def mean_optimum(
    fisher: SpectralMatrix, differences: SpectralMatrix, *, budget_nats: float
) -> SpectralMatrix:
    """The covariance of ``AdaptiveOptimum``.

    Args:
        fisher: F.
        differences: S_d.
        budget_nats: K.

    Returns:
        S.
    """
    inner = sandwich(fisher.power(0.5), differences).power(0.5)
    scale = 2 * budget_nats / root_fidelity_trace(fisher, differences)
    return sandwich(fisher.power(-0.5), inner).scaled(scale)


def _water(m: torch.Tensor, nu: float) -> torch.Tensor:
    """``(-m + sqrt(m^2 + 4 m/nu)) / 2`` without cancellation, 0 at m = 0."""
    root = (m.square() + 4 * m / nu).sqrt()
    return torch.where(m > 0, 2 * m / nu / (m + root).clamp(min=1e-300), 0.0)
