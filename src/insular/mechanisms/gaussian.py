"""Mechanisms that add Gaussian noise, by the classical and by the analytic calibration."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, final

from insular import _check
from insular.accounting import GaussianEvent, NoiseSource, pair_delta
from insular.errors import InvalidArgumentError
from insular.mechanisms.additive import AdditiveMechanism
from insular.mechanisms.laws import GaussianLaw
from insular.mechanisms.queries import Norm, Query
from insular.mechanisms.sources import Noise

_MULTIPLIERS = (1e-4, 1e9)
"""Between which the noise multiplier is sought; the upper one is enough at any epsilon and delta
that are allowed."""


@dataclass(frozen=True, kw_only=True)
class GaussianMechanism(AdditiveMechanism):
    """Adds Gaussian noise: (epsilon, delta)-private."""

    delta: float
    """Slack of one release, above 0 and below 1."""

    def __post_init__(self) -> None:
        """Refuse values outside their rule."""
        super().__post_init__()
        _check.probability(delta=self.delta)
        if not 1e-300 <= self.delta < 1:
            raise InvalidArgumentError(
                "delta of Gaussian noise must be at least 1e-300 and below 1, got "
                f"delta={self.delta!r}; use Laplace where it must be 0."
            )

    @property
    def kind(self) -> Literal["gaussian"]:
        """Gaussian."""
        return "gaussian"

    @property
    def norm(self) -> Norm:
        """L2."""
        return "l2"

    @property
    @abstractmethod
    def noise_multiplier(self) -> float:
        """Standard deviation over sensitivity."""

    def law(self, query: Query) -> GaussianLaw:
        """Gaussian of the calibrated standard deviation."""
        return GaussianLaw(scale=self.scale_steps(query) * query.step)

    def event(self, query: Query, noise_source: NoiseSource = "not_drawn") -> GaussianEvent:
        """A Gaussian event."""
        return GaussianEvent(
            noise_multiplier=self.noise_multiplier,
            relation=query.relation,
            unit=query.unit,
            noise_source=noise_source,
        )

    def draw(self, query: Query, noise: Noise, n_numbers: int) -> list[int]:
        """Gaussian noise on the grid."""
        return noise.gaussian(self.scale_steps(query), n_numbers)


@final
@dataclass(frozen=True, kw_only=True)
class ClassicalGaussian(GaussianMechanism):
    """Gaussian noise with the multiplier ``sqrt(2 ln(1.25 / delta)) / epsilon``.

    The formula is proven below epsilon 1 only, and gives more noise than is needed there.

    Source:
        Dwork and Roth (2014), Theorem A.1.
    """

    def __post_init__(self) -> None:
        """Refuse values outside their rule."""
        super().__post_init__()
        if self.epsilon >= 1:
            raise InvalidArgumentError(
                "epsilon of the classical Gaussian calibration must be below 1, got "
                f"epsilon={self.epsilon!r}: it is not proven there; use AnalyticGaussian."
            )

    @property
    def name(self) -> str:
        """``classical gaussian``."""
        return "classical gaussian"

    @property
    def noise_multiplier(self) -> float:
        """Standard deviation over sensitivity."""
        return math.sqrt(2 * math.log(1.25 / self.delta)) / self.epsilon


@final
@dataclass(frozen=True, kw_only=True)
class AnalyticGaussian(GaussianMechanism):
    """Gaussian noise with the smallest multiplier that is (epsilon, delta)-private.

    Guarantees:
        * The pair's exact divergence at ``epsilon`` is at most ``delta``, and within a relative
          1e-9 of the multiplier it is ``delta``.

    Source:
        Balle and Wang (2018), "Improving the Gaussian mechanism for differential privacy".
    """

    @property
    def name(self) -> str:
        """``analytic gaussian``."""
        return "analytic gaussian"

    @property
    def noise_multiplier(self) -> float:
        """Standard deviation over sensitivity."""
        return _smallest_multiplier(self.epsilon, self.delta)


@lru_cache(maxsize=256)
def _smallest_multiplier(epsilon: float, delta: float) -> float:
    """Bisection on the multiplier: the divergence falls as it grows."""
    low, high = _MULTIPLIERS
    if pair_delta(1 / low, epsilon) <= delta:
        return low
    while high / low > 1 + 1e-12:
        middle = math.sqrt(low * high)
        if pair_delta(1 / middle, epsilon) <= delta:
            high = middle
        else:
            low = middle
    return high
