r"""Right guesses in one run, held against a whole trade-off curve.

Let p_j be the probability that exactly j of r guesses about m canaries are right. If adding or
removing one canary obeys a trade-off curve, whose best true positive rate at a false positive rate
x is B(x), then for every j

    sum_{i >= j} (i / m) p_i  <=  B( sum_{i >= j-1} ((r - i) / m) p_i ).

(For one canary and fixed coins of the others, "its guess is right and j - 1 others are" under one
coin is the same event as "its guess is wrong and j - 1 others are right" under the other; B is
concave, so it may be averaged over canaries and coins.) Given a tail P[right >= v] = tau, all of it
at v itself and the smallest mass allowed below are the cheapest way to satisfy every inequality. If
even that needs more than all probability there is, tau cannot happen.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.special import ndtr, ndtri

from insular import _check
from insular.accounting import TradeoffCurve
from insular.accounting.pair import check_delta
from insular.audit.one_run.results import Guesses
from insular.audit.statistics.bounds import Claim
from insular.audit.statistics.rates import check_significance

LEAST_P_VALUE = 1e-12
"""Smaller p-values are given as this one."""
_MOST_MU, _MOST_EPSILON = 16.0, 64.0
_GRID, _ROUNDS = 65, 4
_SLACK = 1e-9
"""How far the needed probability must exceed what there is, for rounding."""

Array = np.ndarray
Bend = Callable[[Array], Array]
"""The least false positive rate that allows each true positive rate, or less."""


def curve_p_value(guesses: Guesses, claim: Claim) -> float:
    """The most probable that so many guesses are right, if every canary is under the claimed curve.

    Guarantees:
        * Never below the largest probability that the inequalities of this module allow.
        * Nothing is assumed of the mechanism, nor of how the scores depend on each other.

    Args:
        guesses: Guesses, their number fixed before the scores were seen.
        claim: The promise: a curve, or the mu of a Gaussian one.

    Returns:
        From 1e-12 to 1.

    Source:
        Mahloujifar, Melis, Chaudhuri (2024), Auditing f-differential privacy in one run, section 3.
    """
    return _p_value(guesses, least_rates(claim))


def mu_bound(guesses: Guesses, *, significance: float) -> float:
    """The largest mu whose Gaussian curve is refuted.

    Guarantees:
        * Above the truth with probability ``significance`` at most.

    Args:
        guesses: Guesses, their number fixed before the scores were seen.
        significance: Error probability.

    Returns:
        At least 0; to four digits, from below.
    """
    return _largest(guesses, _gaussian, most=_MOST_MU, significance=significance)


def curve_epsilon_bound(guesses: Guesses, *, delta: float, significance: float) -> float:
    """The largest epsilon whose curve, that of the one point (epsilon, delta), is refuted.

    Guarantees:
        * Above the truth with probability ``significance`` at most.

    Args:
        guesses: Guesses, their number fixed before the scores were seen.
        delta: From 0, below 1.
        significance: Error probability.

    Returns:
        Epsilon in nats, at least 0, from below.
    """
    check_delta(delta)

    def bend(rates: Array, epsilon: Array) -> Array:
        return _two_lines(rates, epsilon, delta)

    return _largest(guesses, bend, most=_MOST_EPSILON, significance=significance)


def point_curve_p_value(guesses: Guesses, *, epsilon: float, delta: float) -> float:
    """As ``curve_p_value`` for the curve of the one point (epsilon, delta).

    Args:
        guesses: Guesses, their number fixed before the scores were seen.
        epsilon: Claimed, in nats.
        delta: From 0, below 1.

    Returns:
        From 1e-12 to 1.
    """
    _check.non_negative_finite(epsilon=epsilon)
    check_delta(delta)
    return _p_value(guesses, lambda rates: _two_lines(rates, np.float64(epsilon), delta))


def fewest_correct(n: int, *, n_canaries: int, claim: Claim, significance: float) -> int | None:
    """The fewest right guesses that refute a claim.

    Args:
        n: Guesses.
        n_canaries: Canaries.
        claim: The promise.
        significance: Error probability.

    Returns:
        The number; None if all guesses right would not do it.
    """
    _check.at_least(1, n=n, n_canaries=n_canaries)
    check_significance(significance)
    bend = least_rates(claim)
    high, low = np.zeros(n + 1), np.zeros(n + 1)  # a column for each number of right guesses
    for j in range(n, 0, -1):
        high[j] = significance * j / n_canaries
        low[j] = significance * (n - j) / n_canaries
        high, low = _step(high, low, bend, j, n)
    refuting = np.flatnonzero(_too_much(high, low, n, n_canaries))
    return int(refuting[0]) if len(refuting) else None


def least_rates(claim: Claim) -> Bend:
    """The inverse of a promise: the least false positive rate at each true positive rate.

    Guarantees:
        * Never above the truth, so that what it excludes was not promised.

    Args:
        claim: A curve, or the mu of a Gaussian one.

    Returns:
        A function of true positive rates.
    """
    if isinstance(claim, TradeoffCurve):
        return _inverse(claim)
    _check.non_negative_finite(claim=claim)
    mu = np.float64(claim)
    return lambda rates: _gaussian(rates, mu)


def _p_value(guesses: Guesses, bend: Bend) -> float:
    """The least probability on a fine grid that so many right guesses cannot have."""
    low, high = np.log(LEAST_P_VALUE), 0.0
    if not _impossible(guesses, bend, np.ones(1))[0]:
        return 1.0
    for _ in range(_ROUNDS):
        grid = np.linspace(low, high, _GRID)
        impossible = _impossible(guesses, bend, np.exp(grid))
        first = int(np.argmax(impossible))  # all above are impossible as well
        low, high = grid[max(first - 1, 0)], grid[first]
    return float(np.exp(high))


def _largest(
    guesses: Guesses,
    bend: Callable[[Array, Array], Array],
    *,
    most: float,
    significance: float,
) -> float:
    """The largest parameter on a fine grid whose curve is refuted; curves grow with it."""
    check_significance(significance)
    low, high = 0.0, most
    for _ in range(_ROUNDS):
        grid = np.linspace(low, high, _GRID)
        refuted = _impossible(guesses, partial(_with, bend, grid), np.full(_GRID, significance))
        if not refuted[0]:
            return low
        last = int(np.flatnonzero(refuted)[-1])
        low, high = float(grid[last]), float(grid[min(last + 1, _GRID - 1)])
    return low


def _with(bend: Callable[[Array, Array], Array], parameters: Array, rates: Array) -> Array:
    """A curve for each column."""
    return bend(rates, parameters)


def _impossible(guesses: Guesses, bend: Bend, tails: Array) -> Array:
    """For each probability, whether so many right guesses cannot have it."""
    n, m, v = guesses.n, guesses.n_canaries, guesses.correct
    if v == 0:
        return np.zeros(len(tails), dtype=bool)
    high, low = tails * v / m, tails * (n - v) / m
    for j in range(v, 0, -1):
        high, low = _step(high, low, bend, j, n)
    return _too_much(high, low, n, m)


def _step(high: Array, low: Array, bend: Bend, j: int, n: int) -> tuple[Array, Array]:
    """Right and wrong guesses of the tail from ``j`` on, and then from ``j - 1`` on, at least."""
    wrong = np.maximum(low, bend(high))
    return high + (j - 1) / (n - j + 1) * (wrong - low), wrong


def _too_much(high: Array, low: Array, n: int, n_canaries: int) -> Array:
    """Whether all cases together need more than certainty."""
    return high + low > n / n_canaries * (1 + _SLACK)


def _gaussian(rates: Array, mu: "Array | np.float64") -> Array:
    """``Phi(Phi^-1(rate) - mu)``."""
    return ndtr(ndtri(np.minimum(rates, 1.0)) - mu)


def _two_lines(rates: Array, epsilon: "Array | np.float64", delta: float) -> Array:
    """The inverse of the curve of one point, ``delta + e^epsilon x`` and its mirror image."""
    rates = np.minimum(rates, 1.0)
    direct = (rates - delta) * np.exp(-epsilon)
    mirrored = 1 - delta - np.exp(epsilon) * (1 - rates)
    return np.maximum(0.0, np.maximum(direct, mirrored))


def _inverse(curve: TradeoffCurve) -> Bend:
    """Between samples, the chords of the neighbouring intervals bound a concave curve."""
    x = np.asarray(curve.false_positive_rates)
    y = np.asarray(curve.true_positive_rates)
    x, y = np.append(x, 1.0), np.append(y, 1.0)
    keep = np.concatenate([[True], np.diff(x) > 0])
    x, y = x[keep], y[keep]
    slopes = np.diff(y) / np.diff(x)
    before = np.concatenate([[np.inf], slopes[:-1]])
    after = np.concatenate([slopes[1:], [0.0]])

    def bend(rates: Array) -> Array:
        rates = np.minimum(rates, 1.0)
        at = np.clip(np.searchsorted(y, rates, side="left") - 1, 0, len(slopes) - 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            by_before = x[at] + (rates - y[at]) / before[at]
            by_after = x[at + 1] - (y[at + 1] - rates) / after[at]
        found = np.fmax(np.fmax(by_before, by_after), x[at])
        return np.where(rates <= y[0], 0.0, np.minimum(found, x[at + 1]))

    return bend
