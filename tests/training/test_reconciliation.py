"""Reconciliation: the event from the log alone; planted bugs that it must catch, clean controls."""

import math
from dataclasses import replace

import numpy as np
import pytest

from insular.accounting import (
    ComposedEvent,
    GaussianEvent,
    PoissonGaussianEvent,
    RepeatedEvent,
    spend,
)
from insular.mechanisms.keystream import SeededStream
from insular.training.executed_log import ExecutedLog
from insular.training.noise import GaussianNoise
from insular.training.reconciliation import executed_run
from insular.training.results import ExecutedRun, PlannedRun, ReleaseEntry, SamplerFacts
from insular.training.sampling import (
    FullBatchSampler,
    PoissonSampler,
    Sampler,
    ShuffledSampler,
    TruncatedPoissonSampler,
)
from training.log_samples import N_UNITS, POISSON, PROB, STEPS, draws, entries, facts, planned

TRUNCATED = replace(POISSON, kind="truncated_poisson", max_batch_size=20)
SHUFFLED = SamplerFacts(kind="shuffled", n_units=N_UNITS, slots=25)
FULL = SamplerFacts(kind="full_batch", n_units=N_UNITS)


def check(found: list[ReleaseEntry], plan: PlannedRun | None = None, **options) -> ExecutedRun:
    plan = planned() if plan is None else plan
    shuffled = plan.sampler.kind == "shuffled"
    relation = "replace_one" if shuffled else "add_or_remove_one"
    return executed_run(found, plan, relation=relation, unit="record", **options)


def poisson_event(count: int, noise_multiplier: float = 1.0) -> RepeatedEvent:
    step = PoissonGaussianEvent(
        noise_multiplier=noise_multiplier,
        sampling_prob=PROB,
        relation="add_or_remove_one",
        unit="record",
        noise_source="secure",
    )
    return RepeatedEvent(event=step, count=count)


# ---------------------------------------------------------------- clean controls


@pytest.mark.parametrize("sampler", [POISSON, TRUNCATED, SHUFFLED, FULL], ids=lambda s: s.kind)
@pytest.mark.parametrize("seed", range(20))
def test_a_correct_run_has_no_difference(sampler: SamplerFacts, seed: int) -> None:
    run = check(entries(sampler, seed=seed), planned(sampler))
    assert run.differences == ()
    assert run.event == planned(sampler).event
    assert (run.n_releases, run.n_steps, run.n_starts) == (STEPS, STEPS, 1)
    assert run.noise_rms_over_std == pytest.approx(1.0, abs=0.02)


def test_rare_draws_and_long_runs_have_no_false_alarm() -> None:
    rare = replace(POISSON, sampling_prob=0.2 / N_UNITS)
    for seed in range(20):
        run = check(entries(rare, steps=400, seed=seed), planned(rare, steps=400))
        assert run.differences == () and run.n_empty > 200


def test_one_release_alone_has_no_false_alarm() -> None:
    for seed in range(20):
        run = check(entries(steps=1, seed=seed), planned(steps=1))
        assert run.differences == ()


def test_the_public_number_of_units_may_be_another_than_the_real_one() -> None:
    real = replace(POISSON, n_units=300)
    found = entries(sizes=draws(real, STEPS, 0))
    assert check(found, drawn_from=300).differences == ()
    assert any("mean size" in line for line in check(found).differences)


@pytest.mark.parametrize("kind", ["poisson", "truncated_poisson", "shuffled", "full_batch"])
def test_the_real_samplers_and_the_real_noise_have_no_difference(tmp_path, kind: str) -> None:
    stream, n = SeededStream(0), N_UNITS
    sampler: Sampler = {
        "poisson": lambda: PoissonSampler(n, sampling_prob=PROB, stream=stream),
        "truncated_poisson": lambda: TruncatedPoissonSampler(
            n, sampling_prob=PROB, max_batch_size=20, stream=stream
        ),
        "shuffled": lambda: ShuffledSampler(n, batch_size=30, stream=stream),
        "full_batch": lambda: FullBatchSampler(n),
    }[kind]()
    noise, log = GaussianNoise(stream), ExecutedLog.create(tmp_path / "log")
    for step in range(60):
        draw, drawn = sampler.draw(step), noise.draw(5000, noise_std=0.1, step=step)
        log.append(
            **facts(
                step,
                sampler=sampler.facts,
                slot=draw.slot,
                n_units=len(draw.units),
                n_records=len(draw.units),
                noise_std=drawn.std,
                noise_rms=drawn.rms,
                n_params=5000,
                noise_source=noise.source,
            )
        )
    plan = planned(sampler.facts, steps=60, source="seeded")
    run = check(list(log.entries()), plan)
    assert run.differences == () and run.event == plan.event


# ---------------------------------------------------------------- planted bugs


def constant(entry: ReleaseEntry) -> ReleaseEntry:
    return replace(entry, n_units=16, n_records=16)


def after(number: int, **changes):
    return lambda entry: replace(entry, **changes) if entry.number > number else entry


PLANTED = {
    "noise std halved, and said": (
        lambda e: replace(e, noise_std=0.05, noise_rms=e.noise_rms / 2),
        "noise_std was 0.05 in 120 of 120 releases, first in release 1; it should be 0.1.",
    ),
    "noise std halved, and not said": (
        lambda e: replace(e, noise_rms=e.noise_rms / 2),
        "which noise of standard deviation 0.1 on 1000 coordinates does not have; 120 of 120",
    ),
    "noise a twentieth too small": (
        lambda e: replace(e, noise_rms=e.noise_rms * 0.95),
        "noise of all releases together was 0.9",
    ),
    "noise in the first step only": (
        after(1, noise_rms=0.0),
        "noise_rms was 0 in release 2",
    ),
    "noise drawn once and used again": (
        lambda e: replace(e, noise_rms=0.1001),
        "119 of 120 releases had noise exactly as long as another one's: noise was used again",
    ),
    "divisor by the realised batch": (
        lambda e: replace(e, divisor=float(max(1, e.n_units))),
        "divisor was ",
    ),
    "a shuffled sampler that says Poisson": (
        constant,
        "mean squared distance from the expected size was 0 over 120 releases, expected 15.36",
    ),
    "clip norm changed midway": (
        after(60, clip_norm=0.2),
        "clip_norm was 0.2 in 60 of 120 releases, first in release 61; it should be 0.1.",
    ),
    "a seeded generator where secure was planned": (
        lambda e: replace(e, noise_source="seeded"),
        "noise_source was seeded in 120 of 120 releases, first in release 1; it should be secure.",
    ),
    "influence not priced": (
        lambda e: replace(e, influence=3.0),
        "influence was 3.0",
    ),
    "another rate, and said": (
        lambda e: replace(e, sampler=replace(POISSON, sampling_prob=0.08)),
        "sampler.sampling_prob was 0.08 in 120 of 120 releases",
    ),
    "another sampler, and said": (
        lambda e: replace(e, sampler=FULL),
        "sampler.kind was full_batch",
    ),
    "adapters added midway": (
        after(60, n_params=2000),
        "n_params was 2000 in 60 of 120 releases",
    ),
    "records drawn twice under accumulation": (
        lambda e: replace(e, n_records=2 * e.n_units),
        "records for",
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_caught(name: str) -> None:
    change, message = PLANTED[name]
    run = check(entries(change=change))
    assert any(message in line for line in run.differences), run.differences
    assert all("\n" not in line and line.endswith(".") for line in run.differences)


@pytest.mark.parametrize("factor", [2.0, 0.5, 1.25])
def test_a_rate_that_is_not_the_accounted_one_is_caught(factor: float) -> None:
    real = replace(POISSON, sampling_prob=PROB * factor)
    for seed in range(5):
        run = check(entries(sizes=draws(real, STEPS, seed)))
        assert any("sampling_prob=0.04 of 400 units: their mean size" in d for d in run.differences)


def test_a_few_steps_show_a_shuffled_sampler() -> None:
    run = check(entries(steps=12, sizes=[16] * 12), planned(steps=12))
    assert any("mean squared distance" in line for line in run.differences)


def test_draws_that_come_in_bursts_are_caught() -> None:
    rng = np.random.default_rng(0)  # owners who are drawn together
    sizes = [int(4 * k) for k in rng.binomial(N_UNITS // 4, PROB, STEPS)]
    run = check(entries(sizes=sizes))
    assert any("mean squared distance" in line for line in run.differences)


def test_a_step_skipped_on_an_empty_batch_is_caught() -> None:
    rare = replace(POISSON, sampling_prob=1 / N_UNITS)
    whole = entries(rare)
    kept = [e for e in whole if e.n_units]
    run = check(kept, planned(rare))
    assert any("steps have no release" in line for line in run.differences)
    assert any("planned 120: the run is not finished" in line for line in run.differences)
    # the same, with the steps counted as if there had been none: no draw was ever empty
    renumbered = [replace(e, step=i, number=i + 1) for i, e in enumerate(kept)]
    run = check(renumbered, planned(rare, steps=len(kept)))
    assert any("share of empty ones was 0 over" in line for line in run.differences)


def test_a_batch_over_the_largest_is_caught() -> None:
    found = entries(TRUNCATED)
    found[5] = replace(found[5], n_units=21, n_records=21)
    run = check(found, planned(TRUNCATED))
    assert "a draw had 21 units, more than max_batch_size=20." in run.differences


def test_a_slot_out_of_turn_and_a_slot_too_large_are_caught() -> None:
    found = entries(SHUFFLED)
    found[5] = replace(found[5], slot=3, n_units=40, n_records=40)
    run = check(found, planned(SHUFFLED))
    assert "release 6 for step 5 had slot 3, in turn it was slot 5." in run.differences
    assert any("release 6 had 40 units, a slot has 16 to 16" in line for line in run.differences)


def test_a_part_that_says_it_is_all_is_caught() -> None:
    found = entries(FULL, change=lambda e: replace(e, n_units=399, n_records=399))
    run = check(found, planned(FULL))
    assert "a full batch had 399 units, of 400 that exist." in run.differences


@pytest.mark.parametrize(
    ("take", "message"),
    [
        (lambda all: all[:7] + all[8:], "1 steps have no release, the first of them step 7"),
        (lambda all: all[1:], "1 steps have no release, the first of them step 0"),
        (lambda all: all[:100], "there were 100 releases, planned 120: the run is not finished."),
        (lambda all: [], "there were 0 releases, planned 120"),
        (lambda all: [*all, all[-1]], "step 119 was released after step 119 in one start"),
        (lambda all: [all[1], all[0], *all[2:]], "step 0 was released after step 1 in one start"),
        (
            lambda all: [*all, replace(all[-1], step=120)],
            "step 120 was released, but the plan ends with step 119.",
        ),
        (
            lambda all: [*all[:9], replace(all[9], start=2), *all[10:]],
            "is of start 1, after one of start 2",
        ),
    ],
)
def test_steps_left_out_repeated_or_out_of_order_are_caught(take, message: str) -> None:
    run = check(take(entries()))
    assert any(message in line for line in run.differences), run.differences


def test_a_plan_whose_parts_do_not_belong_together_is_caught() -> None:
    plan = replace(planned(), event=poisson_event(10))
    assert any(
        "the planned event is not that" in line for line in check(entries(), plan).differences
    )
    plan = replace(planned(), noise_multiplier=2.0)
    assert any("the planned noise_std is 0.1, but" in d for d in check(entries(), plan).differences)


# ---------------------------------------------------------------- the event


def test_the_event_depends_on_the_log_not_on_the_plan() -> None:
    run = check(entries(change=lambda e: replace(e, noise_std=0.05)))
    assert run.event == poisson_event(STEPS, noise_multiplier=0.5)


def test_equal_consecutive_mechanisms_are_one() -> None:
    run = check(entries(change=after(50, clip_norm=0.2)))
    assert run.event == ComposedEvent(events=(poisson_event(50), poisson_event(70, 0.5)))


def test_influence_is_priced() -> None:
    run = check(entries(change=lambda e: replace(e, influence=4.0)))
    assert run.event == poisson_event(STEPS, noise_multiplier=0.25)


def test_nothing_that_ran_is_an_event_of_nothing() -> None:
    run = check([])
    assert spend(run.event, delta=1e-5).epsilon == 0.0
    assert math.isnan(run.noise_rms_over_std)


def test_a_shuffled_pass_counts_once() -> None:
    run = check(entries(SHUFFLED), planned(SHUFFLED))  # 120 steps of 25 slots: in the fifth pass
    assert isinstance(run.event, RepeatedEvent) and run.event.count == 5
    assert isinstance(run.event.event, GaussianEvent)
    assert run.event.event.noise_multiplier == 0.5  # replacing moves the sum by 2 C


# ---------------------------------------------------------------- resumed runs

RESUMED = SamplerFacts(kind="poisson", n_units=10_000, sampling_prob=0.01)


def resumed_log(path, parts: list[range]) -> list[ReleaseEntry]:
    """Each part is one start of the run, which opens the log again."""
    log = ExecutedLog.create(path)
    for start, steps in enumerate(parts, start=1):
        honest = entries(RESUMED, steps=steps.stop, seed=start)
        for step in steps:
            entry = honest[step]
            log.append(
                **facts(
                    step,
                    start=start,
                    sampler=RESUMED,
                    n_units=entry.n_units,
                    n_records=entry.n_records,
                    noise_rms=entry.noise_rms,
                )
            )
        log = ExecutedLog.open(path, head=log.head)
    return list(log.entries())


def test_a_clean_resume_spends_the_sum(tmp_path) -> None:
    found = resumed_log(tmp_path / "log", [range(500), range(500, 1000)])
    run = check(found, planned(RESUMED, steps=1000))
    assert run.differences == ()
    assert (run.n_releases, run.n_steps, run.n_starts) == (1000, 1000, 2)
    assert spend(run.event, delta=1e-5).epsilon == pytest.approx(1.82824, abs=1e-3)
    half = check(found[:500], planned(RESUMED, steps=500))
    assert spend(half.event, delta=1e-5).epsilon == pytest.approx(1.32605, abs=1e-3)


def test_steps_that_a_kill_lost_are_spent_all_the_same(tmp_path) -> None:
    found = resumed_log(tmp_path / "log", [range(620), range(500, 1000)])
    run = check(found, planned(RESUMED, steps=1000))
    assert (run.n_releases, run.n_steps, run.n_starts) == (1120, 1000, 2)
    assert spend(run.event, delta=1e-5).epsilon > 1.83
    assert run.differences == (
        "there were 1120 releases, planned 1000; the event counts all of them.",
    )


def test_a_run_that_ends_early_because_a_step_was_lost_has_no_difference(tmp_path) -> None:
    found = resumed_log(tmp_path / "log", [range(62), range(50, 88)])
    run = check(found, planned(RESUMED, steps=100))
    assert (run.n_releases, run.n_steps, run.differences) == (100, 88, ())


@pytest.mark.parametrize(("steps", "epsilon"), [(1, 0.19945), (100, 0.718037), (101, 0.720335)])
def test_one_step_more_than_planned_is_counted_and_named(steps: int, epsilon: float) -> None:
    run = check(entries(RESUMED, steps=steps), planned(RESUMED, steps=min(steps, 100)))
    assert spend(run.event, delta=1e-5).epsilon == pytest.approx(epsilon, abs=1e-3)
    assert any("there were 101 releases" in d for d in run.differences) == (steps == 101)


def test_a_shuffled_run_that_is_resumed_counts_every_time_that_a_unit_may_have_been_in() -> None:
    # Start 2 may put a unit that start 1 has used into a slot that comes still.
    whole = entries(SHUFFLED, steps=50)
    found = [replace(e, start=1 if e.step < 30 else 2) for e in whole]
    run = check(found, planned(SHUFFLED, steps=50))
    assert isinstance(run.event, RepeatedEvent) and run.event.count == 3
