"""Bounds on held-out draws."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from insular.accounting import GaussianEvent, PoissonGaussianEvent, RepeatedEvent, tradeoff_curve
from insular.audit.statistics.bounds import promised_rate
from insular.audit.statistics.rates import largest_epsilon
from insular.audit.statistics.scores import epsilon_bounds, tradeoff_bound
from insular.errors import InvalidArgumentError

MU = 1.065257905


def gaussian(mu: float, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Ideal releases without and with the record."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal(n) - mu / 2, rng.standard_normal(n) + mu / 2


def test_bounds_are_the_same_for_scores_of_opposite_sign():
    members, others = np.zeros(1000), np.ones(1000)
    for sign in (1, -1):
        (found,) = epsilon_bounds(sign * others, sign * members, deltas=(1e-5,))
        assert 4.4 <= found.epsilon_lower_bound <= 5.81
        most = largest_epsilon(500, significance=0.025, delta=1e-5)
        assert found.epsilon_lower_bound == pytest.approx(most, rel=1e-12)
        curve = tradeoff_bound(sign * others, sign * members)
        assert curve.side == ("below" if sign == 1 else "above")
        assert curve.mu_lower_bound == pytest.approx(4.8793, abs=1e-4)
    without, with_record = gaussian(2.0, 4000, 0)
    plus = epsilon_bounds(without, with_record, deltas=(1e-3, 1e-5))
    minus = epsilon_bounds(-without, -with_record, deltas=(1e-3, 1e-5))
    assert [b.epsilon_lower_bound for b in plus] == [b.epsilon_lower_bound for b in minus]
    one, two = tradeoff_bound(without, with_record), tradeoff_bound(-without, -with_record)
    assert one.mu_lower_bound == two.mu_lower_bound


def test_the_other_half_judges_with_a_strict_inequality_what_the_first_half_chose():
    # the chosen half is separated, the judged half is not: nothing may be claimed
    without, with_record = np.zeros(400), np.zeros(400)
    with_record[::2] = 1.0
    bound = tradeoff_bound(without, with_record)
    assert (bound.threshold, bound.tpr.count, bound.fpr.count) == (0.0, 0, 0)
    assert bound.mu_lower_bound == 0
    (point,) = epsilon_bounds(without, with_record, deltas=(1e-5,))
    assert point.epsilon_lower_bound == 0
    assert bound.n_selection == bound.tpr.n == 200


def test_the_tradeoff_bound_refutes_an_excess_of_six_per_cent():
    refuted = sum(
        tradeoff_bound(*gaussian(MU, 50_000, seed), claim=1.0).falsifies(1.0) for seed in range(100)
    )
    assert refuted >= 95


def test_the_tradeoff_bound_leaves_a_true_claim_alone():
    refuted = sum(
        tradeoff_bound(*gaussian(1.0, 50_000, seed), claim=1.0).falsifies(1.0)
        for seed in range(100)
    )
    assert refuted <= 5  # its probability is at most 0.05 a time, and is far below


def test_a_curve_and_its_mu_are_the_same_claim():
    event = GaussianEvent(noise_multiplier=1.0, relation="add_or_remove_one", unit="record")
    curve = tradeoff_curve(event, false_positive_rates=np.linspace(0, 1, 201).tolist())
    for mu, n, refuted in ((1.5, 4000, True), (1.0, 4000, False)):
        draws = gaussian(mu, n, 1)
        by_mu, by_curve = tradeoff_bound(*draws, claim=1.0), tradeoff_bound(*draws, claim=curve)
        assert by_mu.falsifies(1.0) is by_mu.falsifies(curve) is refuted
        assert by_curve.falsifies(curve) is refuted


def test_a_composed_claim_is_refuted_by_its_own_curve():
    step = PoissonGaussianEvent(
        noise_multiplier=1.0, sampling_prob=0.02, relation="add_or_remove_one", unit="record"
    )
    rates = np.linspace(0, 1, 101).tolist()
    curve = tradeoff_curve(RepeatedEvent(event=step, count=20), false_positive_rates=rates)
    assert tradeoff_bound(*gaussian(1.5, 4000, 2), claim=curve).falsifies(curve)
    assert not tradeoff_bound(*gaussian(0.0, 4000, 2), claim=curve).falsifies(curve)


def test_a_sampled_curve_never_promises_less_than_the_truth_between_its_samples():
    event = GaussianEvent(noise_multiplier=0.7, relation="add_or_remove_one", unit="record")
    curve = tradeoff_curve(event, false_positive_rates=(0.0, 0.05, 0.2, 0.5, 0.9, 1.0))
    for rate in np.linspace(0, 1, 301).tolist():
        truth = float(norm.cdf(norm.ppf(rate) + 1 / 0.7))
        assert promised_rate(curve, rate) >= truth - 1e-12
    for x, y in zip(curve.false_positive_rates, curve.true_positive_rates, strict=True):
        assert promised_rate(curve, x) == y
    one = tradeoff_curve(event, false_positive_rates=(0.5,))
    assert promised_rate(one, 0.7) == 1.0


def test_epsilon_bounds_hold_together():
    event_epsilons = (3.1387, 4.3772, 4.8866)  # of one step of mu 1
    wrong = 0
    for seed in range(100):
        bounds = epsilon_bounds(*gaussian(1.0, 4000, seed), deltas=(1e-3, 1e-5, 1e-6))
        wrong += any(b.falsifies(e) for b, e in zip(bounds, event_epsilons, strict=True))
    assert wrong <= 5


def test_a_bound_says_what_it_would_mean_in_epsilon():
    bound = tradeoff_bound(*gaussian(3.0, 20_000, 0), claim=1.0)
    assert bound.falsifies(2.5) and not bound.falsifies(3.5)
    assert bound.epsilon(1e-5) > 4.3772
    assert bound.point == (bound.fpr.upper, 1 - bound.tpr.lower)
    assert bound.significance == 0.05 and bound.tpr.significance == 0.025


@pytest.mark.parametrize(
    "scores", [np.zeros((3, 3)), np.zeros(1), np.array([0.0, math.nan, 1.0])], ids=str
)
def test_scores_that_cannot_be_judged_are_refused(scores):
    for one, two, name in ((scores, np.zeros(9), "without"), (np.zeros(9), scores, "with_record")):
        with pytest.raises(InvalidArgumentError, match=f"{name} must hold at least 2 scores"):
            tradeoff_bound(one, two)
    with pytest.raises(InvalidArgumentError, match="delta must be below 1"):
        epsilon_bounds(np.zeros(4), np.ones(4), deltas=(1.0,))
