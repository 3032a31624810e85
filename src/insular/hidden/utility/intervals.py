"""Means over prompts with their intervals. Torch-free."""

from dataclasses import dataclass
from typing import Literal, final

import numpy as np
from scipy.special import betaincinv, ndtri

from insular import _check
from insular.errors import InvalidArgumentError

IntervalMethod = Literal["bootstrap", "normal", "binomial"]
"""How an interval was found.

    bootstrap   percentiles of means of prompts drawn again with replacement, seeded
    normal      mean and standard error; symmetric, too short for long tails
    binomial    Clopper-Pearson on the share, exact for one draw a prompt, else conservative
"""


@final
@dataclass(frozen=True, kw_only=True)
class MeanInterval:
    """A mean over prompts, with an interval."""

    mean: float
    """The mean, in the unit of the values."""
    low: float
    """Lower end."""
    high: float
    """Upper end."""
    standard_error: float
    """Standard error of the mean, over prompts."""
    n: int
    """Number of prompts."""
    significance: float
    """Error probability of the interval, both sides together."""
    method: IntervalMethod
    """How it was found."""

    def overlaps(self, other: "MeanInterval") -> bool:
        """Whether two intervals share a value.

        Args:
            other: Another mean of the same unit.

        Returns:
            False if one lies wholly above the other.
        """
        return self.low <= other.high and other.low <= self.high


def mean_interval(
    values: np.ndarray,
    *,
    significance: float = 0.05,
    method: IntervalMethod = "bootstrap",
    seed: int = 0,
    resamples: int = 2000,
) -> MeanInterval:
    """The mean of one value per prompt, with an interval.

    Guarantees:
        * Equal values, seed and resamples give the same interval.
        * The interval holds the mean.

    Args:
        values: One finite number per prompt; shares from 0 to 1 for ``binomial``.
        significance: Error probability, both sides together.
        method: How.
        seed: Seed of the bootstrap.
        resamples: Means that the bootstrap draws.

    Returns:
        The interval.

    Raises:
        InvalidArgumentError: If there are fewer than 2 values or one is not finite.
    """
    _check.positive_finite(significance=significance)
    _check.one_of(("bootstrap", "normal", "binomial"), method=method)
    _check.at_least(1, resamples=resamples)
    found = np.asarray(values, dtype=np.float64)
    if found.ndim != 1 or len(found) < 2 or not np.isfinite(found).all():
        raise InvalidArgumentError(
            f"values must be at least 2 finite numbers, one per prompt, got shape {found.shape}; "
            "give more prompts, or a smaller scale where the scores overflow."
        )
    n, mean = len(found), float(found.mean())
    error = float(found.std(ddof=1) / np.sqrt(n))
    if method == "normal":
        reach = float(ndtri(1 - significance / 2)) * error
        low, high = mean - reach, mean + reach
    elif method == "binomial":
        low, high = _binomial(mean * n, n, significance)
    else:
        low, high = _bootstrap(found, significance, seed=seed, resamples=resamples)
    return MeanInterval(
        mean=mean,
        low=min(low, mean),
        high=max(high, mean),
        standard_error=error,
        n=n,
        significance=significance,
        method=method,
    )


def _binomial(count: float, n: int, significance: float) -> tuple[float, float]:
    """Clopper-Pearson ends; the count may be a mean of several draws."""
    half = significance / 2
    low = float(betaincinv(count, n - count + 1, half)) if count > 0 else 0.0
    high = float(betaincinv(count + 1, n - count, 1 - half)) if count < n else 1.0
    return low, high


def _bootstrap(
    values: np.ndarray, significance: float, *, seed: int, resamples: int
) -> tuple[float, float]:
    """Percentiles of resampled means."""
    generator = np.random.default_rng(seed)
    counts = generator.multinomial(len(values), np.full(len(values), 1 / len(values)), resamples)
    means = counts @ values / len(values)
    low, high = np.quantile(means, [significance / 2, 1 - significance / 2])
    return float(low), float(high)
