"""Accountants: users' troubles with the right answers, and the labels of every number."""

import math
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accounting.runs import sampled
from insular.accounting import (
    ACCOUNTANTS,
    ComposedEvent,
    GaussianEvent,
    LaplaceEvent,
    PoissonGaussianEvent,
    PrivacyCost,
    RandomizedResponseEvent,
    Refusal,
    RepeatAndSelectEvent,
    RepeatedEvent,
    TruncatedPoissonGaussianEvent,
    compare,
    composed_epsilon,
    spend,
    spend_delta,
)
from insular.errors import AccountingError, InsularError, UnsupportedEventError


def gaussian(noise: float, **fields: str) -> GaussianEvent:
    words = {"relation": "add_or_remove_one", "unit": "record"} | fields
    return GaussianEvent(noise_multiplier=noise, **words)  # type: ignore[arg-type]


def test_large_delta_is_zero_and_never_negative() -> None:
    for delta, expected in ((0.9, 0), (0.1, 0), (0.07, 0), (0.06, 0.0201681), (0.03, 0.1065484)):
        event = sampled(1.0, 10, 3)
        assert spend(event, delta=delta).epsilon == pytest.approx(expected, abs=1e-6)
        assert spend(event, delta=delta, accountant="rdp").epsilon >= expected
    assert spend(sampled(0.05, 2, 10), delta=0.05).epsilon == 0
    assert spend(sampled(0.05, 2, 10), delta=0.01).epsilon == pytest.approx(0.0761555, abs=1e-4)


def test_the_central_limit_is_below_the_truth_and_labelled_an_estimate() -> None:
    rows = {row.accountant: row for row in compare(sampled(0.2, 3, 50), delta=1 / 48000)}
    assert all(isinstance(row, PrivacyCost) for row in rows.values())
    assert rows["pld"].epsilon == pytest.approx(1.96081, abs=5e-4)
    assert rows["rdp"].epsilon == pytest.approx(2.169, abs=1e-3)
    assert rows["gdp-clt"].epsilon == pytest.approx(1.8385, abs=1e-4)
    assert rows["gdp-clt"].standing == "estimate"
    assert "central limit" in rows["gdp-clt"].caveat
    for name in ("pld", "rdp", "rdp-classical"):
        assert rows[name].standing == "guarantee"
        assert rows[name].epsilon >= 1.9608


@pytest.mark.parametrize(
    ("q", "noise", "steps", "truth", "tolerance"),
    [
        (0.2, 1.0, 10, 4.98421, 0.01),
        (0.2, 1.0, 500, 38.17025, 0.02),
        (0.01, 0.25, 1000, 121.6252, 0.02),
        (1.0, 0.05, 1, 284.3918, 0.01),
        (1.0, 0.01, 1, 5425.51, 0.01),
    ],
)
def test_small_noise_has_a_finite_honest_answer(
    q: float, noise: float, steps: int, truth: float, tolerance: float
) -> None:
    epsilon = composed_epsilon(noise, sampling_prob=q, steps=steps, delta=1e-5)
    assert truth - 1e-3 <= epsilon <= truth + tolerance
    if noise == 0.25:  # fractional orders: integers alone give 6801
        assert spend(sampled(q, noise, steps), delta=1e-5, accountant="rdp").epsilon <= 140


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_nothing_costs_nothing_and_no_noise_costs_everything(accountant: str) -> None:
    for event in (ComposedEvent(events=()), sampled(0.01, 1, 0), sampled(0.0, 1, 100)):
        assert spend(event, delta=1e-5, accountant=accountant).epsilon == 0  # type: ignore[arg-type]
    for event in (sampled(0.01, 0.0, 1), gaussian(0.0)):
        assert spend(event, delta=1e-5, accountant=accountant).epsilon == math.inf  # type: ignore[arg-type]


def test_one_step_more_than_planned_is_counted() -> None:
    for steps, epsilon in ((1, 0.19945), (100, 0.718037), (101, 0.720335)):
        found = composed_epsilon(1.0, sampling_prob=0.01, steps=steps, delta=1e-5)
        assert epsilon - 1e-6 <= found <= epsilon + 1e-3


def test_a_batch_as_large_as_the_data() -> None:
    epsilon = composed_epsilon(1.5, sampling_prob=32 / 32, steps=7, delta=1e-5)
    assert epsilon == pytest.approx(8.572627, abs=1e-6)
    with pytest.raises(InsularError, match=r"sampling_prob must be from 0 to 1, got .*1\.25"):
        composed_epsilon(1.5, sampling_prob=40 / 32, steps=7, delta=1e-5)


@pytest.mark.parametrize(("delta", "truth"), [(1e-5, 0.0790), (1e-6, 0.0954)])
def test_very_rare_sampling_over_very_many_steps(delta: float, truth: float) -> None:
    event = sampled(1e-5, 0.7, 10**6)
    cost = spend(event, delta=delta)
    assert truth <= cost.epsilon <= truth * 1.01
    assert 0 < cost.excess_nats < 0.02 * cost.epsilon  # type: ignore[operator]
    assert ("loose" in cost.method) == (cost.excess_nats > 0.01 * cost.epsilon)  # type: ignore[operator]
    assert truth < spend(event, delta=delta, accountant="rdp").epsilon < 1.12


def test_a_loose_answer_says_so_and_by_how_much() -> None:
    truth = 0.005982
    cost = spend(sampled(1e-6, 0.7, 10**6), delta=1e-5)
    assert "loose: epsilon may be up to" in cost.method
    assert truth <= cost.epsilon <= truth + cost.excess_nats * 1.01  # type: ignore[operator]
    assert cost.epsilon <= truth * 1.1


@pytest.mark.parametrize(
    ("q", "noise", "delta", "reason"),
    [(0.01, 1.0, 1e-12, "rounding alone moves delta"), (1e-6, 100.0, 1e-7, "too small, or too un")],
)
def test_where_the_grid_fails_renyi_is_named_and_answers(
    q: float, noise: float, delta: float, reason: str
) -> None:
    event = sampled(q, noise, 10**6)
    with pytest.raises(UnsupportedEventError, match=rf"{reason}.*accountant='rdp'"):
        spend(event, delta=delta)
    pld, rdp, *_ = compare(event, delta=delta)
    assert isinstance(pld, Refusal)
    assert isinstance(rdp, PrivacyCost)
    assert 0 < rdp.epsilon < math.inf


def test_printed_renyi_numbers() -> None:
    for steps, epsilon in ((300, 1.451), (600, 1.748)):
        found = spend(sampled(0.01, 1, steps), delta=1e-5, accountant="rdp").epsilon
        assert epsilon - 1.5e-3 <= found <= epsilon + 5e-4
    row = spend(
        RepeatedEvent(event=gaussian(4.0), count=100), delta=1e-5, accountant="rdp-classical"
    )
    assert row.epsilon == pytest.approx(15.12, abs=5e-3)
    assert float(row.method.split()[2].rstrip(";")) == pytest.approx(2.9194, abs=5e-3)
    row = spend(
        RepeatedEvent(event=gaussian(16.0), count=100), delta=1e-5, accountant="rdp-classical"
    )
    assert row.epsilon == pytest.approx(3.19, abs=5e-3)


def test_pure_mechanisms() -> None:
    response = RandomizedResponseEvent(truth_prob=0.75, unit="record")
    laplace = LaplaceEvent(noise_multiplier=2.0, relation="add_or_remove_one", unit="record")
    assert spend(response, delta=0.0).epsilon == pytest.approx(math.log(3))
    assert spend(laplace, delta=0.0).epsilon == 0.5
    assert spend(RepeatedEvent(event=laplace, count=100), delta=0.0).epsilon == 50
    assert 10 < spend(RepeatedEvent(event=laplace, count=100), delta=1e-5).epsilon < 50
    assert spend(gaussian(1.0), delta=0.0).epsilon == math.inf
    expected = 1 - math.exp((0.2 - 0.5) / 2)
    assert spend_delta(laplace, epsilon=0.2).delta == pytest.approx(expected)
    coin = RandomizedResponseEvent(truth_prob=0.5, unit="record")
    assert spend(coin, delta=0.0).epsilon == 0


@pytest.mark.parametrize("steps", [2, 40])
def test_parity_of_pure_mechanisms_with_dp_accounting(steps: int) -> None:
    import dp_accounting as dpa
    from dp_accounting import NeighboringRelation
    from dp_accounting.pld import PLDAccountant

    for event, theirs, relation in (
        (
            LaplaceEvent(noise_multiplier=3.0, relation="add_or_remove_one", unit="record"),
            dpa.LaplaceDpEvent(3.0),
            NeighboringRelation.ADD_OR_REMOVE_ONE,
        ),
        (
            RandomizedResponseEvent(truth_prob=0.6, n_answers=4, unit="record"),
            dpa.RandomizedResponseDpEvent(0.4 * 4 / 3, 4),
            NeighboringRelation.REPLACE_ONE,
        ),
    ):
        accountant = PLDAccountant(relation)
        for _ in range(steps):
            accountant.compose(theirs)
        ours = spend(RepeatedEvent(event=event, count=steps), delta=1e-5).epsilon
        assert ours == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-3)


def test_parity_of_a_fixed_batch_with_dp_accounting() -> None:
    import dp_accounting as dpa
    from dp_accounting.dp_event import TruncatedSubsampledGaussianDpEvent
    from dp_accounting.pld import PLDAccountant

    event = TruncatedPoissonGaussianEvent(
        noise_multiplier=1.0,
        sampling_prob=0.01,
        max_batch_size=110,
        n_units=10_000,
        relation="add_or_remove_one",
        unit="record",
    )
    theirs = PLDAccountant()
    step = TruncatedSubsampledGaussianDpEvent(10_000, 0.01, 110, 1.0)
    theirs.compose(dpa.SelfComposedDpEvent(step, 100))
    ours = spend(RepeatedEvent(event=event, count=100), delta=1e-5)
    assert ours.epsilon == pytest.approx(theirs.get_epsilon(1e-5), rel=1e-3)
    assert "cut to a fixed size" in ours.sampler
    with pytest.raises(UnsupportedEventError, match=r"truncated_poisson_gaussian; use"):
        spend(event, delta=1e-5, accountant="rdp")


def test_different_steps_compose() -> None:
    steps = [sampled(0.01, noise, 100).event for noise in (1.0, 1.2, 2.0)]
    mixed = ComposedEvent(
        events=(*(RepeatedEvent(event=s, count=100) for s in steps), gaussian(5.0))
    )
    apart = sum(spend(RepeatedEvent(event=s, count=100), delta=2e-6).epsilon for s in steps)
    one = spend(mixed, delta=1e-5)
    assert spend(gaussian(5.0), delta=1e-5).epsilon < one.epsilon
    assert one.epsilon < apart + spend(gaussian(5.0), delta=2e-6).epsilon
    assert one.epsilon <= spend(mixed, delta=1e-5, accountant="rdp").epsilon
    turned = ComposedEvent(events=mixed.events[::-1])
    assert spend(turned, delta=1e-5).epsilon == pytest.approx(one.epsilon, rel=1e-3)


@pytest.mark.parametrize("q", [1e-4, 0.003, 0.0977, 0.3, 0.9])
@pytest.mark.parametrize("noise", [0.4, 0.808, 1.5, 10.0])
@pytest.mark.parametrize("steps", [1, 80, 5000])
def test_renyi_is_no_looser_than_the_library_on_its_own_orders(
    q: float, noise: float, steps: int
) -> None:
    """Sums of orders between 1 and 2 may not converge, or end far too high; the best lie near."""
    from dp_accounting.dp_event import (
        GaussianDpEvent,
        PoissonSampledDpEvent,
        SelfComposedDpEvent,
    )
    from dp_accounting.rdp import RdpAccountant

    theirs = RdpAccountant()
    theirs.compose(SelfComposedDpEvent(PoissonSampledDpEvent(q, GaussianDpEvent(noise)), steps))
    event = sampled(q, noise, steps)
    for delta in (1e-3, 1e-6):
        least = float(theirs.get_epsilon(delta))
        ours = spend(event, delta=delta, accountant="rdp").epsilon
        assert ours <= 1.0001 * least
        classical = spend(event, delta=delta, accountant="rdp-classical").epsilon
        assert ours <= classical <= ours + 2 * math.log(1 / delta)
        for epsilon in (0.1, 1.0, least):
            found = spend_delta(event, epsilon=epsilon, accountant="rdp").delta
            assert found <= 1.0001 * float(theirs.get_delta(epsilon)) + 1e-15


def test_a_search_costs_more_than_a_run_and_only_renyi_knows_how_much() -> None:
    run = sampled(0.01, 1, 600)
    search = RepeatAndSelectEvent(event=run, mean_runs=10.0)
    rows = compare(search, delta=1e-5)
    assert [type(row) for row in rows] == [Refusal, PrivacyCost, PrivacyCost, Refusal]
    single = spend(run, delta=1e-5, accountant="rdp").epsilon
    ten = spend(RepeatedEvent(event=run, count=10), delta=1e-5, accountant="rdp").epsilon
    assert single < rows[1].epsilon < ten  # type: ignore[union-attr]


def test_every_number_says_what_it_rests_on() -> None:
    step = PoissonGaussianEvent(
        noise_multiplier=1.0,
        sampling_prob=0.01,
        relation="add_or_remove_one",
        unit="owner",
        noise_source="seeded",
    )
    cost = spend(RepeatedEvent(event=step, count=10), delta=1e-5, accountant="rdp")
    assert (cost.relation, cost.unit, cost.noise_sources) == (
        "add_or_remove_one",
        "owner",
        ("seeded",),
    )
    assert cost.standing == "estimate"
    assert "seed" in cost.caveat
    assert cost.version.startswith("dp-accounting 0.")
    assert cost.sampler.startswith("Poisson")


def test_guarantees_about_different_things_do_not_compose() -> None:
    pair = (gaussian(1.0), gaussian(1.0, unit="owner"))
    with pytest.raises(AccountingError, match=r"unit must be the same .* owner, record"):
        spend(ComposedEvent(events=pair), delta=1e-5)
    pair = (gaussian(1.0), gaussian(1.0, relation="replace_one"))
    with pytest.raises(AccountingError, match=r"relation must be the same"):
        spend(ComposedEvent(events=pair), delta=1e-5)


def test_replacement_under_sampling_has_no_renyi_rule() -> None:
    with pytest.raises(UnsupportedEventError, match=r"the rdp accountant has no rule"):
        spend(sampled(0.1, 1, 1, "replace_one"), delta=1e-5, accountant="rdp")


def test_too_much_is_refused_with_a_reason() -> None:
    with pytest.raises(AccountingError, match=r"at most 1000000000 steps, got 1e\+300"):
        spend(sampled(0.1, 1, 10**300), delta=1e-5)
    with pytest.raises(UnsupportedEventError, match=r"at most 2000000 steps .* use accountant"):
        spend(sampled(0.1, 1, 2_000_001), delta=1e-5)
    many = ComposedEvent(events=tuple(sampled(0.1, 1 + k / 1000, 1) for k in range(300)))
    with pytest.raises(AccountingError, match=r"at most 60 different mechanisms"):
        spend(many, delta=1e-5)
    with pytest.raises(AccountingError, match=r"at most 40 different mechanisms"):
        spend(many, delta=1e-5, accountant="rdp")


@settings(max_examples=20, deadline=None)
@given(
    q=st.floats(0, 1),
    noise=st.floats(0.01, 1e9),
    steps=st.integers(0, 10**6),
    delta=st.floats(1e-12, 0.5),
)
def test_an_answer_is_never_negative_nor_nan_and_asking_changes_nothing(
    q: float, noise: float, steps: int, delta: float
) -> None:
    event = sampled(q, noise, steps)
    try:
        first = spend(event, delta=delta)
    except UnsupportedEventError as error:
        assert "accountant='rdp'" in str(error)
        return
    assert first == spend(event, delta=delta)
    assert first.epsilon >= 0
    assert math.isfinite(first.epsilon)


@settings(max_examples=15, deadline=None)
@given(q=st.floats(1e-3, 0.9), noise=st.floats(0.5, 20), steps=st.integers(2, 500))
def test_delta_and_epsilon_are_inverse(q: float, noise: float, steps: int) -> None:
    event = sampled(q, noise, steps)
    epsilon = spend(event, delta=1e-6).epsilon
    assert spend_delta(event, epsilon=epsilon).delta <= 1e-6 * 1.01
    if epsilon > 1e-3:
        assert spend_delta(event, epsilon=epsilon * 0.99).delta > 1e-6 * 0.999


def test_the_import_is_light() -> None:
    code = (
        "import sys, insular.accounting\n"
        "print(sorted({'numpy', 'scipy', 'dp_accounting', 'torch', 'pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("accountant", ["rdp", "pld"])
@pytest.mark.parametrize("noise", [1e-300, 1e-170, 1e-3, 1e160, 1e300])
@pytest.mark.parametrize("probability", [0.01, 1.0])
def test_noise_that_no_float_can_square_is_no_error(
    accountant: str, noise: float, probability: float
) -> None:
    cost = spend(sampled(probability, noise, 10), delta=1e-5, accountant=accountant)
    assert cost.epsilon >= 0
    assert (cost.epsilon > 1e3) == (noise < 1)


def test_nothing_released_says_so_under_every_accountant() -> None:
    for accountant in ("rdp", "pld"):
        assert spend(sampled(0.01, 1.0, 0), delta=1e-5, accountant=accountant).method == (
            "nothing was released"
        )
