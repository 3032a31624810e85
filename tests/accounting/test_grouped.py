"""Owners of several records that are sampled one by one: the mixture of Gaussians, exactly."""

import math
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accounting.runs import sampled
from insular.accounting import (
    ComposedEvent,
    GaussianEvent,
    GroupedPoissonGaussianEvent,
    PoissonGaussianEvent,
    PrivacyCost,
    Refusal,
    RepeatedEvent,
    compare,
    sampling_prob_of,
    spend,
    spend_delta,
    tradeoff_curve,
)
from insular.accounting.grouped import grouped_curves
from insular.errors import InvalidArgumentError, UnsupportedEventError


def grouped(k: int, q: float, noise: float, steps: int = 1) -> RepeatedEvent:
    step = GroupedPoissonGaussianEvent(noise_multiplier=noise, sampling_prob=q, records_per_unit=k)
    return RepeatedEvent(event=step, count=steps)


def outputs(k: int, q: float, noise: float, n: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Densities with and without the owner on an even grid of outputs, with its spacing."""
    x = np.linspace(-10 * noise, k + 10 * noise, n)

    def normal(mean: float) -> np.ndarray:
        return np.exp(-((x - mean) ** 2) / (2 * noise**2)) / (noise * math.sqrt(2 * math.pi))

    with_owner = sum(comb(k, i) * q**i * (1 - q) ** (k - i) * normal(i) for i in range(k + 1))
    return np.asarray(with_owner), normal(0.0), float(x[1] - x[0])


def slow_delta(k: int, q: float, noise: float, epsilon: float, *, steps: int) -> float:
    """The worse hockey-stick divergence of one or two steps, summed over a grid of outputs."""
    found = []
    p, r, h = outputs(k, q, noise, 200_001 if steps == 1 else 3001)
    for one, other in ((p, r), (r, p)):
        if steps == 2:
            one, other = np.outer(one, one), np.outer(other, other)
        found.append(np.maximum(one - math.exp(epsilon) * other, 0).sum() * h**steps)
    return float(max(found))


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize(("q", "noise"), [(0.05, 1.0), (0.3, 2.0), (0.02, 0.6)])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.5, 2.0])
def test_three_records_against_the_integral_over_outputs(
    q: float, noise: float, epsilon: float, steps: int
) -> None:
    truth = slow_delta(3, q, noise, epsilon, steps=steps)
    found = spend_delta(grouped(3, q, noise, steps), epsilon=epsilon).delta
    assert truth * (1 - 1e-5) - 1e-11 <= found <= truth * 1.001 + 1e-9


@pytest.mark.parametrize(
    ("q", "noise", "steps"), [(0.01, 1.0, 600), (0.2, 2.0, 50), (0.001, 0.7, 1), (1.0, 3.0, 5)]
)
def test_one_record_is_the_poisson_event(q: float, noise: float, steps: int) -> None:
    plain = spend(sampled(q, noise, steps), delta=1e-5).epsilon
    assert spend(grouped(1, q, noise, steps), delta=1e-5).epsilon == pytest.approx(plain, rel=1e-4)


@pytest.mark.parametrize(("k", "q", "noise"), [(3, 0.01, 2.0), (8, 0.05, 6.0), (4, 0.9, 9.0)])
def test_parity_with_dp_accounting(k: int, q: float, noise: float) -> None:
    from dp_accounting.dp_event import MixtureOfGaussiansDpEvent, SelfComposedDpEvent
    from dp_accounting.pld import PLDAccountant

    theirs = PLDAccountant(value_discretization_interval=1e-3)
    probs = [comb(k, i) * q**i * (1 - q) ** (k - i) for i in range(k + 1)]
    step = MixtureOfGaussiansDpEvent(noise, list(range(k + 1)), probs)
    theirs.compose(SelfComposedDpEvent(step, 100))
    ours = spend(grouped(k, q, noise, 100), delta=1e-5).epsilon
    assert ours == pytest.approx(theirs.get_epsilon(1e-5), rel=1e-3)


@pytest.mark.parametrize("q", [0.01, 0.3])
def test_more_records_cost_more_and_the_whole_group_costs_most(q: float) -> None:
    costs = [spend(grouped(k, q, 4.0, 100), delta=1e-5).epsilon for k in (1, 2, 3, 8, 20)]
    assert costs == sorted(costs)
    always = GaussianEvent(noise_multiplier=4.0 / 20, relation="add_or_remove_one", unit="owner")
    assert costs[-1] < spend(RepeatedEvent(event=always, count=100), delta=1e-5).epsilon
    everyone = spend(grouped(20, 1.0, 4.0, 100), delta=1e-5)
    assert everyone.epsilon == spend(RepeatedEvent(event=always, count=100), delta=1e-5).epsilon


def test_an_owner_drawn_as_one_costs_less_than_k_records_at_the_same_rate() -> None:
    k, q, noise = 4, 0.02, 2.0
    by_record = spend(grouped(k, q, noise, 100), delta=1e-5).epsilon
    assert spend(sampled(q, noise, 100), delta=1e-5).epsilon < by_record
    # all k at once, at the rate at which any enters: the mean moves as far or further
    assert by_record < spend(sampled(k * q, noise / k, 100), delta=1e-5).epsilon


def test_who_answers_and_who_refuses() -> None:
    pld, *others = compare(grouped(3, 0.01, 2.0, 100), delta=1e-5)
    assert isinstance(pld, PrivacyCost)
    assert "Poisson over records" in pld.sampler
    assert (pld.relation, pld.unit) == ("add_or_remove_one", "owner")
    assert all(isinstance(row, Refusal) and "grouped_poisson" in row.reason for row in others)
    with pytest.raises(UnsupportedEventError, match=r"grouped_poisson_gaussian; use"):
        spend(grouped(3, 0.01, 2.0), delta=1e-5, accountant="rdp")


def test_nothing_no_noise_and_other_events_beside_it() -> None:
    assert spend(grouped(3, 0.0, 1.0, 10), delta=1e-5).epsilon == 0
    assert spend(grouped(3, 0.1, 1.0, 0), delta=1e-5).epsilon == 0
    assert spend(grouped(3, 0.1, 0.0), delta=1e-5).epsilon == math.inf
    alone = spend(grouped(3, 0.01, 2.0, 50), delta=1e-5).epsilon
    other = PoissonGaussianEvent(
        noise_multiplier=2.0, sampling_prob=0.01, relation="add_or_remove_one", unit="owner"
    )
    both = ComposedEvent(events=(grouped(3, 0.01, 2.0, 50), RepeatedEvent(event=other, count=50)))
    assert alone < spend(both, delta=1e-5).epsilon < 2 * alone


@settings(max_examples=40, deadline=None)
@given(k=st.integers(1, 200), q=st.floats(1e-12, 1 - 1e-12), noise=st.floats(1e-2, 1e6))
def test_every_curve_falls_from_the_distance_to_nothing(k: int, q: float, noise: float) -> None:
    for curve in grouped_curves(noise, sampling_prob=q, n_records=k, tail=1e-12):
        low, high = curve.bounds()
        assert low <= high
        deltas = curve.delta(np.linspace(low, high, 50))
        assert np.isfinite(deltas).all()
        assert (deltas >= 0).all() and (deltas <= 1).all()
        assert (np.diff(deltas) <= 1e-12).all()
        assert deltas[-1] <= 1e-12 + 1e-13


def test_the_trade_off_curve_is_above_the_diagonal() -> None:
    rates = (0.0, 0.01, 0.1, 0.5, 1.0)
    curve = tradeoff_curve(grouped(3, 0.05, 2.0, 20), false_positive_rates=rates)
    assert all(t >= f for t, f in zip(curve.true_positive_rates, rates, strict=True))
    assert not curve.exact


def test_the_rate_of_an_expected_batch() -> None:
    assert sampling_prob_of(16, n_units=64) == 0.25
    assert sampling_prob_of(32, n_units=32) == 1.0
    for batch, units in ((8, 5), (8, 0), (40, 32)):
        with pytest.raises(
            InvalidArgumentError, match=rf"expected_batch_size={batch} and n_units={units}"
        ):
            sampling_prob_of(batch, n_units=units)
    with pytest.raises(InvalidArgumentError, match=r"expected_batch_size must be finite and > 0"):
        sampling_prob_of(0, n_units=5)
