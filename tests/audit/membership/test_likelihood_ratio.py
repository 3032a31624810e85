"""Likelihood ratios from shadow models: planted truth, and a control without any."""

import math
import random

import numpy as np
import pytest
from scipy.stats import norm

from insular.audit.membership.likelihood_ratio import (
    OWN_SPREAD,
    ShadowRow,
    ShadowScores,
    drawn_alike,
    gather_shadows,
    one_sided_ratio,
    two_sided_ratio,
    uses_own_spread,
)
from insular.audit.membership.rates import area_under_curve
from insular.errors import InvalidArgumentError


def planted(effect: float, *, n: int = 400, models: int = 40) -> tuple[np.ndarray, ...]:
    """Losses whose level differs a lot between records, and falls by ``effect`` for members."""
    rng = np.random.default_rng(0)
    level = 3 + 2 * rng.standard_normal(n)
    spread = 0.1 + 0.4 * rng.random(n)
    inside = rng.random((n, models)) < 0.5
    losses = level[:, None] + spread[:, None] * (rng.standard_normal((n, models)) - effect * inside)
    member = rng.random(n) < 0.5
    target = level + spread * (rng.standard_normal(n) - effect * member)
    return losses, inside, target, member


def test_the_ratios_see_what_the_loss_alone_does_not() -> None:
    losses, inside, target, member = planted(2.0)
    shadows = ShadowScores(losses=losses, inside=inside)
    areas = [
        area_under_curve(scores[member], scores[~member]).area
        for scores in (-target, one_sided_ratio(target, shadows), two_sided_ratio(target, shadows))
    ]
    assert areas[0] < 0.6 and areas[1] > 0.88 and areas[2] > 0.88
    assert areas[2] == pytest.approx(norm.cdf(2 / math.sqrt(2)), abs=0.04)


def test_without_an_effect_there_is_no_signal() -> None:
    """Each of two intervals misses 0.5 with probability 0.001."""
    losses, inside, target, member = planted(0.0)
    shadows = ShadowScores(losses=losses, inside=inside)
    for scores in (one_sided_ratio(target, shadows), two_sided_ratio(target, shadows)):
        area = area_under_curve(scores[member], scores[~member], significance=0.001)
        assert area.lower < 0.5 < area.upper


def test_by_hand_with_one_spread_for_all() -> None:
    losses = np.array([[1.0, 3.0, 4.0, 6.0], [2.0, 2.0, 5.0, 7.0]])
    inside = np.array([[True, True, False, False]] * 2)
    shadows = ShadowScores(losses=losses, inside=inside)
    in_spread, out_spread = math.sqrt((2 + 0) / 2), math.sqrt((2 + 2) / 2)
    wanted = norm.logpdf(2.5, 2, in_spread) - norm.logpdf(2.5, [5, 6], out_spread)
    found = two_sided_ratio(np.array([2.5, 2.5]), shadows)
    assert found == pytest.approx(wanted)
    one_sided = one_sided_ratio(np.array([2.5, 2.5]), shadows)
    assert one_sided == pytest.approx(norm.logcdf((np.array([5, 6]) - 2.5) / out_spread))


def rows(ids: list[str], models: int = 5) -> list[ShadowRow]:
    rng = random.Random(0)
    return [
        ShadowRow(id=name, shadow=f"s{j}", member=j % 2 == 0, loss=rng.random())
        for name in ids
        for j in range(models)
    ]


def test_rows_are_joined_by_record_and_model() -> None:
    given = rows(["a", "b", "c"])
    found = gather_shadows(given, ["c", "a"])
    shuffled = gather_shadows(given[::-1], ["c", "a"])
    assert np.array_equal(found.losses, shuffled.losses) and found.has_members
    assert found.losses[1, 2] == given[2].loss
    assert np.array_equal(found.inside, [[True, False, True, False, True]] * 2)


def test_missing_doubled_and_bad_rows_are_one_error() -> None:
    given = rows(["a", "b"])
    bad = ShadowRow(id="a", shadow="s0", member=True, loss=math.nan)
    with pytest.raises(InvalidArgumentError, match="got 1 missing, 1 doubled and 1 not finite"):
        gather_shadows([bad, *given[1:-1], given[1]], ["a", "b"])
    with pytest.raises(InvalidArgumentError, match="of 0 models"):
        gather_shadows([], ["a"])
    with pytest.raises(InvalidArgumentError, match="fewer for 2 records"):
        gather_shadows(rows(["a", "b"], models=2), ["a", "b"])


def test_the_two_sided_ratio_needs_models_that_saw_the_record() -> None:
    shadows = ShadowScores(losses=np.ones((1, 3)), inside=np.zeros((1, 3), dtype=bool))
    with pytest.raises(InvalidArgumentError, match="use the one-sided one"):
        two_sided_ratio(np.ones(1), shadows)
    assert not shadows.has_members


def test_a_missing_side_is_the_other_one_moved_by_the_mean_difference() -> None:
    """Records 0 and 1 have both sides, 2 apart and 4 apart: 3 on average."""
    losses = np.array([[1.0, 1.0, 3.0, 3.0], [2.0, 2.0, 6.0, 6.0], [5.0] * 4, [7.0] * 4])
    inside = np.array([[True, True, False, False]] * 2 + [[False] * 4, [True] * 4])
    shadows = ShadowScores(losses=losses, inside=inside)
    assert shadows.has_members and shadows.both_sides.tolist() == [True, True, False, False]
    middle = np.array([2.0, 4.0, 5.0 - 1.5, 7.0 + 1.5])
    assert two_sided_ratio(middle, shadows) == pytest.approx(np.zeros(4), abs=1e-6)
    assert (two_sided_ratio(middle - 0.1, shadows) > 0).all()
    outside = np.array([3.0, 6.0, 5.0, 10.0])
    assert one_sided_ratio(outside, shadows) == pytest.approx(np.log(np.full(4, 0.5)))


def test_few_records_with_both_sides_cannot_stand_in_for_the_others() -> None:
    inside = np.array([[True, True, False, False], [False] * 4, [False] * 4])
    shadows = ShadowScores(losses=np.ones((3, 4)), inside=inside)
    assert not shadows.has_members
    given = [
        ShadowRow(id=str(i), shadow=f"s{j}", member=not inside[i, j], loss=1.0)
        for i in range(3)
        for j in range(4)
    ]
    with pytest.raises(InvalidArgumentError, match="fewer for 2 records"):
        gather_shadows(given, ["0", "1", "2"])


def test_spreads_are_the_records_own_from_enough_models_on() -> None:
    inside = np.array([[j % 2 == 0 for j in range(2 * OWN_SPREAD)]] * 3)
    shadows = ShadowScores(losses=np.ones(inside.shape), inside=inside)
    assert uses_own_spread(shadows)
    assert not uses_own_spread(ShadowScores(losses=np.ones((3, 30)), inside=inside[:, :30]))


def test_halves_that_follow_the_members_are_no_chance() -> None:
    """Random halves: 200 p-values, none below 1e-4 but with probability 0.02."""
    member = np.arange(120) < 60
    assert drawn_alike(member, member) < 1e-30
    assert drawn_alike(~member, member) < 1e-30
    rng = np.random.default_rng(0)
    chances = [drawn_alike(rng.permutation(member), member) for _ in range(200)]
    assert min(chances) > 1e-4 and max(chances) > 0.9
    assert drawn_alike(np.ones(120, dtype=bool), member) == 1
