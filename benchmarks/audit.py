"""What each part of an audit costs, over one plain forward and backward of the same records.

Everything runs in one process on one stack; times are medians of repetitions. The second table
shows how the screen grows with candidates, batch and length.

    python benchmarks/audit.py --repeats 3
"""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import nn

from insular.audit.subjects.model_subject import ModelSubject
from insular.audit.subjects.subject import Subject
from insular.recipes.audit.arm import run_arm
from insular.recipes.audit.census import run_census_task
from insular.recipes.audit.localisation import run_localisation
from insular.recipes.audit.sensitivity import (
    GROWTH_SIZES,
    PART_SIZE,
    run_growth,
    run_screen_part,
    run_validation,
)
from insular.recipes.audit.sources import BuiltStack
from insular.recipes.audit.spec import AuditSpec
from insular.recipes.inputs import prepare_inputs, silent
from insular.recipes.text import AuditText
from insular.records.batches import collate
from insular.records.tokens import TokenisedRecord


def quiet(line: str) -> None:
    """Say nothing."""


def median(run: Callable[[], object], *, repeats: int) -> float:
    """Median seconds of a call, after one warm-up."""
    run()
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def plain_step(model: nn.Module, records: Sequence[TokenisedRecord], *, width: int) -> float:
    """One forward and backward of a batch by transformers' own mean loss, no records apart."""
    batch = collate(records, pad_token_id=0, width=width)
    started = time.perf_counter()
    model(
        input_ids=batch.input_ids,
        attention_mask=batch.attention_mask,
        labels=batch.labels,
        use_cache=False,
    ).loss.backward()
    model.zero_grad()
    return time.perf_counter() - started


def model_of(subject: Subject) -> nn.Module:
    """The model of a built stack."""
    assert isinstance(subject, ModelSubject)
    return subject.model


def parts_table(spec: AuditSpec, text: AuditText, source: BuiltStack, *, repeats: int) -> None:
    """Print each part's cost."""
    with source.subject(quiet) as subject:
        model = model_of(subject)
        step = median(
            lambda: plain_step(model, text.candidates(spec.batch), width=text.usable_width),
            repeats=repeats,
        )
    record = text.candidates(1)[0].id
    arguments = (spec, source, text)
    parts: dict[str, Callable[[], object]] = {
        "isolation, one stack": lambda: run_arm(*arguments, progress=quiet),
        f"screen, {PART_SIZE} candidates": lambda: run_screen_part(*arguments, 0, progress=quiet),
        "pair in one stack, validated": lambda: run_validation(*arguments, record, progress=quiet),
        f"growth, {', '.join(map(str, GROWTH_SIZES))} records": lambda: run_growth(
            *arguments, record, GROWTH_SIZES, progress=quiet
        ),
        "localisation": lambda: run_localisation(*arguments, record, progress=quiet),
        "census at 2, 4, 8, 16": lambda: run_census_task(*arguments, progress=quiet),
    }
    print(f"plain step, {spec.batch} x {text.usable_width}: {step:.2f} s")
    print(f"{'part':<36}{'seconds':>9}{'plain steps':>13}")
    for name, run in parts.items():
        started = time.perf_counter()
        run()
        seconds = time.perf_counter() - started
        print(f"{name:<36}{seconds:9.1f}{seconds / step:13.1f}", flush=True)


def screen_seconds(spec: AuditSpec, source: BuiltStack) -> float:
    """Time of one part of a screen of other size, on the same loaded stack."""
    text = prepare_inputs(spec, silent).text
    started = time.perf_counter()
    run_screen_part(spec, source, text, 0, progress=quiet)
    return time.perf_counter() - started


def growth_table(spec: AuditSpec, source: BuiltStack) -> None:
    """Print how the screen grows, each line over its first entry."""
    four = replace(spec, candidates=4)
    lines = {
        "candidates 2, 4, 8": [replace(spec, candidates=n) for n in (2, 4, 8)],
        "batch 4, 8, 16": [replace(four, batch=n) for n in (4, 8, 16)],
        "tokens 24, 48, 96": [replace(four, tokens=n) for n in (24, 48, 96)],
    }
    print(f"\n{'screen, as it grows':<24}{'seconds':>24}{'over the first':>24}")
    for name, specs in lines.items():
        seconds = [screen_seconds(one, source) for one in specs]
        ratios = [one / seconds[0] for one in seconds]
        shown = "  ".join(f"{one:.1f}" for one in seconds)
        print(f"{name:<24}{shown:>24}{'  '.join(f'{r:.2f}' for r in ratios):>24}", flush=True)


def main() -> None:
    """Time, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--stack", default="llm-int8")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--growth", action=argparse.BooleanOptionalAction, default=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    spec = AuditSpec(stack=given.stack)
    source = BuiltStack(spec=spec, name=given.stack)
    text = prepare_inputs(spec, silent).text
    parts_table(spec, text, source, repeats=given.repeats)
    if given.growth:
        growth_table(spec, source)


if __name__ == "__main__":
    main()
