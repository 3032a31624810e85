"""How many scores a game against training needs, from the promised mechanism itself."""

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.stats import binom

from insular import _check
from insular.accounting import TradeoffCurve
from insular.audit.statistics.rates import bonferroni, lower_rate, upper_rate
from insular.audit.training.game import ScoreRule

MOST_DRAWS = 10**8
"""Where the search for a number of scores ends."""
_NUMBERS = 20_000_000
"""Random numbers that a simulation may take."""
_LEAST, _MOST = 10_000, 100_000
"""Scores of each kind that are simulated."""

Array = np.ndarray


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class ExcessPower:
    """Chances to refute a promise when a unit weighs more than it may."""

    claim: TradeoffCurve
    """The promise."""
    p: Array
    """True positive rates at some thresholds, simulated."""
    q: Array
    """False positive rates at the same thresholds."""
    significance: float
    """Error probability of the trade-off bound."""

    def chance(self, draws: int) -> float:
        """Probability that so many scores of each kind refute the promise.

        Args:
            draws: Of each kind; half choose the threshold, half are judged.

        Returns:
            The probability at the best threshold, by exact binomial tails.
        """
        n = draws // 2
        if n < 1:
            return 0.0
        each = bonferroni(self.significance, 2)
        allowed = self._allowed(upper_rate(n * self.q, n, each))
        spread = np.sqrt((self.p * (1 - self.p) + self.q * (1 - self.q)) / n + 1e-12)
        at = int(np.argmax((lower_rate(n * self.p, n, each) - allowed) / spread))
        p, q = float(self.p[at]), float(self.q[at])
        reach = 8 * math.sqrt(n * q * (1 - q)) + 10
        counts = np.unique(np.linspace(max(0, n * q - reach), min(n, n * q + reach), 400).round())
        edges = np.append((counts[1:] + counts[:-1]) / 2, n)
        weights = np.diff(binom.cdf(np.floor(edges), n, q), prepend=0.0)
        needed = self._allowed(upper_rate(counts, n, each))
        inside = np.minimum(needed, 1 - 1e-12)
        least = binom.isf(each, n, inside)  # the most counts that do not prove the rate
        proven = np.where(needed < 1, binom.sf(least, n, p), 0.0)
        return float(np.clip(weights @ proven, 0.0, 1.0))

    def draws_needed(self, wanted: float) -> int | None:
        """Scores of each kind that refute with the wanted probability.

        Args:
            wanted: The probability.

        Returns:
            How many, to a per cent; None if it takes more than 1e8.
        """
        _check.probability(wanted=wanted)
        low, high = 2, MOST_DRAWS
        if self.chance(high) < wanted:
            return None
        while high - low > max(1, low // 100):
            middle = min(max(math.isqrt(low * high), low + 1), high - 1)
            low, high = (low, middle) if self.chance(middle) >= wanted else (middle, high)
        return high

    def _allowed(self, rates: Array) -> Array:
        """What the promise allows; between samples a little less than its bound."""
        return np.interp(rates, self.claim.false_positive_rates, self.claim.true_positive_rates)


def excess_power(
    rule: ScoreRule,
    *,
    steps: int,
    claim: TradeoffCurve,
    ratio: float,
    significance: float,
    seed: int = 0,
) -> ExcessPower:
    """Simulate the promised mechanism with a unit that weighs too much.

    A ratio of 2 is a record that counts twice, and nearly a noise of half its size.

    Args:
        rule: The promised mechanism.
        steps: Of the run.
        claim: The promise.
        ratio: The unit's contribution over the one that is promised.
        significance: Error probability of the trade-off bound.
        seed: Of the simulation.

    Returns:
        What chances follow.
    """
    _check.positive_finite(ratio=ratio)
    n = min(_MOST, max(_LEAST, _NUMBERS // steps))
    without, with_record = (
        np.sort(rule.draw(steps, n, with_record=side, ratio=ratio, seed=2 * seed + side))
        for side in (False, True)
    )
    thresholds = np.quantile(np.concatenate([without, with_record]), np.linspace(0.001, 0.999, 400))
    p, q = (
        1 - np.searchsorted(scores, thresholds, side="right") / n
        for scores in (with_record, without)
    )
    return ExcessPower(claim=claim, p=p, q=q, significance=significance)
