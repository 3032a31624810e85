"""Samplers: who is in a step, and the event that the accountant is told."""

import math
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from insular.accounting import (
    GaussianEvent,
    GroupedPoissonGaussianEvent,
    PoissonGaussianEvent,
    RepeatedEvent,
    TruncatedPoissonGaussianEvent,
    sampling_prob_of,
    spend,
)
from insular.errors import InvalidArgumentError, UnsupportedEventError
from insular.mechanisms.keystream import Keystream, SecureStream, SeededStream
from insular.training.noise import GaussianNoise
from insular.training.results import SamplerFacts
from insular.training.sampled_events import entries_of, event_of, planned_entries
from insular.training.sampling import (
    FullBatchSampler,
    PoissonSampler,
    Sampler,
    ShuffledSampler,
    TruncatedPoissonSampler,
)


def every_sampler(stream: Keystream, n: int = 40) -> dict[str, Sampler]:
    return {
        "poisson": PoissonSampler(n, sampling_prob=0.2, stream=stream),
        "truncated_poisson": TruncatedPoissonSampler(
            n, sampling_prob=0.2, max_batch_size=9, stream=stream
        ),
        "shuffled": ShuffledSampler(n, batch_size=7, stream=stream),
        "full_batch": FullBatchSampler(n),
    }


KINDS = sorted(every_sampler(SeededStream(0)))


def event(facts: SamplerFacts, n: int = 10, **changes: object) -> RepeatedEvent:
    arguments = {
        "n_releases": n,
        "noise_multiplier": 2.0,
        "relation": "add_or_remove_one",
        "unit": "record",
        "noise_source": "secure",
    }
    found = event_of(facts, **(arguments | changes))  # type: ignore[arg-type]
    assert isinstance(found, RepeatedEvent)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_the_contract_of_every_sampler(kind: str) -> None:
    sampler = every_sampler(SeededStream(4))[kind]
    assert sampler.facts.kind == kind
    draws = [sampler.draw(step).units for step in range(12)]
    for units in draws:
        assert list(units) == sorted(set(units))
        assert all(type(unit) is int and 0 <= unit < 40 for unit in units)
    torch.manual_seed(0)
    np.random.seed(0)
    resumed = every_sampler(SeededStream(4))[kind]
    assert [resumed.draw(step).units for step in (11, 3)] == [draws[11], draws[3]]
    if kind != "full_batch":
        assert len(set(draws)) > 1
        assert [resumed.draw(step, start=2).units for step in range(12)] != draws
        other = every_sampler(SecureStream())[kind]
        assert [other.draw(step).units for step in range(12)] != draws
    for bad in ({"step": -1}, {"step": 0, "start": 0}):
        with pytest.raises(InvalidArgumentError, match="must be an integer >="):
            sampler.draw(**bad)


def test_empty_draws_are_draws() -> None:
    """n 20, q 0.05, 200 steps: 71.7 empties, sd 6.78; 50 to 93 is 3.1 sd on either side."""
    stream = SeededStream(0)
    sampler, noise = PoissonSampler(20, sampling_prob=0.05, stream=stream), GaussianNoise(stream)
    parameter, sizes, updates = torch.zeros(50), [], []
    for step in range(200):
        drawn = sampler.draw(step)
        sizes.append(len(drawn.units))
        noisy = noise.add(torch.zeros(50), noise.draw(50, noise_std=1.0, step=step))
        update = noisy / (0.05 * 20)
        parameter -= 0.1 * update
        if not drawn.units:
            updates.append(update)
    assert 50 <= sizes.count(0) <= 93
    empty = torch.stack(updates)
    assert (empty != 0).all()
    # some 3,500 coordinates: 6 standard errors
    assert float(empty.std()) == pytest.approx(1.0, abs=6 / math.sqrt(2 * empty.numel()))
    releases = [(1, step) for step in range(200)]
    assert entries_of(sampler.facts, releases=releases) == 200
    assert event(sampler.facts, 200).count == 200


@pytest.mark.parametrize("q", [0.003, 0.25, 0.9])
def test_poisson_frequencies(q: float) -> None:
    """1,000 units, 400 draws of a secure stream, 6 sd at each of 3 places: false alarm 6e-9.

    The sizes' chi-squared test adds 1e-6 for each q.
    """
    sampler = PoissonSampler(1000, sampling_prob=q, stream=SecureStream())
    rows = np.zeros((400, 1000), dtype=bool)
    for step in range(400):
        rows[step, list(sampler.draw(step).units)] = True
    spread = math.sqrt(q * (1 - q))
    assert abs(rows.mean() - q) < 6 * spread / math.sqrt(rows.size)
    per_unit = rows.sum(axis=0)
    chi = float(((per_unit - 400 * q) ** 2 / (400 * q * (1 - q))).sum())
    assert 1e-6 / 2 < stats.chi2.sf(chi, 1000) < 1 - 1e-6 / 2
    # one unit's coins over steps, and neighbours' in one step
    for one, other in ((rows[:-1], rows[1:]), (rows[:, :-1], rows[:, 1:])):
        joint = (one & other).mean()
        assert abs(joint - q * q) < 6 * math.sqrt(q * q * (1 - q * q) / one.size) * 2


@settings(max_examples=60, deadline=None)
@given(q=st.floats(0, 1), n=st.integers(1, 200))
def test_the_coin_is_exact(q: float, n: int) -> None:
    stream = SeededStream(2)
    drawn = PoissonSampler(n, sampling_prob=q, stream=stream).draw(5).units
    words = stream.words(n, purpose="poisson", step=5).tolist()
    assert drawn == tuple(i for i, w in enumerate(words) if w < math.floor(q * 2**64))
    assert len(PoissonSampler(n, sampling_prob=1.0, stream=stream).draw(0).units) == n
    assert PoissonSampler(n, sampling_prob=0.0, stream=stream).draw(0).units == ()


def test_a_truncated_draw_is_a_random_subset_of_the_sample() -> None:
    """6 units of which 2 are kept: 15 pairs, chi-squared, false alarm 1e-6."""
    sampler = TruncatedPoissonSampler(
        6, sampling_prob=1 / 3, max_batch_size=2, stream=SeededStream(8)
    )
    found = Counter(sampler.draw(step).units for step in range(6000))
    assert max(map(len, found)) == 2
    pairs = [count for units, count in found.items() if len(units) == 2]
    assert len(pairs) == 15
    assert stats.chisquare(pairs).pvalue > 1e-6
    empty = (2 / 3) ** 6
    assert abs(found[()] - 6000 * empty) < 6 * math.sqrt(6000 * empty)
    whole = TruncatedPoissonSampler(
        6, sampling_prob=1 / 3, max_batch_size=6, stream=SeededStream(8)
    )
    for step in range(200):
        sample, cut = whole.draw(step).units, sampler.draw(step).units
        assert set(cut) <= set(sample)
        assert len(cut) == min(2, len(sample))


def test_a_pass_holds_each_unit_once_and_drops_none() -> None:
    sampler = ShuffledSampler(23, batch_size=5, stream=SecureStream())
    assert sampler.facts.slots == 5
    passes = []
    for number in range(3):
        draws = [sampler.draw(5 * number + slot) for slot in range(5)]
        assert [draw.slot for draw in draws] == [0, 1, 2, 3, 4]
        assert {len(draw.units) for draw in draws} == {4, 5}
        assert sorted(unit for draw in draws for unit in draw.units) == list(range(23))
        passes.append(tuple(draw.units for draw in draws))
    assert len(set(passes)) == 3


def test_every_order_of_a_pass_is_equally_likely() -> None:
    """4 units in 4 slots: 24 orders over 4,800 passes, chi-squared, false alarm 1e-6."""
    sampler = ShuffledSampler(4, batch_size=1, stream=SeededStream(1))
    orders = Counter(
        tuple(sampler.draw(4 * number + slot).units[0] for slot in range(4))
        for number in range(4800)
    )
    assert len(orders) == 24
    assert stats.chisquare(list(orders.values())).pvalue > 1e-6


def test_a_step_is_one_logical_sample_however_many_ranks_share_it() -> None:
    """1,000 units, mean 10, over 1,000 steps: 10 +- 0.3 is 3 sd; seeded. No two ranks share."""
    sampler = PoissonSampler(
        1000, sampling_prob=sampling_prob_of(10, n_units=1000), stream=SeededStream(0)
    )
    sizes = []
    for step in range(1000):
        units = sampler.draw(step).units
        ranks = [units[rank::2] for rank in range(2)]
        assert not set(ranks[0]) & set(ranks[1])
        assert sorted(ranks[0] + ranks[1]) == list(units)
        sizes.append(len(units))
    assert np.mean(sizes) == pytest.approx(10, abs=0.3)
    run = event(sampler.facts, 1000, noise_multiplier=1.0)
    assert spend(run, delta=1e-5).epsilon == pytest.approx(1.82824, abs=2e-3)


def test_a_batch_larger_than_the_data_is_refused_with_both_numbers() -> None:
    stream = SeededStream(0)
    for n_units in (5, 0):
        with pytest.raises(InvalidArgumentError, match=rf"batch_size=8 and n_units={n_units}"):
            sampling_prob_of(8, n_units=n_units)
        with pytest.raises(InvalidArgumentError, match=rf"batch_size=8 and n_units={n_units}"):
            ShuffledSampler(n_units, batch_size=8, stream=stream)
    with pytest.raises(
        InvalidArgumentError, match=r"sampling_prob must be from 0 to 1, got .*1\.6"
    ):
        PoissonSampler(5, sampling_prob=8 / 5, stream=stream)
    for build in (
        lambda: PoissonSampler(0, sampling_prob=0.1, stream=stream),
        lambda: FullBatchSampler(0),
    ):
        with pytest.raises(InvalidArgumentError, match="n_units must be an integer >= 1"):
            build()


def test_a_batch_as_large_as_the_data() -> None:
    q = sampling_prob_of(32, n_units=32)
    sampler = PoissonSampler(32, sampling_prob=q, stream=SeededStream(0))
    cost = spend(event(sampler.facts, 7, noise_multiplier=1.5), delta=1e-5)
    assert cost.epsilon == pytest.approx(8.572627, abs=1e-3)
    full = event(FullBatchSampler(32).facts, 7, noise_multiplier=1.5)
    assert spend(full, delta=1e-5).epsilon == pytest.approx(8.572627, abs=1e-6)
    with pytest.raises(InvalidArgumentError, match=r"batch_size=40 and n_units=32"):
        sampling_prob_of(40, n_units=32)


def test_bad_truncations() -> None:
    with pytest.raises(InvalidArgumentError, match=r"max_batch_size=3 for 8 of 40 units"):
        TruncatedPoissonSampler(40, sampling_prob=0.2, max_batch_size=3, stream=SeededStream(0))
    with pytest.raises(InvalidArgumentError, match="max_batch_size must be an integer >= 1"):
        TruncatedPoissonSampler(40, sampling_prob=0.2, max_batch_size=0, stream=SeededStream(0))
    for n in range(1, 60):  # a batch of exactly the expected size, whatever the division rounds to
        prob = sampling_prob_of(1, n_units=n)
        TruncatedPoissonSampler(n, sampling_prob=prob, max_batch_size=1, stream=SeededStream(0))


def test_a_public_number_of_units_stands_in_the_facts() -> None:
    sampler = PoissonSampler(95, sampling_prob=16 / 100, public_n_units=100, stream=SeededStream(0))
    assert sampler.facts.n_units == 100
    assert max(max(sampler.draw(step).units, default=0) for step in range(200)) == 94
    assert FullBatchSampler(95, public_n_units=100).facts.n_units == 100
    assert len(FullBatchSampler(95, public_n_units=100).draw(0).units) == 95


def test_the_event_of_each_sampler() -> None:
    samplers = every_sampler(SeededStream(0))
    words = {"relation": "add_or_remove_one", "unit": "record", "noise_source": "secure"}
    assert event(samplers["poisson"].facts).event == PoissonGaussianEvent(
        noise_multiplier=2.0, sampling_prob=0.2, **words
    )
    assert event(samplers["truncated_poisson"].facts).event == TruncatedPoissonGaussianEvent(
        noise_multiplier=2.0, sampling_prob=0.2, max_batch_size=9, n_units=40, **words
    )
    assert event(samplers["full_batch"].facts).event == GaussianEvent(noise_multiplier=2.0, **words)
    replaced = words | {"relation": "replace_one"}
    half = GaussianEvent(noise_multiplier=1.0, **replaced)
    for kind in ("full_batch", "shuffled"):
        assert event(samplers[kind].facts, relation="replace_one").event == half
    assert event(samplers["poisson"].facts, relation="replace_one").event == PoissonGaussianEvent(
        noise_multiplier=2.0, sampling_prob=0.2, **replaced
    )


def test_records_are_drawn_and_owners_protected() -> None:
    sampler = PoissonSampler(40, sampling_prob=0.2, records_per_unit=3, stream=SeededStream(0))
    found = event(sampler.facts, unit="owner")
    assert found.event == GroupedPoissonGaussianEvent(
        noise_multiplier=2.0, sampling_prob=0.2, records_per_unit=3, noise_source="secure"
    )
    for changes in ({"unit": "record"}, {"unit": "owner", "relation": "replace_one"}):
        with pytest.raises(UnsupportedEventError, match="unit and relation must be owner and add"):
            event(sampler.facts, **changes)
    shuffled = replace(every_sampler(SeededStream(0))["shuffled"].facts, records_per_unit=3)
    with pytest.raises(UnsupportedEventError, match=r"kind must be poisson.*kind='shuffled'"):
        event(shuffled, unit="owner", relation="replace_one")


def test_a_shuffle_is_never_poisson() -> None:
    facts = every_sampler(SeededStream(0))["shuffled"].facts
    with pytest.raises(UnsupportedEventError, match=r"relation must be replace_one for the shuff"):
        event(facts)
    assert event(facts, planned_entries(facts, steps=13), relation="replace_one").count == 3


def test_facts_that_lack_something_are_refused() -> None:
    for facts, name in (
        (SamplerFacts(kind="poisson", n_units=4), "sampling_prob"),
        (SamplerFacts(kind="truncated_poisson", n_units=4, sampling_prob=0.5), "max_batch_size"),
    ):
        with pytest.raises(InvalidArgumentError, match=f"{name} must be stated by a {facts.kind}"):
            event(facts)
    with pytest.raises(InvalidArgumentError, match="slots must be stated"):
        entries_of(SamplerFacts(kind="shuffled", n_units=4), releases=[(1, 0)])
    unknown = SamplerFacts(kind="poisson", n_units=4, sampling_prob=0.5)
    object.__setattr__(unknown, "kind", "importance")
    with pytest.raises(UnsupportedEventError, match="known kind, got 'importance'"):
        event(unknown)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), n=st.integers(2, 12), seed=st.integers(0, 1000))
def test_no_unit_is_in_more_sums_than_are_counted(data: st.DataObject, n: int, seed: int) -> None:
    """Runs that are killed and started again, in the middle of a pass or of a step."""
    batch = data.draw(st.integers(1, n))
    sampler = ShuffledSampler(n, batch_size=batch, stream=SeededStream(seed))
    releases, step = [], 0
    for start, length in enumerate(data.draw(st.lists(st.integers(1, 9), max_size=4)), start=1):
        releases += [(start, step + k) for k in range(length)]
        step += length - data.draw(st.integers(0, 1))
    entered = Counter(u for start, k in releases for u in sampler.draw(k, start=start).units)
    counted = entries_of(sampler.facts, releases=releases)
    assert max(entered.values(), default=0) <= counted
    if {start for start, _ in releases} <= {1}:
        assert counted == planned_entries(sampler.facts, steps=len(releases))


def test_a_resume_inside_a_pass_can_meet_a_unit_again_and_is_counted() -> None:
    """The largest number of releases of any one slot, 1, would be too few."""
    sampler = ShuffledSampler(4, batch_size=1, stream=SeededStream(0))
    releases = [(1, 0), (1, 1), (2, 2), (2, 3)]
    assert max(Counter(sampler.draw(k, start=s).slot for s, k in releases).values()) == 1
    assert entries_of(sampler.facts, releases=releases) == 2
    met = False
    for seed in range(20):
        sampler = ShuffledSampler(4, batch_size=1, stream=SeededStream(seed))
        units = [sampler.draw(k, start=s).units[0] for s, k in releases]
        met = met or len(set(units)) < 4
    assert met


def test_events_are_made_without_torch() -> None:
    code = (
        "import sys, insular.training.sampled_events\n"
        "print(sorted({'numpy', 'torch', 'cryptography'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
