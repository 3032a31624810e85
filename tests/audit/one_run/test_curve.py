"""Right guesses against a whole curve: by hand, against a linear programme, and at their levels."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.stats import binom, norm

from insular.accounting import (
    GaussianEvent,
    PoissonGaussianEvent,
    RepeatedEvent,
    TradeoffCurve,
    tradeoff_curve,
)
from insular.audit.one_run.curve import (
    curve_epsilon_bound,
    curve_p_value,
    fewest_correct,
    least_rates,
    mu_bound,
    point_curve_p_value,
)
from insular.audit.one_run.results import Guesses

LOW = np.geomspace(1e-7, 0.5, 80)
RATES = [0.0, *LOW.tolist(), *(1 - LOW[:-1]).tolist(), 1.0]


def of_point(epsilon: float, delta: float) -> TradeoffCurve:
    """The curve of one point (epsilon, delta): two lines, sampled where they bend as well."""
    bend = (1 - delta) / (1 + np.exp(epsilon))
    x = np.unique([0.0, bend / 2, bend, (1 + bend) / 2, 1.0])
    y = np.minimum(delta + np.exp(epsilon) * x, 1 - np.exp(-epsilon) * (1 - delta - x))
    return TradeoffCurve(
        false_positive_rates=tuple(x),
        true_positive_rates=tuple(np.minimum(y, 1.0)),
        advantage=float(y[2] - x[2]),
        exact=True,
    )


def gaussian_curve(mu: float) -> TradeoffCurve:
    step = GaussianEvent(noise_multiplier=1 / mu, relation="add_or_remove_one", unit="record")
    return tradeoff_curve(step, false_positive_rates=RATES)


def test_one_guess_about_one_canary_by_hand() -> None:
    one = Guesses(n_canaries=1, n=1, correct=1)
    # right with probability e^epsilon / (1 + e^epsilon) at most; for a Gaussian Phi(mu / 2)
    assert curve_p_value(one, of_point(np.log(3), 0.0)) == pytest.approx(0.75, rel=1e-3)
    assert curve_p_value(one, 1.0) == pytest.approx(norm.cdf(0.5), rel=1e-3)
    # with delta: tau + e^-epsilon (tau - delta) = 1
    assert curve_p_value(one, of_point(np.log(3), 0.1)) == pytest.approx(3.1 / 4, rel=1e-3)
    assert curve_p_value(Guesses(n_canaries=1, n=1, correct=0), 1.0) == 1.0


def test_two_guesses_about_three_canaries_by_hand() -> None:
    # B(x) = 3 x below 1/4. tau at two right: 2 tau / 3 right, so 2 tau / 9 wrong from one on, that
    # is one right with 2 tau / 3; these are right with 2 tau / 9 more, 8 tau / 9; so 8 tau / 27
    # wrong from none on. Together 32 tau / 27 = 2 / 3: tau = 9 / 16, as two fair guesses at 3/4
    two = Guesses(n_canaries=3, n=2, correct=2)
    assert curve_p_value(two, of_point(np.log(3), 0.0)) == pytest.approx(9 / 16, rel=1e-3)


def largest_tail(guesses: Guesses, epsilon: float, delta: float) -> float:
    """The largest tail that the inequalities allow, as a linear programme."""
    n, m = guesses.n, guesses.n_canaries
    right, wrong = np.arange(n + 1) / m, (n - np.arange(n + 1)) / m
    rows, limits = [], []
    for j in range(1, n + 1):
        high = np.where(np.arange(n + 1) >= j, right, 0.0)
        low = np.where(np.arange(n + 1) >= j - 1, wrong, 0.0)
        rows += [high - np.exp(epsilon) * low, high - np.exp(-epsilon) * low]
        limits += [delta, 1 - np.exp(-epsilon) * (1 - delta)]
    tail = (np.arange(n + 1) >= guesses.correct).astype(float)
    found = linprog(-tail, A_ub=rows, b_ub=limits, A_eq=[np.ones(n + 1)], b_eq=[1.0])
    assert found.status == 0
    return -found.fun


@settings(max_examples=60)
@given(st.integers(1, 12), st.integers(0, 6), st.data(), st.floats(0.01, 3), st.floats(0, 0.05))
def test_p_value_is_that_of_a_linear_programme(
    n: int, more: int, data: st.DataObject, epsilon: float, delta: float
) -> None:
    v = data.draw(st.integers(0, n))
    guesses = Guesses(n_canaries=n + more, n=n, correct=v)
    found, exact = (
        curve_p_value(guesses, of_point(epsilon, delta)),
        largest_tail(guesses, epsilon, delta),
    )
    assert exact * (1 - 1e-6) <= found <= exact * 1.001
    of_the_point = point_curve_p_value(guesses, epsilon=epsilon, delta=delta)
    assert exact * (1 - 1e-6) <= of_the_point <= exact * 1.001


def test_p_value_of_pure_privacy_is_never_below_the_binomial_tail() -> None:
    for v in range(20, 41):
        tail = binom.sf(v - 1, 40, 0.75)
        found = curve_p_value(Guesses(n_canaries=80, n=40, correct=v), of_point(np.log(3), 0.0))
        assert tail <= found * 1.0001 and found <= 1.0
    all_right = curve_p_value(Guesses(n_canaries=80, n=40, correct=40), of_point(np.log(3), 0.0))
    assert all_right == pytest.approx(0.75**40, rel=1e-3)


@given(st.floats(0.05, 4), st.floats(1e-6, 1))
def test_inverse_of_a_sampled_curve_is_just_below_the_truth(mu: float, rate: float) -> None:
    curve = gaussian_curve(round(mu, 2) + 0.01)
    found = float(least_rates(curve)(np.array([rate]))[0])
    exact = float(norm.cdf(norm.ppf(rate) - round(mu, 2) - 0.01))
    assert found <= exact * (1 + 1e-9) + 1e-12
    if 1e-5 < exact < 0.999:
        # over a grid of both the widest gap is 5.1%, at a mu of 3.6 and rates near 1
        assert found == pytest.approx(exact, rel=0.06)


def test_a_sampled_gaussian_curve_needs_hardly_more_than_its_mu() -> None:
    curve = gaussian_curve(1.0)
    for v in (60, 70, 80):
        guesses = Guesses(n_canaries=500, n=80, correct=v)
        exact, sampled = curve_p_value(guesses, 1.0), curve_p_value(guesses, curve)
        assert exact * (1 - 1e-3) <= sampled <= exact * 1.1 + 1e-12


@pytest.mark.parametrize("n", [1, 17, 60])
def test_fewest_right_guesses_are_where_the_p_value_falls_below(n: int) -> None:
    for claim in (0.5, gaussian_curve(0.5)):
        fewest = fewest_correct(n, n_canaries=100, claim=claim, significance=0.05)
        p_values = [
            curve_p_value(Guesses(n_canaries=100, n=n, correct=v), claim) for v in range(n + 1)
        ]
        assert p_values == sorted(p_values, reverse=True)
        refuting = [v for v, p in enumerate(p_values) if p <= 0.05]
        assert fewest == (refuting[0] if refuting else None)


def test_mu_bound_is_where_the_p_value_reaches_the_significance() -> None:
    guesses = Guesses(n_canaries=400, n=100, correct=88)
    mu = mu_bound(guesses, significance=0.05)
    assert mu > 0.3
    assert curve_p_value(guesses, mu - 1e-3) <= 0.05 < curve_p_value(guesses, mu + 1e-3)
    assert mu_bound(Guesses(n_canaries=400, n=100, correct=50), significance=0.05) == 0.0
    assert mu_bound(guesses, significance=0.01) < mu


def test_epsilon_bound_is_where_the_p_value_reaches_the_significance() -> None:
    guesses = Guesses(n_canaries=400, n=100, correct=88)
    for delta in (0.0, 1e-5, 1e-3):
        found = curve_epsilon_bound(guesses, delta=delta, significance=0.05)
        assert found > 1
        below, above = (
            point_curve_p_value(guesses, epsilon=found + by, delta=delta) for by in (-1e-3, 1e-3)
        )
        assert below <= 0.05 < above
    none = Guesses(n_canaries=400, n=100, correct=0)
    assert curve_epsilon_bound(none, delta=0.0, significance=0.05) == 0.0


def test_a_subsampled_promise_is_held_at_its_level_and_twice_its_weight_is_seen() -> None:
    rate, noise, steps, m = 0.25, 1.0, 8, 1000
    step = PoissonGaussianEvent(
        noise_multiplier=noise, sampling_prob=rate, relation="add_or_remove_one", unit="record"
    )
    claim = tradeoff_curve(RepeatedEvent(event=step, count=steps), false_positive_rates=RATES)

    def p_value(weight: float, seed: int) -> float:
        rng = np.random.default_rng(seed)
        present = rng.random(m) < 0.5
        entered = (rng.random((steps, m)) < rate) & present
        x = rng.standard_normal((steps, m)) + weight * entered
        scores = np.log(1 - rate + rate * np.exp(x - 0.5)).sum(axis=0)
        right = int(present[np.argsort(scores)[-100:]].sum())
        return curve_p_value(Guesses(n_canaries=m, n=100, correct=right), claim)

    assert sum(p_value(1.0, seed) <= 0.05 for seed in range(100)) <= 11  # more: 1 in 90 at 0.05
    assert sum(p_value(2.0, seed) <= 0.05 for seed in range(20)) >= 12
