"""Distributions of noise in closed form: what the noise will be before any is drawn."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

from insular import _check
from insular.errors import InvalidArgumentError


@dataclass(frozen=True, kw_only=True)
class NoiseLaw(ABC):
    """A distribution symmetric about 0.

    Guarantees:
        * Probabilities keep their digits far out in a tail.
    """

    scale: float
    """b of a Laplace, standard deviation of a Gaussian, in the unit of the value."""

    def __post_init__(self) -> None:
        """Refuse a scale that is not one."""
        _check.positive_finite(scale=self.scale)

    @property
    @abstractmethod
    def mean_abs(self) -> float:
        """Mean magnitude of the noise: the expected absolute error."""

    @abstractmethod
    def _above(self, x: float) -> float:
        """P(noise > x) for x >= 0."""

    def _at(self, x: float) -> float:
        """P(noise = x)."""
        return 0.0

    def cdf(self, x: float) -> float:
        """The probability that the noise is at most ``x``.

        Args:
            x: In the unit of the scale; may be infinite.

        Returns:
            From 0 to 1.
        """
        _check_bound(x)
        return 1 - self._above(x) if x >= 0 else self._above(-x) + self._at(x)

    def interval_probability(self, low: float, high: float) -> float:
        """The probability that the noise falls in ``[low, high]``.

        Args:
            low: Lower end, included; may be infinite.
            high: Upper end, included; may be infinite.

        Returns:
            From 0 to 1.

        Raises:
            InvalidArgumentError: If ``low`` lies above ``high``.
        """
        _check_bound(low)
        _check_bound(high)
        if low > high:
            raise InvalidArgumentError(f"low must be at most high, got low={low!r}, high={high!r}.")
        if high < 0:
            low, high = -high, -low
        if low > 0:
            return self._above(low) - self._above(high) + self._at(low)
        return self.cdf(high) - self.cdf(low) + self._at(low)


@final
@dataclass(frozen=True, kw_only=True)
class LaplaceLaw(NoiseLaw):
    """Density ``exp(-|x| / b) / 2b``."""

    @property
    def mean_abs(self) -> float:
        """B."""
        return self.scale

    def _above(self, x: float) -> float:
        return math.exp(-x / self.scale) / 2


@final
@dataclass(frozen=True, kw_only=True)
class DiscreteLaplaceLaw(NoiseLaw):
    """Integers with probability proportional to ``exp(-|x| / b)``: two-sided geometric."""

    @property
    def mean_abs(self) -> float:
        """``1 / sinh(1 / b)``, a little below b."""
        rate = 1 / self.scale
        return 2 * math.exp(-rate) / -math.expm1(-2 * rate)

    def _above(self, x: float) -> float:
        if math.isinf(x):
            return 0.0
        return math.exp(-(math.floor(x) + 1) / self.scale) / (1 + math.exp(-1 / self.scale))

    def _at(self, x: float) -> float:
        if math.isinf(x) or x != math.floor(x):
            return 0.0
        return math.tanh(0.5 / self.scale) * math.exp(-abs(x) / self.scale)


@final
@dataclass(frozen=True, kw_only=True)
class GaussianLaw(NoiseLaw):
    """Normal with standard deviation ``scale``."""

    @property
    def mean_abs(self) -> float:
        """``sqrt(2 / pi)`` standard deviations."""
        return math.sqrt(2 / math.pi) * self.scale

    def _above(self, x: float) -> float:
        return math.erfc(x / self.scale / math.sqrt(2)) / 2


def _check_bound(x: object) -> None:
    """Refuse an end of an interval that is not a number."""
    try:
        real = isinstance(x, int | float) and not isinstance(x, bool) and not math.isnan(x)
    except OverflowError:
        real = False
    if not real:
        raise InvalidArgumentError(f"an end of an interval must be a number, got {x!r}.")
