"""The isolation audit: change everything around a record, and see whether its gradient moves."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median

import numpy as np
import torch

from insular.audit.isolation.bench import Bench, severity, unclipped
from insular.audit.isolation.cases import Case, plan_cases
from insular.audit.isolation.description import (
    clipped_share,
    execution_path,
    gradient_digests,
    mean_loss,
    subject_manifest,
)
from insular.audit.isolation.results import (
    ArmResult,
    AxisFinding,
    AxisVerdict,
    CaseResult,
    Check,
    FirstDifference,
    Influence,
)
from insular.audit.isolation.validation import (
    check_autograd,
    check_clipping,
    check_coverage,
    check_finite,
    check_operators,
    check_sum,
    reference_weights,
)
from insular.audit.spec import AXES, EQUAL_SHAPE_AXES, Axis, IsolationSpec
from insular.audit.subjects.subject import Subject
from insular.records.tokens import TokenisedRecord

DECLARED_ROUNDING = 1e-4
"""Relative gradient change that counts as rounding of another shape where nothing inside the
subject can be observed."""
FLOOR_FACTOR = 10.0
"""A movement counts above this multiple of an identical repeat's distance."""

Progress = Callable[[str], None]


def audit_isolation(
    subject: Subject,
    base: Sequence[TokenisedRecord],
    spares: Sequence[TokenisedRecord],
    *,
    width: int,
    spec: IsolationSpec,
    progress: Progress | None = None,
    keep: Callable[[dict[str, np.ndarray]], None] | None = None,
) -> ArmResult:
    """Audit one stack.

    The base batch runs twice, then once for each planned case: every record replaced by another
    of equal length, some by a shorter one, the batch reversed, a record removed, each record
    alone, half batches, more padding. A kept record's logits, gradient and clipped gradient are
    compared with the base batch to the last bit.

    Guarantees:
        * A difference at equal shape, above the distance of an identical repeat, is ``coupled``.
        * A difference at another shape is ``rounding`` only where every entry of it is one: with
          the record's roundings set back as they enter, no module's output or gradient differs
          by more than its dtype's rounding bound.
        * A failed check gives ``undecided``, never ``isolated``, and is kept.

    Args:
        subject: The stack under test.
        base: The base batch, at least two records.
        spares: Records to bring in, as long as the longest base record.
        width: Padded length of the base batch, in tokens.
        spec: Clip norm, seed and padding.
        progress: Called with a short line before each case.
        keep: Called once with the counter-example's gradients, where something moved: the worst
            record's, unclipped and clipped, in the base batch and in the case.

    Returns:
        What was measured, with the path that ran.

    Raises:
        InvalidArgumentError: If there are too few records or spares.
        SubjectError: If the subject breaks the protocol.
    """
    started = time.perf_counter()
    cases = plan_cases(base, spares, width=width, extra_padding_tokens=spec.extra_padding_tokens)
    bench = Bench(subject, base, width=width, spec=spec, progress=progress or _silent)
    results = [bench.compare(case) for case in cases]
    checks = _checks(bench)
    findings = tuple(
        _finding(bench, axis, cases, results) for axis in AXES if any(c.axis == axis for c in cases)
    )
    if keep is not None and bench.counterexample is not None:
        keep(bench.counterexample_arrays)
    coupled = any(finding.verdict == "coupled" for finding in findings)
    failed = any(not check.passed for check in checks)
    return ArmResult(
        arm=subject.name,
        verdict="undecided" if failed else "coupled" if coupled else "isolated",
        seconds=time.perf_counter() - started,
        seconds_per_step=median(bench.step_seconds),
        path=execution_path(bench, cases),
        manifest=subject_manifest(bench),
        checks=checks,
        axes=findings,
        cases=tuple(results),
        clipped_share=clipped_share(bench),
        mean_loss_nats=mean_loss(bench),
        gradient_digests=gradient_digests(bench),
        counterexample=bench.counterexample,
    )


def _finding(
    bench: Bench, axis: Axis, cases: Sequence[Case], results: Sequence[CaseResult]
) -> AxisFinding:
    """The verdict on one axis, from all its cases."""
    pairs = [(c, r) for c, r in zip(cases, results, strict=True) if c.axis == axis]
    everyone = [influence for _, result in pairs for influence in result.influences]
    moved = [influence for influence in everyone if _counts(bench, influence)]
    if not moved:
        return _axis(bench, axis, everyone)
    case, result = max(pairs, key=lambda pair: severity(pair[1].worst))
    suspect = result.worst
    verdict: AxisVerdict = "coupled"
    if axis not in EQUAL_SHAPE_AXES:
        one_by_one = ((c, influence) for c, r in pairs for influence in r.influences)
        case, suspect = max(one_by_one, key=lambda pair: unclipped(pair[1]))
    first = bench.locate(case, suspect)
    if axis not in EQUAL_SHAPE_AXES and _is_rounding(first, suspect):
        verdict = "rounding"
    return replace(
        _axis(bench, axis, everyone),
        verdict=verdict,
        n_moved=len(moved),
        worst_case=result.name,
        worst=result.worst,
        first_difference=first,
    )


def _axis(bench: Bench, axis: Axis, everyone: Sequence[Influence]) -> AxisFinding:
    """The finding of an axis on which nothing moved."""
    return AxisFinding(
        axis=axis,
        verdict="isolated",
        n_comparisons=len(everyone),
        n_moved=0,
        floor=bench.floor,
        worst_case="",
        worst=None,
        first_difference=None,
    )


def _counts(bench: Bench, influence: Influence) -> bool:
    """Whether a movement rises above an identical repeat."""
    if influence.bitwise_equal:
        return False
    return bench.floor == 0 or influence.gradient_relative > FLOOR_FACTOR * bench.floor


def _checks(bench: Bench) -> tuple[Check, ...]:
    """Every condition of validity, on the base batch."""
    bench.progress("independent autograd")
    weights = reference_weights(len(bench.records), seed=bench.spec.seed)
    with torch.random.fork_rng():
        torch.manual_seed(bench.spec.seed)
        reference = bench.subject.reference(bench.records, weights, width=bench.width)
    forwards = -(-len(bench.records) // (bench.facts.physical_batch or len(bench.records)))
    return (
        check_finite(bench.base, bench.ids),
        bench.repeat_check,
        check_autograd(bench.base, weights, reference),
        check_sum(bench.base),
        check_coverage(bench.base, bench.facts),
        check_operators(bench.trace.counts, bench.facts, n_forwards=forwards),
        check_clipping(
            bench.base.gradients,
            bench.clipped,
            clip_norm=bench.spec.clip_norm,
            stabiliser=bench.spec.stabiliser,
        ),
    )


def _is_rounding(first: FirstDifference | None, influence: Influence) -> bool:
    """Whether a movement at another shape entered as a rounding."""
    if first is not None:
        return first.explained_by_rounding
    return influence.gradient_relative <= DECLARED_ROUNDING


def _silent(line: str) -> None:
    """Say nothing."""
