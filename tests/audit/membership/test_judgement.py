"""Scores of members and non-members, held against a promise: users' cases, plants and controls."""

import math

import numpy as np
import pytest

from insular.accounting import GaussianEvent, tradeoff_curve
from insular.audit.membership.judgement import (
    attack_scores,
    count_tests,
    join_by_id,
    judge_score,
    perfect_attack_refutes,
    point_curve,
    unit_means,
)
from insular.audit.membership.results import MembershipClaim, ScoreFinding
from insular.audit.statistics.bounds import promised_rate
from insular.errors import InvalidArgumentError

FPRS = (0.001, 0.01)


def promise(epsilon: float = 1.0, delta: float = 1e-5) -> MembershipClaim:
    return MembershipClaim(
        source="a test",
        epsilon=epsilon,
        delta=delta,
        unit="record",
        relation=None,
        curve=point_curve(epsilon, delta),
        whole=False,
        caveat="",
    )


def gaussian_promise(mu: float) -> MembershipClaim:
    event = GaussianEvent(noise_multiplier=1 / mu, relation="add_or_remove_one", unit="record")
    rates = [0.0, *np.geomspace(1e-6, 1, 60).tolist()]
    claim = promise()
    curve = tradeoff_curve(event, false_positive_rates=rates)
    return MembershipClaim(**{**vars(claim), "curve": curve, "whole": True})


def judged(
    members: np.ndarray, others: np.ndarray, claim: MembershipClaim | None = None, n_tests: int = 4
) -> ScoreFinding:
    return judge_score(
        "loss",
        members,
        others,
        wanted_fprs=FPRS,
        claim=claim,
        delta=1e-5,
        significance=0.05,
        n_tests=n_tests,
    )


def test_scores_by_hand() -> None:
    found = attack_scores(
        loss=np.array([2.0, 1.0]),
        lowest=np.array([5.0, 3.0]),
        zlib_bytes=np.array([10, 20]),
        reference=np.array([2.5, 1.0]),
    )
    assert list(found) == ["loss", "zlib", "reference", "lowest"]
    assert found["zlib"].tolist() == [-0.2, -0.05]
    assert found["reference"].tolist() == [0.5, 0.0]
    assert found["lowest"].tolist() == [-5.0, -3.0]
    alone = attack_scores(loss=np.ones(1), lowest=np.ones(1), zlib_bytes=np.ones(1), reference=None)
    assert "reference" not in alone


def test_an_owners_score_is_the_mean_of_their_records() -> None:
    means, owners = unit_means(np.array([1.0, 5.0, 3.0]), ["b", "a", "b"])
    assert means.tolist() == [2.0, 5.0] and owners == ("b", "a")


def test_values_are_joined_by_id_and_a_missing_or_doubled_one_is_one_error() -> None:
    pairs = [("b", 2.0), ("a", 1.0), ("c", 3.0)]
    assert join_by_id(pairs, ["a", "b"], what="scores").tolist() == [1.0, 2.0]
    assert join_by_id(dict(pairs), ["c"], what="scores").tolist() == [3.0]
    with pytest.raises(InvalidArgumentError, match=r"got 1 doubled: b; 1 missing: x; 1 not finite"):
        join_by_id([*pairs, ("b", 2.0), ("n", math.nan)], ["a", "n", "x"], what="scores")


def test_reversed_scores_count_as_much_as_upright_ones() -> None:
    """Case aud-03: members score lower, and the auditor must not look one way only."""
    low, high = np.zeros(1000), np.ones(1000)
    upright, turned = judged(high, low, promise(4.0)), judged(low, high, promise(4.0))
    assert upright.refutes and turned.refutes
    assert upright.epsilon.epsilon_lower_bound == turned.epsilon.epsilon_lower_bound
    assert upright.epsilon.epsilon_lower_bound > 4.4 - math.log(2)  # a half of the scores judges
    assert upright.tradeoff.point == turned.tradeoff.point
    assert upright.auc.area == 1 and turned.auc.area == 0


def test_a_model_that_knows_its_members_is_not_called_blind() -> None:
    """Case aud-05: 99.6% against 55.35% right; no attack may report an area near 0.5."""
    members = -np.repeat([0.05, 3.0], [996, 4])
    others = -np.repeat([0.05, 3.0], [5535, 4465])
    rng = np.random.default_rng(0)
    found = judged(rng.permutation(members), rng.permutation(others), promise(0.1))
    assert found.auc.area == pytest.approx(0.72125)
    assert (1 + found.advantage.value) / 2 == pytest.approx(0.72125, abs=0.02)
    assert found.refutes
    # more than a hundredth of the others are tied at the top, so no threshold is strict enough
    assert found.points[1].tpr.count == 0 and found.points[1].fpr.count == 0


def test_copies_among_the_others_hide_a_perfect_attack() -> None:
    """Case aud-07: 30 of 100 non-members are members; without them the attack is perfect."""
    members, others = np.ones(100), np.repeat([0.0, 1.0], [70, 30])
    assert judged(members, others).auc.area == pytest.approx(0.85)
    assert judged(members, others[:70]).auc.area == 1.0


def test_a_gaussian_promise_that_holds_is_not_refuted_and_twice_its_mu_is() -> None:
    """40 clean attacks at 0.05 each: more than 7 false alarms have probability below 0.001."""
    rng = np.random.default_rng(1)
    claim, alarms = gaussian_promise(1.0), 0
    for _ in range(40):
        others, members = rng.standard_normal(600), rng.standard_normal(600) + 1.0
        alarms += judged(members, others, claim).refutes
    assert alarms <= 7
    planted = judged(rng.standard_normal(2000) + 2.0, rng.standard_normal(2000), claim)
    assert planted.refutes and planted.allowed is not None


def test_the_points_alone_can_refute_and_say_what_is_allowed() -> None:
    rng = np.random.default_rng(2)
    members, others = rng.standard_normal(3000) + 4.0, rng.standard_normal(3000)
    found = judged(members, others, promise(1.0))
    for point in found.points:
        assert point.allowed == pytest.approx(1e-5 + math.e * point.proven_fpr, rel=1e-6)
        assert point.allowed is not None
        assert point.refutes == (point.proven_tpr > point.allowed)
    assert found.points[1].refutes


def test_the_curve_of_one_point() -> None:
    """It is Kairouz's two lines: exact at, between and beyond its samples."""
    for epsilon, delta in ((1.0, 1e-5), (0.0, 0.1), (8.0, 1e-3), (2.0, 0.0)):
        curve = point_curve(epsilon, delta)
        for rate in np.linspace(0, 1, 101):
            lines = (
                delta + math.exp(epsilon) * rate,
                1 - math.exp(-epsilon) * (1 - delta - rate),
                1.0,
            )
            assert promised_rate(curve, float(rate)) == pytest.approx(min(lines), abs=1e-9)
        rates = zip(curve.false_positive_rates, curve.true_positive_rates, strict=True)
        assert curve.advantage == pytest.approx(max(y - x for x, y in rates))


def test_few_records_cannot_refute_a_weak_promise() -> None:
    sizes = {"wanted_fprs": FPRS, "significance": 0.05, "n_tests": count_tests(4, 2)}
    few = {"n_members": 30, "n_non_members": 30, **sizes}
    assert not perfect_attack_refutes(promise(8.0), **few)
    assert perfect_attack_refutes(promise(1.0), n_members=100, n_non_members=100, **sizes)
    assert count_tests(4, 2) == 16


def test_without_a_promise_nothing_is_refuted() -> None:
    found = judged(np.ones(50), np.zeros(50))
    assert not found.refutes and found.allowed is None
    assert {point.allowed for point in found.points} == {None}


def test_a_bound_on_epsilon_is_below_the_truth() -> None:
    """8 attacks on mu = 1, whose epsilon at 1e-5 is 4.377: one is above with probability 0.1."""
    rng = np.random.default_rng(3)
    bounds = [
        judged(rng.standard_normal(800) + 1, rng.standard_normal(800)).epsilon.epsilon_lower_bound
        for _ in range(8)
    ]
    assert 0.2 < max(bounds) < 4.377
