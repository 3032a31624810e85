"""What ran against what was planned: the event from the log alone, and every difference."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import fields
from itertools import groupby
from typing import Any

from insular.accounting import ComposedEvent, Event, NoiseSource, Relation, Unit
from insular.training._plausibility import draw_differences, noise_differences
from insular.training.results import ExecutedRun, PlannedRun, ReleaseEntry, SamplerFacts
from insular.training.sampled_events import entries_of, event_of, planned_entries

_ROUNDING = 1e-12  # relative: two ways to compute one noise_std


def executed_run(
    entries: Sequence[ReleaseEntry],
    planned: PlannedRun,
    *,
    relation: Relation,
    unit: Unit,
    drawn_from: int | None = None,
) -> ExecutedRun:
    """Make a run's event from its log, and compare the log with the plan.

    A release counts once for each line: a step that was killed and run again counts twice. Of a
    shuffled pass, only the releases count that one unit can have been in.

    Guarantees:
        * The event depends on the log, not on the plan: with noise that was halved, it says so.
        * Each fact, step, draw and noise vector is compared; every difference is a sentence, and a
          run with any must not be promised.
        * A correct run has a difference with probability at most ``2e-6``: the tests of draws and
          of noise have one false alarm in a million each.

    Args:
        entries: The log, oldest first.
        planned: The plan.
        relation: Which data sets are neighbours.
        unit: Whose presence is hidden.
        drawn_from: Units that there really were, where the sampler's public number is another.

    Returns:
        The run as it was.

    Raises:
        AccountingError: If what ran has no event.
    """
    steps = {entry.step for entry in entries}
    return ExecutedRun(
        event=_event(entries, planned, relation=relation, unit=unit),
        n_releases=len(entries),
        n_steps=len(steps),
        n_starts=len({entry.start for entry in entries}),
        n_empty=sum(entry.n_units == 0 for entry in entries),
        noise_rms_over_std=_noise_ratio(entries, planned.noise_std),
        differences=(
            *_plan_differences(planned, relation=relation, unit=unit),
            *_fact_differences(entries, planned),
            *_step_differences(entries, planned.steps),
            *_record_differences(entries, planned.sampler, unit),
            *draw_differences(
                entries,
                planned.sampler,
                drawn_from=planned.sampler.n_units if drawn_from is None else drawn_from,
            ),
            *noise_differences(entries),
        ),
    )


def _event(
    entries: Sequence[ReleaseEntry], planned: PlannedRun, *, relation: Relation, unit: Unit
) -> Event:
    """Equal consecutive mechanisms as one, all of them composed."""

    def mechanism(entry: ReleaseEntry) -> tuple[SamplerFacts, float, NoiseSource]:
        sensitivity = entry.clip_norm * entry.influence
        multiplier = planned.noise_multiplier  # if it gives this very noise, it is not rounded
        if multiplier * sensitivity != entry.noise_std:
            multiplier = entry.noise_std / sensitivity if sensitivity > 0 else 0.0
        return entry.sampler, multiplier, entry.noise_source

    events: list[Event] = []
    for (facts, multiplier, source), group in groupby(entries, key=mechanism):
        events.append(
            event_of(
                facts,
                n_releases=entries_of(facts, releases=((e.start, e.step) for e in group)),
                noise_multiplier=multiplier,
                relation=relation,
                unit=unit,
                noise_source=source,
            )
        )
    return events[0] if len(events) == 1 else ComposedEvent(events=tuple(events))


def _plan_differences(planned: PlannedRun, *, relation: Relation, unit: Unit) -> Iterator[str]:
    """Whether the plan's parts belong together."""
    sources: tuple[NoiseSource, ...] = ("not_drawn", planned.noise_source)
    events = [
        event_of(
            planned.sampler,
            n_releases=planned_entries(planned.sampler, steps=planned.steps),
            noise_multiplier=planned.noise_multiplier,
            relation=relation,
            unit=unit,
            noise_source=source,
        )
        for source in sources
    ]
    if planned.event not in events:
        yield "the planned event is not that of the planned sampler, steps and noise."
    std = planned.noise_multiplier * planned.clip_norm * planned.influence
    if not math.isclose(planned.noise_std, std, rel_tol=_ROUNDING):
        yield (
            f"the planned noise_std is {planned.noise_std!r}, but noise_multiplier times clip_norm "
            f"times influence is {std!r}."
        )


def _fact_differences(entries: Sequence[ReleaseEntry], planned: PlannedRun) -> Iterator[str]:
    """Each setting that was not as planned in some release."""
    for name in ("clip_norm", "influence", "noise_std", "divisor", "noise_source"):
        found = [getattr(entry, name) for entry in entries]
        yield from _changed(name, found, getattr(planned, name))
    for name in (field.name for field in fields(SamplerFacts)):
        found = [getattr(entry.sampler, name) for entry in entries]
        yield from _changed(f"sampler.{name}", found, getattr(planned.sampler, name))
    if entries:
        n_params = entries[0].n_params
        yield from _changed("n_params", [entry.n_params for entry in entries], n_params)


def _changed(name: str, found: Sequence[Any], planned: Any) -> Iterator[str]:
    """One sentence on a setting, if any release had another value."""
    odd = [i for i, value in enumerate(found) if not _equal(value, planned)]
    if odd:
        values = list(dict.fromkeys(found[i] for i in odd))
        more = f" and {len(values) - 3} other values" if len(values) > 3 else ""
        yield (
            f"{name} was {', '.join(map(str, values[:3]))}{more} in {len(odd)} of {len(found)} "
            f"releases, first in release {odd[0] + 1}; it should be {planned}."
        )


def _equal(value: Any, planned: Any) -> bool:
    """Equality, to rounding for floats."""
    if isinstance(value, float) and isinstance(planned, float | int):
        return math.isclose(value, planned, rel_tol=_ROUNDING)
    return bool(value == planned)


def _step_differences(entries: Sequence[ReleaseEntry], steps: int) -> Iterator[str]:
    """Every step in order; a new start may repeat steps, and never leaves one out."""
    start, last, reached = 0, -1, -1
    n_skipped, first_skipped = 0, 0
    for entry in entries:
        same = entry.start == start
        if entry.start < start:
            yield f"release {entry.number} is of start {entry.start}, after one of start {start}."
        elif same and entry.step <= last:
            yield f"step {entry.step} was released after step {last} in one start of the run."
        due = (last if same else reached) + 1
        if entry.step > due:
            first_skipped = first_skipped if n_skipped else due
            n_skipped += entry.step - due
        start, last, reached = entry.start, entry.step, max(reached, entry.step)
    if n_skipped:
        yield (
            f"{n_skipped} steps have no release, the first of them step {first_skipped}: a step "
            "that is passed over tells what was drawn."
        )
    if reached >= steps:
        yield f"step {reached} was released, but the plan ends with step {steps - 1}."
    if len(entries) > steps:
        yield f"there were {len(entries)} releases, planned {steps}; the event counts all of them."
    elif len(entries) < steps:
        yield f"there were {len(entries)} releases, planned {steps}: the run is not finished."


def _record_differences(
    entries: Sequence[ReleaseEntry], facts: SamplerFacts, unit: Unit
) -> Iterator[str]:
    """Whether the records drawn can be those of the units drawn."""
    alone = unit == "record" or facts.records_per_unit is not None
    for entry in entries:
        if entry.n_records < entry.n_units or (alone and entry.n_records != entry.n_units):
            yield (
                f"release {entry.number} had {entry.n_records} records for {entry.n_units} units; "
                f"{'each unit is one record' if alone else 'each unit has at least one'}."
            )
            return


def _noise_ratio(entries: Sequence[ReleaseEntry], noise_std: float) -> float:
    """Measured noise of all releases over the planned one."""
    n_params = sum(entry.n_params for entry in entries)
    if not n_params:
        return math.nan
    rms = math.sqrt(math.fsum(e.n_params * e.noise_rms**2 for e in entries) / n_params)
    if noise_std == 0:
        return 1.0 if rms == 0 else math.inf
    return rms / noise_std
