"""What a cost means to an attacker."""

import math
from statistics import NormalDist

import pytest

from accounting.runs import sampled
from insular.accounting import (
    ComposedEvent,
    GaussianEvent,
    LaplaceEvent,
    RandomizedResponseEvent,
    advantage,
    spend_delta,
    tradeoff_curve,
    true_positive_rate,
)
from insular.errors import InvalidArgumentError

RATES = (0.0, 1e-6, 1e-3, 0.01, 0.1, 0.3, 0.5, 0.9, 1.0)
N = NormalDist()


def test_one_gaussian_has_its_closed_form() -> None:
    event = GaussianEvent(noise_multiplier=0.5, relation="replace_one", unit="record")
    curve = tradeoff_curve(event, false_positive_rates=RATES)
    assert curve.exact
    assert curve.advantage == pytest.approx(2 * N.cdf(1.0) - 1)
    for fpr, tpr in zip(
        curve.false_positive_rates[1:-1], curve.true_positive_rates[1:-1], strict=True
    ):
        assert tpr == pytest.approx(N.cdf(N.inv_cdf(fpr) + 2.0))


def test_the_grid_reproduces_the_closed_form() -> None:
    curve = tradeoff_curve(sampled(1 - 1e-12, 4, 100), false_positive_rates=RATES)
    assert not curve.exact
    for fpr, tpr in zip(RATES[1:-1], curve.true_positive_rates[1:-1], strict=True):
        truth = N.cdf(N.inv_cdf(fpr) + 2.5)
        assert truth - 1e-9 <= tpr <= truth * 1.001 + 1e-6
    assert curve.advantage == pytest.approx(2 * N.cdf(1.25) - 1, rel=1e-3)


def test_pure_mechanisms_have_their_corners() -> None:
    laplace = LaplaceEvent(noise_multiplier=1.0, relation="replace_one", unit="record")
    assert true_positive_rate(laplace, false_positive_rate=0.1) == pytest.approx(0.1 * math.e)
    coin = RandomizedResponseEvent(truth_prob=0.75, unit="record")
    assert true_positive_rate(coin, false_positive_rate=0.01) == pytest.approx(0.03)
    assert advantage(coin) == pytest.approx(0.5)


@pytest.mark.parametrize(
    "event", [sampled(0.01, 1, 600), sampled(0.2, 1, 50), sampled(1e-5, 0.7, 1000)]
)
def test_a_curve_is_concave_and_holds_its_own_points(event: object) -> None:
    rates = tuple(k / 50 for k in range(51))
    curve = tradeoff_curve(event, false_positive_rates=rates)  # type: ignore[arg-type]
    tpr = curve.true_positive_rates
    assert all(rate <= t <= 1 for rate, t in zip(rates, tpr, strict=True))
    rises = [b - a for a, b in zip(tpr, tpr[1:], strict=False)]
    assert all(later <= earlier + 1e-9 for earlier, later in zip(rises, rises[1:], strict=False))
    assert max(t - rate for rate, t in zip(rates, tpr, strict=True)) <= curve.advantage + 1e-9
    delta = spend_delta(event, epsilon=0.5).delta  # type: ignore[arg-type]
    for rate, t in zip(rates, tpr, strict=True):
        assert t <= delta + math.exp(0.5) * rate + 1e-4


def test_nothing_and_everything() -> None:
    nothing = ComposedEvent(events=())
    assert advantage(nothing) == 0
    assert true_positive_rate(nothing, false_positive_rate=0.2) == 0.2
    assert advantage(sampled(0.1, 0.0, 1)) == 1
    assert true_positive_rate(sampled(0.1, 0.0, 1), false_positive_rate=0.0) == 1


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan, "0.5"])
def test_bad_rates(bad: object) -> None:
    with pytest.raises(InvalidArgumentError, match=r"false_positive_rate must be from 0 to 1"):
        tradeoff_curve(sampled(0.1, 1, 1), false_positive_rates=(bad,))  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"at least one rate"):
        tradeoff_curve(sampled(0.1, 1, 1), false_positive_rates=())


@pytest.mark.parametrize(("q", "noise", "steps"), [(0.01, 0.3, 10), (0.01, 1.0, 600)])
def test_the_advantage_agrees_with_dp_accounting(q: float, noise: float, steps: int) -> None:
    import dp_accounting as dpa
    from dp_accounting.pld import PLDAccountant

    theirs = PLDAccountant(value_discretization_interval=2e-4)
    inner = dpa.PoissonSampledDpEvent(q, dpa.GaussianDpEvent(noise))
    theirs.compose(dpa.SelfComposedDpEvent(inner, steps))
    assert advantage(sampled(q, noise, steps)) == pytest.approx(theirs.get_delta(0.0), rel=2e-3)
