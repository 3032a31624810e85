"""Lower bounds on what a release leaks, each with the draws that it rests on. Torch-free."""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal, final

from insular import _check
from insular.accounting import TradeoffCurve, pair_epsilon

Side = Literal["above", "below"]
"""Where a score counts as positive: strictly above the threshold, or strictly below it."""
Claim = float | TradeoffCurve
"""What is promised: a number is the mu of one Gaussian step; a curve is any other promise."""


@final
@dataclass(frozen=True, kw_only=True)
class Rate:
    """How often something happened in held-out draws, with exact bounds on its probability."""

    count: int
    """Draws in which it happened."""
    n: int
    """Draws."""
    lower: float
    """The probability is below this only with probability ``significance``."""
    upper: float
    """The probability is above this only with probability ``significance``."""
    significance: float
    """Error probability of each of the two bounds."""
    method: str = "Clopper-Pearson"
    """How the bounds were computed."""


@final
@dataclass(frozen=True, kw_only=True)
class EpsilonBound:
    """At this delta, epsilon is at least this."""

    epsilon_lower_bound: float
    """log((p.lower - delta) / q.upper), at least 0, in nats."""
    delta: float
    """Delta of the bound and of the claim that it can refute."""
    threshold: float
    """Fixed on the other half of the draws."""
    side: Side
    """Where a score counts."""
    positive: Literal["with", "without"]
    """The neighbour whose draws are ``p``; ``q`` is of the other."""
    p: Rate
    """How often a score of ``positive`` counts."""
    q: Rate
    """How often a score of the other neighbour counts."""
    n_selection: int
    """Draws of each neighbour that chose threshold, side and direction, and count nowhere else."""
    significance: float
    """Error probability of all bounds of the same call together."""

    def falsifies(self, claimed: float) -> bool:
        """Whether the one point (``claimed``, ``delta``) is refuted.

        Args:
            claimed: The promised epsilon at this delta, in nats.

        Returns:
            True only if the bound is above it.
        """
        return self.epsilon_lower_bound > claimed


@final
@dataclass(frozen=True, kw_only=True)
class TradeoffBound:
    """An attacker with these error rates exists, so a promise that excludes it does not hold."""

    mu_lower_bound: float
    """Phi^-1(tpr.lower) - Phi^-1(fpr.upper), at least 0: no Gaussian promise with a smaller mu."""
    threshold: float
    """Fixed on the other half of the draws."""
    side: Side
    """Where a score counts as positive."""
    tpr: Rate
    """How often a score of the neighbour with the record is positive."""
    fpr: Rate
    """How often a score of the neighbour without it is positive."""
    n_selection: int
    """Draws of each neighbour that chose threshold and side, and count nowhere else."""
    significance: float
    """Error probability of the whole statement: both rates together."""

    @property
    def point(self) -> tuple[float, float]:
        """False positive rate and false negative rate that the attacker stays below."""
        return self.fpr.upper, 1 - self.tpr.lower

    def falsifies(self, claimed: Claim) -> bool:
        """Whether a promised trade-off curve is refuted: the attacker's point lies below it.

        Guarantees:
            * Nothing is assumed of the mechanism: only that the draws are independent.

        Args:
            claimed: The mu of a Gaussian step, or a curve.

        Returns:
            True only if the attacker does better than promised.
        """
        if isinstance(claimed, TradeoffCurve):
            return self.tpr.lower > promised_rate(claimed, self.fpr.upper)
        _check.non_negative_finite(claimed=claimed)
        return self.mu_lower_bound > claimed

    def epsilon(self, delta: float) -> float:
        """What the bound means in epsilon **if** the mechanism is one Gaussian step.

        Args:
            delta: From 0, below 1.

        Returns:
            Epsilon in nats.
        """
        return pair_epsilon(self.mu_lower_bound, delta)


def gaussian_quantile(rate: float) -> float:
    """Phi^-1, infinite at 0 and 1.

    Args:
        rate: From 0 to 1.

    Returns:
        The quantile of the standard normal.
    """
    if rate in (0.0, 1.0):
        return math.copysign(math.inf, rate - 0.5)
    return NormalDist().inv_cdf(rate)


def promised_rate(curve: TradeoffCurve, rate: float) -> float:
    """The highest true positive rate that a sampled curve allows at any false positive rate.

    Guarantees:
        * Never below the curve between its samples: what it exceeds was not promised.
        * Equal to the curve at its samples, up to rounding.

    Args:
        curve: A promise.
        rate: From 0 to 1.

    Returns:
        The rate.
    """
    _check.probability(rate=rate)
    points = list(zip(curve.false_positive_rates, curve.true_positive_rates, strict=True))
    after = [point for point in points if point[0] >= rate]
    before = [point for point in points if point[0] <= rate]
    if after and after[0][0] == rate:
        return after[0][1]
    # the curve grows, and beyond its ends a chord lies above a concave curve
    allowed = [1.0, *(y for _, y in after[:1])]
    for chord in (before[:-3:-1], after[:2]):
        if len(chord) == 2:
            (x, y), (x_far, y_far) = chord
            allowed.append(y + (y - y_far) / (x - x_far) * (rate - x))
    return max(rate, min(allowed))
