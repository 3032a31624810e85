"""What an attack on one Gaussian step can be expected to find, before any release is drawn.

Scores are N(0, 1) without the record and N(mu, 1) with it, which is what the projection onto the
mean difference gives. The threshold is the best one, which a run only finds about.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import binom

from insular import _check
from insular.accounting import pair_epsilon
from insular.accounting.pair import check_delta
from insular.audit.release.power_results import CurvePoint, PowerResult, Procedure, ProcedurePower
from insular.audit.statistics.rates import bonferroni, check_significance, lower_rate, upper_rate

N_DELTAS = 3
"""Deltas at which a release audit bounds epsilon; they share its significance."""
MOST_DRAWS = 10**12
"""Where the search for a number of draws ends."""
_SHIFTS = np.linspace(-4.0, 9.0, 651)
"""Thresholds that are tried, in standard deviations above the mean without the record."""
_MOST_COUNTS = 4000
"""Counts that are told apart; more are taken together in equal steps."""

_TINY = 1e-100
"""What stands for 0 where something is divided by it."""

Array = np.ndarray


@final
@dataclass(frozen=True, kw_only=True)
class _Test:
    """One procedure with its claim."""

    procedure: Procedure
    """Which bound."""
    claimed_mu: float
    """Of the promised step."""
    mu: float
    """Of the step that runs."""
    each: float
    """Error probability of each of the two rates."""
    delta: float
    """Of the bound on epsilon."""

    @property
    def claimed(self) -> float:
        """What is refuted: a mu, or an epsilon."""
        if self.procedure == "trade-off":
            return self.claimed_mu
        return pair_epsilon(self.claimed_mu, self.delta)

    def bound(self, p_lower: Array, q_upper: Array) -> Array:
        """The bound that two rates give."""
        if self.procedure == "trade-off":
            return np.maximum(0.0, ndtri(p_lower) - ndtri(q_upper))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.nan_to_num(np.maximum(0.0, np.log((p_lower - self.delta) / q_upper)))

    def least_rate(self, q_upper: Array) -> Array:
        """The rate with the record that, once proven, refutes the claim."""
        if self.procedure == "trade-off":
            return ndtr(ndtri(q_upper) + self.claimed)
        return np.minimum(1.0, self.delta + np.exp(self.claimed) * q_upper)

    def expected(self, n: int) -> tuple[float, float]:
        """The largest bound that expected counts of n judged draws give, and its threshold."""
        bounds = self._at_expected_counts(n)
        at = int(np.argmax(bounds))
        return float(bounds[at]), float(_SHIFTS[at])

    def best_shift(self, n: int) -> float:
        """The threshold where the expected bound exceeds the claim by most of its own spread."""
        p, q = ndtr(self.mu - _SHIFTS), ndtr(-_SHIFTS)
        if self.procedure == "trade-off":
            p_unit, q_unit = _density(self.mu - _SHIFTS), _density(_SHIFTS)
        else:
            p_unit, q_unit = np.maximum(p - self.delta, _TINY), q
        spread = np.sqrt((p * (1 - p) / p_unit**2 + q * (1 - q) / q_unit**2) / n)
        margin = (self._at_expected_counts(n) - self.claimed) / spread
        usual = (q * n >= 1) & ((1 - p) * n >= 1)  # further out most runs count nothing, or all
        margin = np.where(usual, margin, -np.inf) if usual.any() else margin
        return float(_SHIFTS[int(np.argmax(margin))])

    def refutes(self, n: int) -> tuple[float, float]:
        """Probability that n judged draws refute the claim, and the threshold, by exact tails."""
        shift = self.best_shift(n)
        p, q = float(ndtr(self.mu - shift)), float(ndtr(-shift))
        counts, weights = _counts(n, q)
        needed = self.least_rate(upper_rate(counts, n, self.each))
        proven = np.where(
            needed < 1,
            binom.sf(binom.isf(self.each, n, np.minimum(needed, 1 - 1e-16)), n, p),
            0.0,
        )
        return float(min(1.0, weights @ proven)), shift

    def _at_expected_counts(self, n: int) -> Array:
        """The bound at each threshold."""
        p_lower = lower_rate(n * ndtr(self.mu - _SHIFTS), n, self.each)
        return self.bound(p_lower, upper_rate(n * ndtr(-_SHIFTS), n, self.each))


def attack_power(
    ratio: float,
    *,
    draws: int,
    noise_multiplier: float = 1.0,
    delta: float = 1e-5,
    significance: float = 0.05,
    wanted: float = 0.95,
) -> PowerResult:
    """What each procedure can be expected to say of one step with too large a sensitivity.

    The promised step has mu = 1 / noise_multiplier, the one that runs ``ratio`` times as much. The
    (epsilon, delta) bound is one of three at different deltas, as a release audit makes them.

    Guarantees:
        * At ratio 1 no procedure refutes with more than ``significance``.
        * Probabilities are exact binomial tails at the best threshold, so a run, which has to find
          its threshold, may stay a little below.

    Args:
        ratio: Distance of the two clipped sums over the bound that is promised.
        draws: Draws of each neighbour; half choose the threshold, half are judged.
        noise_multiplier: Noise standard deviation over the clip norm.
        delta: Delta of every epsilon.
        significance: Error probability of each procedure.
        wanted: Probability of refuting that the needed draws are to reach.

    Returns:
        Probabilities, expected bounds, and the draws that would be needed.
    """
    _check.positive_finite(ratio=ratio, noise_multiplier=noise_multiplier)
    _check.at_least(4, draws=draws)
    _check.probability(wanted=wanted)
    check_significance(significance)
    check_delta(delta)
    claimed, true = 1 / noise_multiplier, ratio / noise_multiplier
    tests = _tests(true, claimed, delta=delta, significance=significance)
    return PowerResult(
        ratio=ratio,
        noise_multiplier=noise_multiplier,
        delta=delta,
        significance=significance,
        draws=draws,
        wanted=wanted,
        claimed_mu=claimed,
        true_mu=true,
        claimed_epsilon=pair_epsilon(claimed, delta),
        true_epsilon=pair_epsilon(true, delta),
        procedures=tuple(_power(test, draws, wanted) for test in tests),
        curve=_curve(tests, delta),
    )


def chance_to_refute(mu: float, *, claimed: float, draws: int, significance: float) -> float:
    """Probability that the trade-off bound refutes a Gaussian claim.

    Args:
        mu: Of the step that runs.
        claimed: Mu of the step that is promised.
        draws: Of each neighbour.
        significance: Error probability of the bound.

    Returns:
        The probability.
    """
    test = _tests(mu, claimed, delta=0.0, significance=significance)[0]
    return test.refutes(draws // 2)[0]


def draws_to_refute(
    mu: float, *, claimed: float, significance: float, wanted: float = 0.95
) -> int | None:
    """Draws of each neighbour with which the trade-off bound refutes a Gaussian claim.

    Args:
        mu: Of the step that runs.
        claimed: Mu of the step that is promised.
        significance: Error probability of the bound.
        wanted: Probability of refuting.

    Returns:
        The draws; None if there is no excess, or it needs more than 1e12.
    """
    test = _tests(mu, claimed, delta=0.0, significance=significance)[0]
    return _needed(test, wanted)


def _tests(mu: float, claimed: float, *, delta: float, significance: float) -> tuple[_Test, _Test]:
    """The trade-off bound, and the (epsilon, delta) bound."""
    return (
        _Test(
            procedure="trade-off",
            claimed_mu=claimed,
            mu=mu,
            each=bonferroni(significance, 2),
            delta=delta,
        ),
        _Test(
            procedure="epsilon-delta",
            claimed_mu=claimed,
            mu=mu,
            each=bonferroni(significance, 2 * N_DELTAS),
            delta=delta,
        ),
    )


def _power(test: _Test, draws: int, wanted: float) -> ProcedurePower:
    """What one procedure does at this number of draws, and how many it needs."""
    refutes, shift = test.refutes(draws // 2)
    return ProcedurePower(
        procedure=test.procedure,
        claimed=test.claimed,
        expected_bound=test.expected(draws // 2)[0],
        refutes=refutes,
        false_positive_rate=float(ndtr(-shift)),
        draws_needed=_needed(test, wanted),
        draws_until_expected=_first(test, lambda n: test.expected(n)[0] > test.claimed),
    )


def _needed(test: _Test, wanted: float) -> int | None:
    """Draws of each neighbour that refute with the wanted probability."""
    return _first(test, lambda n: test.refutes(n)[0] >= wanted)


def _first(test: _Test, holds: Callable[[int], bool]) -> int | None:
    """The fewest draws of each neighbour from which on something holds of the judged half."""
    if test.mu <= test.claimed_mu:
        return None
    low, high = 1, MOST_DRAWS // 2
    if not holds(high):
        return None
    while high - low > max(1, low // 200):  # to half a per cent
        middle = math.isqrt(low * high)
        middle = min(max(middle, low + 1), high - 1)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return 2 * high


def _curve(tests: Sequence[_Test], delta: float) -> tuple[CurvePoint, ...]:
    """Expected bounds from 100 draws to 1e10."""
    found = []
    for exponent in range(8, 41):
        draws = round(10 ** (exponent / 4))
        mu, epsilon = (test.expected(draws // 2)[0] for test in tests)
        found.append(
            CurvePoint(
                draws=draws, mu=mu, tradeoff_epsilon=pair_epsilon(mu, delta), epsilon=epsilon
            )
        )
    return tuple(found)


def _counts(n: int, q: float) -> tuple[Array, Array]:
    """Counts of n draws at rate q that matter, with their probabilities."""
    reach = 9 * math.sqrt(n * q * (1 - q)) + 40
    low, high = max(0, math.floor(n * q - reach)), min(n, math.ceil(n * q + reach))
    step = max(1, -(-(high - low + 1) // _MOST_COUNTS))
    ends = np.arange(low, high + step, step, dtype=np.float64)
    weights = binom.cdf(ends + step - 1, n, q) - binom.cdf(ends - 1, n, q)
    return np.minimum(n, ends + (step - 1) / 2), weights


def _density(x: Array) -> Array:
    """Of the standard normal, never 0."""
    return np.maximum(np.exp(-x * x / 2) / math.sqrt(2 * math.pi), _TINY)
