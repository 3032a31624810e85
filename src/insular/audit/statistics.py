"""Every statistic of an attack, once: exact rates, corrections, bounds on held-out draws.

Scores are numbers of which one neighbour has more than the other, or less: both are looked for.
A threshold is chosen on half of the draws and judged on the other half, so that no correction for
the choice is needed.
"""

from collections.abc import Sequence
from typing import Literal, cast

import numpy as np
from scipy.special import betainccinv, betaincinv, ndtri

from insular import _check
from insular.accounting import TradeoffCurve
from insular.accounting.pair import check_delta
from insular.audit.release_results import (
    Claim,
    EpsilonBound,
    Rate,
    Side,
    TradeoffBound,
    gaussian_quantile,
    promised_rate,
)
from insular.errors import InvalidArgumentError

N_THRESHOLDS = 1001
"""Pooled quantiles among which a threshold is chosen."""
CAUTION = 1e-6
"""Significance at which the trade-off bound compares thresholds. At the test's own, noise of the
comparison prefers thresholds in the tails, which the other half then cannot resolve."""

Array = np.ndarray


def clopper_pearson(
    count: int,
    n: int,
    *,
    significance: float,
    sides: Literal["two", "lower", "upper"] = "two",
) -> tuple[float, float]:
    """Exact bounds on the probability of something that happened ``count`` times in ``n``.

    Guarantees:
        * The interval misses the truth with probability at most ``significance``, for every n.
        * Exact at count 0 and n, and at significances down to 1e-300.

    Args:
        count: From 0 to n.
        n: Trials, at least 1.
        significance: Error probability of the interval.
        sides: Both bounds, or one; then the other is 0 or 1.

    Returns:
        Lower and upper bound.

    Raises:
        InvalidArgumentError: If a number breaks its rule.

    Source:
        Clopper and Pearson (1934).
    """
    _check.at_least(1, n=n)
    _check.at_least(0, count=count)
    _check.one_of(("two", "lower", "upper"), sides=sides)
    check_significance(significance)
    if count > n:
        raise InvalidArgumentError(f"count must be at most n, got count={count} and n={n}.")
    each = significance / 2 if sides == "two" else significance
    return (
        0.0 if sides == "upper" else float(lower_rate(count, n, each)),
        1.0 if sides == "lower" else float(upper_rate(count, n, each)),
    )


def rate_of(count: int, n: int, *, significance: float) -> Rate:
    """A rate with both one-sided bounds, each at ``significance``.

    Args:
        count: From 0 to n.
        n: Trials.
        significance: Error probability of each bound.

    Returns:
        The rate.
    """
    lower, _ = clopper_pearson(count, n, significance=significance, sides="lower")
    _, upper = clopper_pearson(count, n, significance=significance, sides="upper")
    return Rate(count=count, n=n, lower=lower, upper=upper, significance=significance)


def bonferroni(significance: float, n_tests: int) -> float:
    """The significance of each of several tests that are together right with 1 - significance.

    Args:
        significance: Of the family.
        n_tests: Its size.

    Returns:
        The significance of each.
    """
    check_significance(significance)
    _check.at_least(1, n_tests=n_tests)
    return significance / n_tests


def holm(p_values: Sequence[float], *, significance: float) -> tuple[bool, ...]:
    """Which hypotheses of a family are refuted, with no false refutation at 1 - significance.

    Guarantees:
        * Refutes whatever Bonferroni's correction refutes, and at times more.

    Args:
        p_values: One for each hypothesis.
        significance: Of the family.

    Returns:
        True for each that is refuted, in their order.

    Source:
        Holm (1979).
    """
    check_significance(significance)
    for p in p_values:
        _check.probability(p_value=p)
    refuted = [False] * len(p_values)
    for done, i in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        if p_values[i] > significance / (len(p_values) - done):
            break
        refuted[i] = True
    return tuple(refuted)


def epsilon_from_rates(p_lower: float, q_upper: float, *, delta: float) -> float:
    """The epsilon below which no mechanism has these rates: max(0, log((p - delta) / q)).

    Args:
        p_lower: Lower bound on the rate of one neighbour.
        q_upper: Upper bound on the rate of the other, above 0.
        delta: From 0, below 1.

    Returns:
        Epsilon in nats.
    """
    check_delta(delta)
    _check.probability(p_lower=p_lower, q_upper=q_upper)
    _check.positive_finite(q_upper=q_upper)
    return max(0.0, float(np.log((p_lower - delta) / q_upper))) if p_lower > delta else 0.0


def largest_epsilon(n: int, *, significance: float, delta: float) -> float:
    """The largest epsilon that n held-out draws of each neighbour can certify, by any attack.

    Args:
        n: Draws of each neighbour that are judged.
        significance: Error probability of each of the two rates.
        delta: Of the bound.

    Returns:
        Epsilon in nats, of a perfect attack.
    """
    _, upper = clopper_pearson(0, n, significance=significance, sides="upper")
    return epsilon_from_rates(1 - upper, upper, delta=delta)


def epsilon_bounds(
    without: Array, with_record: Array, *, deltas: Sequence[float], significance: float = 0.05
) -> tuple[EpsilonBound, ...]:
    """Lower bounds on epsilon at several deltas.

    For each delta one half of the draws chooses a threshold among 1,001 pooled quantiles, the side
    of it and the neighbour that is to be positive, by the bound that they give there; the other
    half judges that choice. Ties go to the lowest threshold.

    Guarantees:
        * All bounds hold together with probability 1 - significance.
        * The same for scores of opposite sign.

    Args:
        without: Scores of independent draws without the record.
        with_record: Scores with it.
        deltas: Deltas of the bounds.
        significance: Error probability of all of them together.

    Returns:
        One bound for each delta.

    Source:
        Jagielski et al. (2020); Nasr et al. (2021); the choice of the threshold follows the
        sensitivity-inflation paper (arXiv 2611.01411), section 6.5.
    """
    each = bonferroni(significance, 2 * max(1, len(deltas)))
    chosen, judged = _halves(without, with_record)
    thresholds = _thresholds(chosen)
    found = []
    for delta in deltas:
        check_delta(delta)
        best = None
        for side in ("above", "below"):
            counts = [_counts(scores, thresholds, side) for scores in chosen]
            for positive in (1, 0):
                p = lower_rate(counts[positive], len(chosen[positive]), each)
                q = upper_rate(counts[1 - positive], len(chosen[1 - positive]), each)
                objective = (p - delta) / q
                at = int(np.argmax(objective))
                if best is None or objective[at] > best[0]:
                    best = (objective[at], thresholds[at], side, positive)
        assert best is not None
        _, threshold, side, positive = best
        p, q = (
            rate_of(_count(judged[i], threshold, side), len(judged[i]), significance=each)
            for i in (positive, 1 - positive)
        )
        found.append(
            EpsilonBound(
                epsilon_lower_bound=epsilon_from_rates(p.lower, q.upper, delta=delta),
                delta=delta,
                threshold=float(threshold),
                side=cast(Side, side),
                positive="with" if positive else "without",
                p=p,
                q=q,
                n_selection=min(map(len, chosen)),
                significance=significance,
            )
        )
    return tuple(found)


def tradeoff_bound(
    without: Array, with_record: Array, *, claim: Claim = 0.0, significance: float = 0.05
) -> TradeoffBound:
    """The error rates that an attacker reaches, to hold against a promised trade-off curve.

    One half of the draws chooses a threshold among 1,001 pooled quantiles and the side of it,
    where the attacker's point lies furthest beyond the claim, rates bounded with caution; the other
    half judges it.

    Guarantees:
        * Both rates hold together with probability 1 - significance, whatever the mechanism.
        * The same for scores of opposite sign.

    Args:
        without: Scores of independent draws without the record.
        with_record: Scores with it.
        claim: What the bound is to refute; it only moves the choice of the threshold.
        significance: Error probability of both rates together.

    Returns:
        The bound.

    Source:
        Dong, Roth and Su (2022), Gaussian differential privacy; Nasr et al. (2023), Tight auditing
        of differentially private machine learning.
    """
    each = bonferroni(significance, 2)
    chosen, judged = _halves(without, with_record)
    thresholds = _thresholds(chosen)
    best: tuple[float, float, Side] | None = None
    for side in ("above", "below"):
        counts = [_counts(scores, thresholds, side) for scores in chosen]
        fpr = upper_rate(counts[0], len(chosen[0]), CAUTION)
        beyond = ndtri(lower_rate(counts[1], len(chosen[1]), CAUTION)) - _promised(claim, fpr)
        at = int(np.argmax(np.nan_to_num(beyond, nan=-np.inf)))
        if best is None or beyond[at] > best[0]:
            best = (float(beyond[at]), float(thresholds[at]), cast(Side, side))
    assert best is not None
    _, threshold, side = best
    fpr, tpr = (
        rate_of(_count(scores, threshold, side), len(scores), significance=each)
        for scores in judged
    )
    return TradeoffBound(
        mu_lower_bound=max(0.0, gaussian_quantile(tpr.lower) - gaussian_quantile(fpr.upper)),
        threshold=threshold,
        side=side,
        tpr=tpr,
        fpr=fpr,
        n_selection=min(map(len, chosen)),
        significance=significance,
    )


def lower_rate(count: "Array | float", n: float, significance: float) -> Array:
    """Clopper-Pearson's lower bound of each count, at ``significance``; counts may be fractions."""
    count = np.asarray(count, dtype=np.float64)
    inside = betaincinv(np.maximum(count, 0.5), np.maximum(n - count, 0.0) + 1, significance)
    whole = np.exp(np.log(significance) / n)
    return np.where(count <= 0, 0.0, np.where(count >= n, whole, inside))


def upper_rate(count: "Array | float", n: float, significance: float) -> Array:
    """Clopper-Pearson's upper bound of each count, at ``significance``; counts may be fractions."""
    count = np.asarray(count, dtype=np.float64)
    inside = betainccinv(np.maximum(count, 0.0) + 1, np.maximum(n - count, 0.5), significance)
    none = -np.expm1(np.log(significance) / n)
    return np.where(count >= n, 1.0, np.where(count <= 0, none, inside))


def check_significance(significance: float) -> None:
    """Refuse a significance that is not a number above 0 and below 1.

    Raises:
        InvalidArgumentError: With the rule and the value.
    """
    _check.probability(significance=significance)
    if significance in (0, 1):
        raise InvalidArgumentError(
            f"significance must be above 0 and below 1, got significance={significance!r}."
        )


def _halves(without: Array, with_record: Array) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """The draws that choose and those that judge, sorted; every other draw, so both run along."""
    for name, scores in (("without", without), ("with_record", with_record)):
        if np.ndim(scores) != 1 or len(scores) < 2 or np.isnan(scores).any():
            raise InvalidArgumentError(
                f"{name} must hold at least 2 scores in one row, none NaN; got shape "
                f"{np.shape(scores)}."
            )
    chosen = np.sort(without[::2]), np.sort(with_record[::2])
    return chosen, (np.sort(without[1::2]), np.sort(with_record[1::2]))


def _thresholds(chosen: tuple[Array, Array]) -> Array:
    """Pooled quantiles, ascending."""
    return np.quantile(np.concatenate(chosen), np.linspace(0, 1, N_THRESHOLDS))


def _counts(ordered: Array, thresholds: Array, side: str) -> Array:
    """How many of the sorted scores lie strictly beyond each threshold."""
    if side == "below":
        return np.searchsorted(ordered, thresholds, side="left")
    return len(ordered) - np.searchsorted(ordered, thresholds, side="right")


def _count(ordered: Array, threshold: float, side: str) -> int:
    """The same for one threshold."""
    return int(_counts(ordered, np.array([threshold]), side)[0])


def _promised(claim: Claim, fpr: Array) -> Array:
    """Normal quantile of the true positive rate that the claim allows at each rate."""
    if isinstance(claim, TradeoffCurve):
        return ndtri(np.array([promised_rate(claim, float(rate)) for rate in fpr]))
    _check.non_negative_finite(claim=claim)
    return ndtri(fpr) + claim
