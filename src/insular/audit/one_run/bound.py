"""Privacy audited by one training run: many canaries, each in the data by a coin of its own.

The auditor scores every canary, guesses that the highest were in and the lowest were not, and
counts the right guesses. How many can be right is bounded for every mechanism that keeps its
promise, whatever the scores are: no score need be independent of another.
"""

from collections.abc import Sequence

import numpy as np
from scipy.stats import binom

from insular import _check
from insular.accounting.pair import check_delta
from insular.audit.one_run.curve import (
    curve_epsilon_bound,
    curve_p_value,
    mu_bound,
    point_curve_p_value,
)
from insular.audit.one_run.results import (
    GuessCounts,
    Guesses,
    GuessPoint,
    OneRunAttempt,
    OneRunBound,
)
from insular.audit.statistics.bounds import Claim
from insular.audit.statistics.rates import bonferroni
from insular.errors import InvalidArgumentError

_MOST_EPSILON = 100.0
_HALVINGS = 40

Array = np.ndarray


def count_correct(scores: Array, present: Array, counts: GuessCounts) -> Guesses:
    """Guess the canaries with the highest scores in and those with the lowest out.

    Guarantees:
        * Equal scores are told apart by their position, of which the coins know nothing.

    Args:
        scores: One number a canary.
        present: For each, whether it was in the data.
        counts: How many are guessed, fixed before the scores were seen.

    Returns:
        The guesses with the right ones counted.

    Raises:
        InvalidArgumentError: If the arrays do not fit, or more is guessed than there is.
    """
    _check_scores(scores, present, (counts,))
    order = np.argsort(scores, kind="stable")
    top, bottom = order[len(order) - counts.highest :], order[: counts.lowest]
    correct = int(present[top].sum() + (~present[bottom]).sum())
    return Guesses(n_canaries=len(scores), n=counts.n, correct=correct)


def point_p_value(guesses: Guesses, *, epsilon: float, delta: float) -> float:
    r"""The most probable that so many guesses are right, if every canary is (epsilon, delta)-DP.

    The lesser of two bounds on one probability: that of the curve of the point, and

    .. math:: P[W \ge v] + 2 m \delta \max_{1 \le i \le v} P[v > W \ge v - i] / i,
        \quad W \sim \mathrm{Binomial}(r, e^\epsilon / (1 + e^\epsilon))

    for v right ones of r guesses about m canaries. With a large m delta the first is far lower.

    Guarantees:
        * Nothing is assumed of the mechanism, nor of how the scores depend on each other.

    Args:
        guesses: Guesses, their number fixed before the scores were seen.
        epsilon: Claimed, in nats.
        delta: From 0, below 1.

    Returns:
        From 0 to 1.

    Source:
        Steinke, Nasr, Jagielski (2023), Privacy auditing with one (1) training run, theorem 5.2;
        Mahloujifar, Melis, Chaudhuri (2024) for the other.
    """
    _check.non_negative_finite(epsilon=epsilon)
    check_delta(delta)
    other = point_curve_p_value(guesses, epsilon=epsilon, delta=delta)
    return min(other, binomial_p_value(guesses, epsilon=epsilon, delta=delta))


def binomial_p_value(guesses: Guesses, *, epsilon: float, delta: float) -> float:
    """The formula of :func:`point_p_value` by itself.

    Args:
        guesses: Guesses, their number fixed before the scores were seen.
        epsilon: Claimed, in nats.
        delta: From 0, below 1.

    Returns:
        From 0 to 1.
    """
    n, v, right = guesses.n, guesses.correct, 1 / (1 + np.exp(-epsilon))
    tail = float(binom.sf(v - 1, n, right))
    if delta == 0 or v == 0:
        return min(1.0, tail)
    below = np.arange(1, v + 1)
    mass = np.cumsum(binom.pmf(v - below, n, right)) / below
    return min(1.0, tail + 2 * guesses.n_canaries * delta * float(mass.max()))


def epsilon_bound(guesses: Guesses, *, delta: float, significance: float) -> float:
    """The largest epsilon at which so many right guesses are refuted.

    Guarantees:
        * Above the truth with probability ``significance`` at most: both p-values of
          :func:`point_p_value` bound one probability, so that the larger of two bounds is free.
        * With all of r guesses right and delta 0, ``log(p / (1 - p))`` with p the r-th root of
          ``significance``: the ceiling of every attack.

    Args:
        guesses: Guesses, their number fixed before the scores were seen.
        delta: From 0, below 1.
        significance: Error probability.

    Returns:
        Epsilon in nats, at least 0.
    """
    by_curve = curve_epsilon_bound(guesses, delta=delta, significance=significance)
    low, high = by_curve, _MOST_EPSILON
    if binomial_p_value(guesses, epsilon=low, delta=delta) > significance:
        return by_curve
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if binomial_p_value(guesses, epsilon=middle, delta=delta) <= significance:
            low = middle
        else:
            high = middle
    return low


def one_run_bound(
    scores: Array,
    present: Array,
    *,
    counts: Sequence[GuessCounts],
    delta: float,
    significance: float = 0.05,
    claim: Claim | None = None,
    two_sided: bool = False,
) -> OneRunBound:
    """Bound a run's privacy from below by the scores of its canaries.

    Guarantees:
        * Each of ``counts``, and each direction of the scores, is paid for: together they are wrong
          with probability ``significance`` at most.
        * Reversed scores prove nothing, unless ``two_sided`` asks for them; then scores and
          reversed scores prove the same.

    Args:
        scores: One number a canary; higher speaks for its presence.
        present: For each canary, whether it was in the data, by a fair coin of its own.
        counts: How many are guessed, fixed before the scores were seen.
        delta: Of the bound on epsilon.
        significance: Error probability of each kind of bound.
        claim: A promised curve to be refuted, or the mu of a Gaussian one.
        two_sided: Whether scores may as well speak for absence.

    Returns:
        All attempts.

    Raises:
        InvalidArgumentError: If the arrays do not fit, or nothing is guessed.
    """
    if not counts:
        raise InvalidArgumentError("counts must hold at least one number of guesses, got none.")
    _check_scores(scores, present, counts)
    sides = (False, True) if two_sided else (False,)
    each = bonferroni(significance, len(counts) * len(sides))
    found = []
    for count in counts:
        for side in sides:
            guesses = count_correct(-scores if side else scores, present, count)
            best = guesses.perfect
            found.append(
                OneRunAttempt(
                    counts=count,
                    reversed=side,
                    correct=guesses.correct,
                    epsilon_lower_bound=epsilon_bound(guesses, delta=delta, significance=each),
                    largest_epsilon=epsilon_bound(best, delta=delta, significance=each),
                    mu_lower_bound=mu_bound(guesses, significance=each),
                    largest_mu=mu_bound(best, significance=each),
                    claim_p_value=None if claim is None else curve_p_value(guesses, claim),
                )
            )
    return OneRunBound(
        n_canaries=len(scores),
        n_present=int(present.sum()),
        delta=delta,
        significance=significance,
        attempts=tuple(found),
    )


def other_counts(
    scores: Array,
    present: Array,
    *,
    attempt: OneRunAttempt,
    delta: float,
    significance: float,
    n_points: int = 24,
) -> tuple[GuessPoint, ...]:
    """What other numbers of guesses would have proven, in the proportion of an attempt.

    Each is as if it alone had been fixed before the run, so the largest of them is no bound.

    Args:
        scores: One number a canary.
        present: For each, whether it was in the data.
        attempt: Gives proportion and direction.
        delta: Of the bound.
        significance: Of each bound by itself.
        n_points: At most.

    Returns:
        From a few guesses to as many as there can be, ascending.
    """
    share = attempt.counts.highest / attempt.counts.n
    numbers = np.unique(np.geomspace(min(5, len(scores)), len(scores), n_points).round())
    found = []
    for n in map(int, [*numbers, attempt.counts.n]):
        highest = attempt.counts.highest if n == attempt.counts.n else round(n * share)
        count = GuessCounts(highest=highest, lowest=n - highest)
        guesses = count_correct(-scores if attempt.reversed else scores, present, count)
        found.append(
            GuessPoint(
                n=n,
                correct=guesses.correct,
                epsilon_lower_bound=epsilon_bound(guesses, delta=delta, significance=significance),
                largest_epsilon=epsilon_bound(
                    guesses.perfect, delta=delta, significance=significance
                ),
            )
        )
    return tuple({point.n: point for point in sorted(found, key=lambda one: one.n)}.values())


def _check_scores(scores: Array, present: Array, counts: Sequence[GuessCounts]) -> None:
    """Refuse arrays that do not fit."""
    if scores.ndim != 1 or scores.shape != present.shape or present.dtype != np.bool_:
        raise InvalidArgumentError(
            "scores and present must be a number and a bool for each canary, got"
            f" {scores.dtype} {scores.shape} and {present.dtype} {present.shape}."
        )
    if not np.isfinite(scores).all():
        raise InvalidArgumentError("scores must be finite, got one that is not.")
    for count in counts:
        if count.n > len(scores):
            raise InvalidArgumentError(
                f"guesses must be at most the {len(scores)} canaries, got {count.n}; guess fewer."
            )
