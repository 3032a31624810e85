"""The bound of one run: ceilings, reversed and null scores, mechanisms whose epsilon is known.

Where a test repeats a seeded experiment, its false-alarm probability is written beside it; the
seeds are fixed.
"""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from insular.accounting import pair_epsilon
from insular.audit.one_run.bound import (
    binomial_p_value,
    count_correct,
    epsilon_bound,
    one_run_bound,
    other_counts,
    point_p_value,
)
from insular.audit.one_run.curve import curve_p_value, mu_bound
from insular.audit.one_run.results import GuessCounts, Guesses
from insular.errors import InvalidArgumentError

Array = np.ndarray


def perfect(n: int) -> Guesses:
    return Guesses(n_canaries=n, n=n, correct=n)


def coins(m: int, rng: np.random.Generator) -> Array:
    return rng.random(m) < 0.5


# worked examples


@pytest.mark.parametrize(("n", "ceiling"), [(1000, 5.600577), (100, 3.281336)])
def test_ceiling_of_a_perfect_attack_two_sided(n: int, ceiling: float) -> None:
    # 0.05 over both directions: p = 0.025^(1/n), log(p / (1 - p))
    for delta in (0.0, 1e-5):
        found = epsilon_bound(perfect(n), delta=delta, significance=0.025)
        assert found == pytest.approx(ceiling, abs=0.005)


@pytest.mark.parametrize(("n", "ceiling"), [(1000, 5.80906), (100, 3.49299)])
def test_ceiling_of_a_perfect_attack_one_sided(n: int, ceiling: float) -> None:
    assert epsilon_bound(perfect(n), delta=0.0, significance=0.05) == pytest.approx(
        ceiling, abs=1e-4
    )
    assert epsilon_bound(perfect(n), delta=1e-5, significance=0.05) < ceiling


def test_case_aud_03_reversed_scores_prove_the_same_where_both_directions_are_paid_for() -> None:
    # 1,000 absent canaries at 1, 1,000 present ones at 0, half of them guessed
    scores, present = np.repeat([0.0, 1.0], 1000), np.repeat([True, False], 1000)
    counts = [GuessCounts(highest=500, lowest=500)]
    found = [
        one_run_bound(sign * scores, present, counts=counts, delta=1e-5, two_sided=True)
        for sign in (1, -1)
    ]
    assert found[0].epsilon_lower_bound == found[1].epsilon_lower_bound
    assert 4.4 <= found[0].epsilon_lower_bound <= 5.81
    assert found[0].epsilon_lower_bound == pytest.approx(5.600577, abs=0.02)
    one_way = one_run_bound(scores, present, counts=counts, delta=0.0)
    assert one_way.epsilon_lower_bound == one_way.mu_lower_bound == 0.0
    assert one_way.attempts[0].correct == 0


def test_three_canaries_by_hand() -> None:
    scores, present = np.array([0.3, -1.0, 2.0]), np.array([False, True, True])
    assert count_correct(scores, present, GuessCounts(highest=1, lowest=1)).correct == 1
    assert count_correct(scores, present, GuessCounts(highest=2, lowest=0)).correct == 1
    assert count_correct(scores, present, GuessCounts(highest=1, lowest=0)).correct == 1
    assert count_correct(-scores, present, GuessCounts(highest=1, lowest=1)).correct == 1
    # two right of two at epsilon log 3: (3/4)^2
    two = Guesses(n_canaries=3, n=2, correct=2)
    assert point_p_value(two, epsilon=np.log(3), delta=0.0) == pytest.approx(9 / 16)
    # and 2 m delta times the most of P[1]/1 = 6/16 and P[0 or 1]/2 = 7/32
    by_formula = binomial_p_value(two, epsilon=np.log(3), delta=0.01)
    assert by_formula == pytest.approx(9 / 16 + 0.06 * 6 / 16)
    assert 9 / 16 < point_p_value(two, epsilon=np.log(3), delta=0.01) < by_formula


# oracle and properties


def slow_p_value(guesses: Guesses, epsilon: float, delta: float) -> float:
    """Term by term."""
    right = np.exp(epsilon) / (1 + np.exp(epsilon))
    v = guesses.correct
    tail = sum(binom.pmf(w, guesses.n, right) for w in range(v, guesses.n + 1))
    most = 0.0
    for i in range(1, guesses.n_canaries + 1):
        most = max(most, sum(binom.pmf(w, guesses.n, right) for w in range(max(0, v - i), v)) / i)
    return min(1.0, tail + 2 * guesses.n_canaries * delta * most)


@given(st.integers(1, 30), st.integers(0, 10), st.data(), st.floats(0, 5), st.floats(0, 0.01))
def test_p_value_is_the_theorem_term_by_term(
    n: int, more: int, data: st.DataObject, epsilon: float, delta: float
) -> None:
    v = data.draw(st.integers(0, n))
    guesses = Guesses(n_canaries=n + more, n=n, correct=v)
    slow = slow_p_value(guesses, epsilon, delta)
    found = binomial_p_value(guesses, epsilon=epsilon, delta=delta)
    assert found == pytest.approx(slow, abs=1e-12)
    assert point_p_value(guesses, epsilon=epsilon, delta=delta) <= found


@given(st.integers(1, 60), st.data())
def test_bound_grows_with_right_guesses_and_significance(n: int, data: st.DataObject) -> None:
    v = data.draw(st.integers(1, n))
    few, many = (Guesses(n_canaries=60, n=n, correct=right) for right in (v - 1, v))
    bounds = [epsilon_bound(one, delta=1e-5, significance=0.05) for one in (few, many)]
    assert bounds[0] <= bounds[1]
    assert epsilon_bound(many, delta=1e-5, significance=0.01) <= bounds[1]
    if bounds[1] > 0:
        assert point_p_value(many, epsilon=bounds[1], delta=1e-5) <= 0.05 * 1.001


def test_equal_scores_are_told_apart_by_position() -> None:
    present = np.array([False] * 50 + [True] * 50)
    guesses = count_correct(np.zeros(100), present, GuessCounts(highest=10, lowest=10))
    again = count_correct(np.zeros(100), present[::-1], GuessCounts(highest=10, lowest=10))
    assert guesses.correct == 20 and again.correct == 0  # the order knows nothing of the coins


def test_every_number_of_guesses_is_paid_for() -> None:
    rng = np.random.default_rng(0)
    present = coins(400, rng)
    scores = rng.normal(0, 1, 400) + 3 * present
    counts = [GuessCounts(highest=n, lowest=n) for n in (20, 40, 80)]
    family = one_run_bound(scores, present, counts=counts, delta=1e-5, claim=1.0)
    for attempt, count in zip(family.attempts, counts, strict=True):
        alone = one_run_bound(scores, present, counts=[count], delta=1e-5, significance=0.05 / 3)
        assert attempt.epsilon_lower_bound == alone.epsilon_lower_bound
        assert attempt.mu_lower_bound == alone.mu_lower_bound
    p_values = [one.claim_p_value for one in family.attempts if one.claim_p_value is not None]
    assert family.claim_p_value == pytest.approx(min(1.0, 3 * min(p_values)))
    assert family.curve_refuted == (min(p_values) <= 0.05 / 3)
    assert family.best.epsilon_lower_bound == family.epsilon_lower_bound


def test_other_numbers_of_guesses_hold_the_fixed_one() -> None:
    rng = np.random.default_rng(1)
    present = coins(300, rng)
    scores = rng.normal(0, 1, 300) + 2 * present
    bound = one_run_bound(scores, present, counts=[GuessCounts(highest=33, lowest=11)], delta=1e-5)
    points = other_counts(scores, present, attempt=bound.best, delta=1e-5, significance=0.05)
    (fixed,) = [point for point in points if point.n == 44]
    assert fixed.epsilon_lower_bound == bound.epsilon_lower_bound
    assert fixed.largest_epsilon == bound.largest_epsilon
    assert [point.n for point in points] == sorted({point.n for point in points})
    assert points[-1].n == 300


# mechanisms whose epsilon is known


def randomised_response(present: Array, rng: np.random.Generator) -> Array:
    """Epsilon 2: each coin is told right with probability e^2 / (1 + e^2)."""
    right = rng.random(len(present)) < 1 / (1 + np.exp(-2.0))
    return np.where(right, present, ~present) + rng.uniform(0, 0.1, len(present))


def laplace(present: Array, rng: np.random.Generator) -> Array:
    """Epsilon 2: each coin with noise of scale 1/2."""
    return present + rng.laplace(0, 0.5, len(present))


def gaussian(present: Array, rng: np.random.Generator) -> Array:
    """Mu 1/2: each coin with noise of standard deviation 2; epsilon 1.99 at delta 1e-5."""
    return present + rng.normal(0, 2, len(present))


@pytest.mark.parametrize(
    ("mechanism", "epsilon", "delta", "mu"),
    [
        (randomised_response, 2.0, 0.0, None),
        (laplace, 2.0, 0.0, None),
        (gaussian, pair_epsilon(0.5, 1e-5), 1e-5, 0.5),
    ],
    ids=["randomised response", "Laplace", "Gaussian"],
)
@pytest.mark.parametrize("counts", [(100, 100), (40, 0)], ids=["all", "few"])
def test_no_bound_exceeds_the_truth_beyond_its_significance(
    mechanism: Callable[[Array, np.random.Generator], Array],
    epsilon: float,
    delta: float,
    mu: float | None,
    counts: tuple[int, int],
) -> None:
    fixed = GuessCounts(highest=counts[0], lowest=counts[1])
    above = above_mu = refuted = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        present = coins(200, rng)
        guesses = count_correct(mechanism(present, rng), present, fixed)
        above += epsilon_bound(guesses, delta=delta, significance=0.05) > epsilon
        if mu is not None:
            above_mu += mu_bound(guesses, significance=0.05) > mu
            refuted += curve_p_value(guesses, mu) <= 0.05
    # more than 19 of 200 at 0.05: a false alarm in 290
    assert above <= 19 and above_mu <= 19 and above_mu == refuted


def test_a_large_delta_leaves_the_bound_of_the_curve() -> None:
    guesses = Guesses(n_canaries=1000, n=100, correct=90)
    assert binomial_p_value(guesses, epsilon=0.0, delta=1e-3) > 0.025
    assert epsilon_bound(guesses, delta=1e-3, significance=0.025) == pytest.approx(1.374, abs=2e-3)


@pytest.mark.parametrize("two_sided", [False, True])
def test_null_scores_prove_nothing(two_sided: bool) -> None:
    above = 0
    for seed in range(200):
        rng = np.random.default_rng(1000 + seed)
        present = coins(80, rng)
        bound = one_run_bound(
            rng.normal(0, 1, 80),
            present,
            counts=[GuessCounts(highest=20, lowest=20), GuessCounts(highest=12, lowest=0)],
            delta=1e-5,
            two_sided=two_sided,
        )
        above += bound.epsilon_lower_bound > 0
    assert above <= 19  # 0.05 at most: P[Binomial(200, 0.05) > 19] = 0.0034


def test_dependent_scores_are_no_excuse() -> None:
    # one more coin decides whether all canaries are told with epsilon 2, or nothing at all is: each
    # keeps its epsilon, and the right guesses of one run rise and fall together
    above = 0
    for seed in range(200):
        rng = np.random.default_rng(2000 + seed)
        present = coins(300, rng)
        told = present if rng.random() < 0.5 else coins(300, rng)
        guesses = count_correct(
            randomised_response(told, rng), present, GuessCounts(highest=75, lowest=75)
        )
        above += epsilon_bound(guesses, delta=0.0, significance=0.05) > 2.0
    assert above <= 19  # as above


@pytest.mark.parametrize("epsilon", [2.0, 4.0])
def test_a_thousand_canaries_reach_half_of_randomised_response(epsilon: float) -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        present = coins(1000, rng)
        right = rng.random(1000) < 1 / (1 + np.exp(-epsilon))
        scores = np.where(right, present, ~present) + rng.uniform(0, 0.1, 1000)
        n = int((scores > 0.5).sum())  # the mechanism's own answers, all of them guessed
        guesses = count_correct(scores, present, GuessCounts(highest=n, lowest=1000 - n))
        assert epsilon / 2 < epsilon_bound(guesses, delta=0.0, significance=0.05)


def test_a_thousand_canaries_reach_half_of_a_gaussian_sum() -> None:
    mu = 0.9255  # epsilon 4 at delta 1e-5
    assert pair_epsilon(mu, 1e-5) == pytest.approx(4.0, abs=0.01)
    found = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        present = coins(1000, rng)
        scores = rng.normal(0, 1, 1000) + mu * present
        counts = [GuessCounts(highest=75, lowest=75)]
        bound = one_run_bound(scores, present, counts=counts, delta=1e-5)
        found.append(pair_epsilon(bound.mu_lower_bound, 1e-5))
        assert bound.epsilon_lower_bound < 4.0
    assert np.mean(found) > 2.0 and max(found) < 4.0


# arguments


@pytest.mark.parametrize(
    ("scores", "present", "words"),
    [
        (np.zeros(3), np.zeros(2, dtype=bool), "a number and a bool for each"),
        (np.zeros(2), np.zeros(2), "a number and a bool for each"),
        (np.array([0.0, np.nan]), np.zeros(2, dtype=bool), "scores must be finite"),
        (np.zeros(2), np.zeros(2, dtype=bool), "at most the 2 canaries, got 3"),
    ],
)
def test_what_does_not_fit_is_refused(scores: Array, present: Array, words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        one_run_bound(scores, present, counts=[GuessCounts(highest=3, lowest=0)], delta=0.0)


def test_no_guesses_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="guesses must be an integer >= 1"):
        GuessCounts(highest=0, lowest=0)
    with pytest.raises(InvalidArgumentError, match="at least one number of guesses"):
        one_run_bound(np.zeros(2), np.zeros(2, dtype=bool), counts=[], delta=0.0)
    with pytest.raises(InvalidArgumentError, match="right ones at most as many"):
        Guesses(n_canaries=3, n=2, correct=3)
