"""Simulated runs: what the log of a correct loop holds, and of loops with planted bugs."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from insular.accounting import NoiseSource
from insular.training.executed_log import ExecutedLog, ReleaseFacts
from insular.training.results import PlannedRun, ReleaseEntry, SamplerFacts
from insular.training.sampled_events import event_of, planned_entries

N_UNITS, STEPS, PROB = 400, 120, 0.04
POISSON = SamplerFacts(kind="poisson", n_units=N_UNITS, sampling_prob=PROB)


def facts(step: int = 0, **changes: Any) -> ReleaseFacts:
    """One entry of a quiet run."""
    found: dict[str, Any] = {
        "start": 1,
        "step": step,
        "sampler": POISSON,
        "slot": None,
        "n_units": 16,
        "n_records": 16,
        "clip_norm": 0.1,
        "influence": 1.0,
        "noise_std": 0.1,
        "noise_rms": 0.1001,
        "n_params": 1000,
        "divisor": 16.0,
        "noise_source": "secure",
    }
    return found | changes  # pyright: ignore[reportReturnType]


def planned(
    sampler: SamplerFacts = POISSON,
    *,
    steps: int = STEPS,
    source: NoiseSource = "secure",
    **changes: Any,
) -> PlannedRun:
    """The plan of a run."""
    replaced = sampler.kind == "shuffled"
    event = event_of(
        sampler,
        n_releases=planned_entries(sampler, steps=steps),
        noise_multiplier=1.0,
        relation="replace_one" if replaced else "add_or_remove_one",
        unit="record",
        noise_source=source,
    )
    whole = PlannedRun(
        event=event,
        sampler=sampler,
        steps=steps,
        clip_norm=0.1,
        influence=1.0,
        noise_multiplier=1.0,
        noise_std=0.1,
        divisor=16.0,
        noise_source=source,
    )
    return replace(whole, **changes)


def draws(sampler: SamplerFacts, steps: int, seed: int) -> list[int]:
    """Sizes of honest draws."""
    if sampler.kind == "full_batch":
        return [sampler.n_units] * steps
    if sampler.kind == "shuffled":
        assert sampler.slots is not None
        parts = np.array_split(np.arange(sampler.n_units), sampler.slots)
        return [len(parts[step % sampler.slots]) for step in range(steps)]
    sizes = np.random.default_rng(seed).binomial(sampler.n_units, sampler.sampling_prob, steps)
    return [min(int(k), sampler.max_batch_size or sampler.n_units) for k in sizes]


def entries(
    sampler: SamplerFacts = POISSON,
    *,
    steps: int = STEPS,
    seed: int = 0,
    sizes: Sequence[int] | None = None,
    change: Callable[[ReleaseEntry], ReleaseEntry] = lambda entry: entry,
) -> list[ReleaseEntry]:
    """The log of one start of a run, each entry passed through ``change``."""
    noise = np.random.default_rng([seed, 1])
    found = []
    for step, size in enumerate(draws(sampler, steps, seed) if sizes is None else sizes):
        vector = noise.normal(0.0, 0.1, 1000).astype(np.float32).astype(float)
        entry = ReleaseEntry(
            number=step + 1,
            previous="",
            time_utc=datetime(2026, 1, 1, tzinfo=UTC),
            **facts(
                step,
                sampler=sampler,
                slot=step % sampler.slots if sampler.slots else None,
                n_units=size,
                n_records=size,
                noise_rms=math.sqrt(float(np.mean(vector**2))),
            ),
        )
        found.append(change(entry))
    return found


def log_of(path, n_lines: int) -> ExecutedLog:
    """A log on disk."""
    log = ExecutedLog.create(path)
    for step in range(n_lines):
        log.append(**facts(step))
    return log
