"""What an attack can be expected to find: exact tails against published numbers and simulation."""

import numpy as np
import pytest

from insular.audit.release.power import attack_power, chance_to_refute, draws_to_refute
from insular.audit.statistics.scores import tradeoff_bound
from insular.errors import InvalidArgumentError

MU = 1.065257905


def test_the_published_resolution_of_the_epsilon_delta_bound():
    # the paper: about 3.1 at mu 1 and 3.3 at mu 1.065 with 500,000 judged draws; 1.0e8 to exceed
    for ratio, expected in ((1.0, 3.1), (MU, 3.3)):
        found = attack_power(ratio, draws=1_000_000).procedures[1]
        assert found.expected_bound == pytest.approx(expected, abs=0.05)
        assert found.claimed == pytest.approx(4.3772, abs=1e-4)
        assert found.refutes < 1e-6
    needed = attack_power(MU, draws=1_000_000).procedures[1].draws_until_expected
    assert needed is not None
    assert needed / 2 == pytest.approx(1.0e8, rel=0.05)


def test_the_tradeoff_bound_takes_thousands_of_times_fewer_draws():
    curve, point = attack_power(MU, draws=50_000).procedures
    assert curve.refutes > 0.99 and point.refutes < 1e-4
    assert 0.2 < curve.false_positive_rate < 0.4
    assert curve.draws_needed is not None and point.draws_needed is not None
    assert 20_000 < curve.draws_needed < 50_000
    assert point.draws_needed > 5_000 * curve.draws_needed
    assert chance_to_refute(MU, claimed=1.0, draws=20_000, significance=0.05) == pytest.approx(
        0.75, abs=0.05
    )


@pytest.mark.parametrize(("mu", "draws"), [(1.065257905, 20_000), (1.33, 1000), (2.0, 100)])
def test_the_exact_tails_are_what_happens_at_that_threshold(mu, draws):
    chance = chance_to_refute(mu, claimed=1.0, draws=draws, significance=0.05)
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(300):
        draw = rng.standard_normal((2, draws))
        found += tradeoff_bound(draw[0] - mu / 2, draw[1] + mu / 2, claim=1.0).falsifies(1.0)
    assert found / 300 <= chance + 0.08  # 2.8 standard deviations
    # a run has to find its threshold, which costs the most where draws are few
    assert found / 300 >= 0.6 * chance - 0.08


def test_the_needed_draws_are_where_the_chance_is():
    needed = draws_to_refute(1.2, claimed=1.0, significance=0.05, wanted=0.9)
    assert needed is not None
    chances = [
        chance_to_refute(1.2, claimed=1.0, draws=n, significance=0.05)
        for n in (int(0.9 * needed), needed, int(1.1 * needed))
    ]
    assert chances[0] < 0.9 <= chances[1] < chances[2]


def test_no_excess_is_refuted_no_more_often_than_the_significance():
    result = attack_power(1.0, draws=2000)
    for row in result.procedures:
        assert row.refutes <= 0.05
        assert row.draws_needed is None and row.draws_until_expected is None
    assert draws_to_refute(0.5, claimed=1.0, significance=0.05) is None


def test_the_noise_multiplier_scales_promise_and_truth_alike():
    result = attack_power(1.2, draws=5000, noise_multiplier=2.0)
    assert (result.claimed_mu, result.true_mu) == (0.5, 0.6)
    assert result.claimed_epsilon < result.true_epsilon
    for before, after in zip(result.curve, result.curve[1:], strict=False):
        assert after.draws > before.draws
        assert after.mu >= before.mu and after.epsilon >= before.epsilon
    assert result.curve[-1].mu == pytest.approx(0.6, abs=1e-3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ratio": 0.0}, "ratio must be finite and > 0, got ratio=0.0"),
        ({"draws": 3}, "draws must be an integer >= 4, got draws=3"),
        ({"noise_multiplier": -1.0}, "noise_multiplier must be finite and > 0"),
        ({"significance": 1.0}, "significance must be above 0 and below 1"),
        ({"wanted": 1.5}, "wanted must be from 0 to 1"),
        ({"delta": 1.0}, "delta must be below 1"),
    ],
)
def test_bad_numbers_are_refused(change, message):
    arguments = {"ratio": 1.1, "draws": 100, **change}
    with pytest.raises(InvalidArgumentError, match=message):
        attack_power(arguments.pop("ratio"), **arguments)
