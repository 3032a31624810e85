"""Exact bounds on rates, what several tests cost, and what two rates say about epsilon."""

from typing import Literal

import numpy as np
from scipy.special import betainccinv, betaincinv

from insular import _check
from insular.accounting.pair import check_delta
from insular.audit.statistics.bounds import Rate
from insular.errors import InvalidArgumentError

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
