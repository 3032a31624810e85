"""Areas, points and advantage: by hand, against slow counting, and their coverage."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insular.audit.membership.rates import (
    advantage,
    area_under_curve,
    operating_point,
    roc_points,
)
from insular.errors import InvalidArgumentError

SCORES = st.lists(st.integers(-5, 5), min_size=4, max_size=12).map(
    lambda values: np.array(values, dtype=np.float64)
)


@given(SCORES, SCORES)
@settings(deadline=None)
def test_ties_count_half_and_swapped_arguments_give_the_complement(
    members: np.ndarray, others: np.ndarray
) -> None:
    slow = np.mean([(m > n) + 0.5 * (m == n) for m in members for n in others])
    found = area_under_curve(members, others)
    assert found.area == pytest.approx(slow)
    turned = area_under_curve(others, members)
    assert turned.area == pytest.approx(1 - slow)
    assert 0 <= found.lower <= found.area + 1e-12 and found.area - 1e-12 <= found.upper <= 1
    assert turned.upper == pytest.approx(1 - found.lower)


def test_the_order_of_scores_does_not_matter() -> None:
    rng = np.random.default_rng(0)
    members, others = rng.standard_normal(50), rng.standard_normal(70)
    found = area_under_curve(members, others)
    shuffled = area_under_curve(rng.permutation(members), rng.permutation(others))
    assert shuffled.area == pytest.approx(found.area, abs=1e-12)
    assert shuffled.lower == pytest.approx(found.lower, abs=1e-12)


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    """400 intervals at 0.05: more than 36 misses have probability below 0.001."""
    rng = np.random.default_rng(1)
    truth = 0.5 * math.erfc(-1 / 2)  # Phi(1 / sqrt 2)
    misses = 0
    for _ in range(400):
        found = area_under_curve(rng.standard_normal(60) + 1, rng.standard_normal(80))
        misses += not found.lower <= truth <= found.upper
    assert misses <= 36


def test_a_perfect_attack_has_an_interval_and_not_a_point() -> None:
    found = area_under_curve(np.ones(20), np.zeros(50))
    assert found.area == 1 and found.upper == 1
    assert found.lower == pytest.approx(0.025 ** (1 / 20))
    assert found.method == "Clopper-Pearson on 20 pairs"
    assert area_under_curve(np.ones(20), np.ones(20)).area == 0.5


def test_an_almost_perfect_attack_is_no_surer_than_a_perfect_one() -> None:
    perfect = area_under_curve(np.ones(100), np.zeros(100))
    almost = area_under_curve(np.append(np.ones(99), -1.0), np.append(np.zeros(99), -2.0))
    assert 0.98 < almost.area < 1 and almost.lower < perfect.lower


def test_a_point_by_hand() -> None:
    others = np.arange(1000.0)
    members = np.concatenate([np.full(30, 2000.0), np.full(70, 994.5), np.full(100, -1.0)])
    strict, lax = (operating_point(members, others, wanted_fpr=x) for x in (0.001, 0.01))
    assert (strict.fpr.count, strict.tpr.count) == (1, 30)
    assert (lax.fpr.count, lax.tpr.count) == (10, 100)
    assert strict.resolved and lax.resolved
    assert lax.tpr.lower < 0.5 < lax.tpr.upper


def test_few_non_members_cannot_show_a_small_rate_and_the_point_says_so() -> None:
    point = operating_point(np.ones(99), np.zeros(99), wanted_fpr=0.01)
    assert not point.resolved and point.fpr.count == 0 and point.tpr.count == 99
    assert point.fpr.upper == pytest.approx(1 - 0.025 ** (1 / 99))
    assert operating_point(np.ones(100), np.zeros(100), wanted_fpr=0.01).resolved


@given(SCORES, SCORES, st.sampled_from([0.0, 0.1, 0.25, 0.5]))
@settings(deadline=None)
def test_at_most_the_wanted_share_is_above_however_many_are_tied(
    members: np.ndarray, others: np.ndarray, wanted: float
) -> None:
    point = operating_point(members, others, wanted_fpr=wanted)
    assert point.fpr.count <= wanted * len(others) + 1e-9


def test_the_proven_rates_hold_for_the_threshold_that_the_non_members_chose() -> None:
    """500 points at 0.05: more than 42 that miss have probability below 0.001."""
    rng = np.random.default_rng(2)
    misses = 0
    for _ in range(500):
        others, members = rng.random(40), rng.random(40)
        point = operating_point(members, others, wanted_fpr=0.05)
        true_rate = 1 - np.sort(others)[40 - 1 - 2]  # of both kinds: all are uniform
        misses += point.proven_fpr < true_rate or point.proven_tpr > true_rate
    assert misses <= 42


def test_the_advantage_of_noise_is_near_nothing_and_of_knowledge_is_not() -> None:
    rng = np.random.default_rng(3)
    noise = advantage(rng.standard_normal(400), rng.standard_normal(400))
    assert noise.lower < 0 < noise.upper and abs(noise.value) < 0.2
    known = advantage(rng.standard_normal(400) + 3, rng.standard_normal(400))
    assert known.lower > 0.6 and known.n_judged == 200


def test_the_curve_runs_from_none_to_all() -> None:
    rng = np.random.default_rng(4)
    points = roc_points(rng.standard_normal(500) + 1, rng.standard_normal(2000))
    assert points[0].fpr == 0 and (points[-1].fpr, points[-1].tpr) == (1.0, 1.0)
    assert len(points) <= 81
    assert all(a.fpr < b.fpr and a.tpr <= b.tpr for a, b in zip(points, points[1:], strict=False))


@pytest.mark.parametrize("bad", [np.ones(3), np.ones((4, 2)), np.array([1, 2, 3, np.nan])])
def test_scores_that_cannot_be_judged_are_refused(bad: np.ndarray) -> None:
    with pytest.raises(InvalidArgumentError, match="members must hold at least 4 finite scores"):
        area_under_curve(bad, np.ones(4))
