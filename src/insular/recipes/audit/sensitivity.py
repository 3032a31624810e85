"""The sensitivity audit as tasks: parts of the screen, the validated pair, the growth curve."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from insular.audit.sensitivity.results import GrowthCurve, ScreenPart, ValidatedArm
from insular.audit.spec import SensitivitySpec
from insular.evidence import ArrayRef
from insular.recipes.audit.sources import Source
from insular.recipes.audit.spec import AuditSpec
from insular.recipes.parallel import Job
from insular.recipes.tasks import Output, Task

if TYPE_CHECKING:
    import numpy as np

    from insular.audit.subjects.subject import Subject
    from insular.recipes.text import AuditText
    from insular.records import TokenisedRecord

PART_SIZE = 8
"""Candidates of one task: what a killed run loses at most."""
GROWTH_SIZES = (1, 3, 7, 15)
"""Baseline sizes of the growth curve, as far as the text goes."""
LARGEST_GROWTH_SIZES = (31,)
"""Sizes whose batches need the machine's memory for themselves."""
BASELINE = "screen-baseline"
Report = Callable[[str], None]


def screen_tasks(spec: AuditSpec, source: Source, text: "AuditText") -> list[Task]:
    """The tasks that screen all candidates on the stack under test.

    Args:
        spec: The audit.
        source: Gives the stack.
        text: Baseline and candidates.

    Returns:
        One task for each ``PART_SIZE`` candidates.
    """
    n_parts = -(-len(text.candidates(spec.candidates)) // PART_SIZE)
    return [
        Task(
            job=Job(
                name=f"screen {part + 1}/{n_parts}",
                work=run_screen_part,
                args=(spec, source, text, part),
            ),
            slug=f"screen-part-{part + 1:02d}",
            kind=ScreenPart,
            attach=partial(_attach_screen, first=part * PART_SIZE),
        )
        for part in range(n_parts)
    ]


def validation_task(spec: AuditSpec, source: Source, text: "AuditText", record: str) -> Task:
    """The task that runs the frozen pair afresh in one stack.

    Args:
        spec: The audit.
        source: Gives the stack.
        text: Baseline and candidates.
        record: Id of the selected candidate.

    Returns:
        The task.
    """
    return Task(
        job=Job(
            name=f"pair in {source.name}", work=run_validation, args=(spec, source, text, record)
        ),
        slug=f"pair-{source.slug}",
        kind=ValidatedArm,
        attach=_attach_pair,
    )


def growth_task(
    spec: AuditSpec,
    source: Source,
    text: "AuditText",
    record: str,
    *,
    sizes: tuple[int, ...] = GROWTH_SIZES,
) -> Task:
    """The task that adds the selected candidate to baselines of several sizes.

    Args:
        spec: The audit.
        source: Gives the stack under test.
        text: The records.
        record: Id of the selected candidate.
        sizes: Baseline sizes, ascending; those that the text does not fill are left out.

    Returns:
        The task.
    """
    name = f"growth to {sizes[-1]}"
    return Task(
        job=Job(name=name, work=run_growth, args=(spec, source, text, record, sizes)),
        slug=f"growth-{sizes[-1]}",
        kind=GrowthCurve,
        attach=_attach_growth,
    )


def run_screen_part(
    spec: AuditSpec, source: Source, text: "AuditText", part: int, *, progress: Report
) -> Output:
    """Add some of the candidates to the baseline.

    Args:
        spec: The audit.
        source: Gives the stack under test.
        text: Baseline and candidates.
        part: Which candidates, in groups of ``PART_SIZE``.
        progress: Called with a short line before each evaluation.

    Returns:
        A :class:`ScreenPart`, and the gradients of every batch.
    """
    from insular.audit.sensitivity.screen import screen_candidates

    candidates = text.candidates(spec.candidates)
    mine = candidates[part * PART_SIZE : (part + 1) * PART_SIZE]
    names = {record.id: _candidate_file(i) for i, record in enumerate(candidates)}
    arrays: dict[str, dict[str, np.ndarray]] = {}

    def keep(name: str, saved: "dict[str, np.ndarray]") -> None:
        if name == "baseline":
            if part == 0:
                arrays[BASELINE] = saved
        elif spec.keep_gradients == "all":
            arrays[names[name]] = saved

    with source.subject(progress) as subject:
        result = screen_candidates(
            subject,
            text.baseline,
            mine,
            width=text.usable_width,
            spec=sensitivity_spec(spec, subject),
            keep=keep,
            progress=progress,
        )
    return Output(result=result, arrays=arrays)


def run_validation(
    spec: AuditSpec, source: Source, text: "AuditText", record: str, *, progress: Report
) -> Output:
    """Run the frozen pair afresh in one stack.

    Args:
        spec: The audit.
        source: Gives the stack.
        text: Baseline and candidates.
        record: Id of the selected candidate.
        progress: Called with a short line before each evaluation.

    Returns:
        A :class:`ValidatedArm`, and the gradients of both batches.
    """
    from insular.audit.sensitivity.pair import validate_pair

    arrays: dict[str, dict[str, np.ndarray]] = {}
    with source.subject(progress) as subject:
        result = validate_pair(
            subject,
            text.baseline,
            candidate_of(spec, text, record),
            width=text.usable_width,
            spec=sensitivity_spec(spec, subject),
            keep=lambda name, saved: arrays.update({f"pair-{source.slug}": saved}),
            progress=progress,
        )
    return Output(result=result, arrays=arrays)


def run_growth(
    spec: AuditSpec,
    source: Source,
    text: "AuditText",
    record: str,
    sizes: tuple[int, ...],
    *,
    progress: Report,
) -> Output:
    """Add the selected candidate to baselines of several sizes.

    Args:
        spec: The audit.
        source: Gives the stack under test.
        text: The records.
        record: Id of the selected candidate.
        sizes: Baseline sizes, ascending.
        progress: Called with a short line before each evaluation.

    Returns:
        A :class:`GrowthCurve`, and the gradients of every pair.
    """
    from insular.audit.sensitivity.screen import measure_growth

    baseline = text.others(record, max(sizes))
    arrays: dict[str, dict[str, np.ndarray]] = {}

    def keep(name: str, saved: "dict[str, np.ndarray]") -> None:
        if spec.keep_gradients == "all":
            arrays[f"growth-{name}"] = saved

    with source.subject(progress) as subject:
        points = measure_growth(
            subject,
            baseline,
            candidate_of(spec, text, record),
            sizes=[size for size in sizes if size <= len(baseline)],
            width=text.usable_width,
            spec=sensitivity_spec(spec, subject),
            keep=keep,
            progress=progress,
        )
    return Output(result=GrowthCurve(points=points), arrays=arrays)


def sensitivity_spec(spec: AuditSpec, subject: "Subject") -> SensitivitySpec:
    """The settings of the sensitivity audit, at the subject's own clip norm where it has one.

    Args:
        spec: The audit.
        subject: The stack.

    Returns:
        The settings.
    """
    own = subject.facts()
    return SensitivitySpec(
        clip_norm=own.clip_norm or spec.clip_norm, stabiliser=own.stabiliser, seed=spec.seed
    )


def candidate_of(spec: AuditSpec, text: "AuditText", record: str) -> "TokenisedRecord":
    """The candidate of an id.

    Args:
        spec: How many candidates there are at most.
        text: The records.
        record: The id.

    Returns:
        The record.
    """
    return next(r for r in text.candidates(spec.candidates) if r.id == record)


def _candidate_file(i: int) -> str:
    """Name of the arrays of one candidate: by position, since an id may not be a file name."""
    return f"screen-candidate-{i + 1:03d}"


def _attach_screen(part: ScreenPart, refs: Mapping[str, ArrayRef], *, first: int) -> ScreenPart:
    """Put the references of the saved gradients into a part of the screen."""
    candidates = (
        replace(candidate, gradients=refs.get(_candidate_file(first + i)))
        for i, candidate in enumerate(part.candidates)
    )
    return replace(part, candidates=tuple(candidates), baseline_gradients=refs.get(BASELINE))


def _attach_pair(arm: ValidatedArm, refs: Mapping[str, ArrayRef]) -> ValidatedArm:
    """Put the reference of the saved gradients into a validated arm."""
    (gradients,) = refs.values()
    return replace(arm, gradients=gradients)


def _attach_growth(curve: GrowthCurve, refs: Mapping[str, ArrayRef]) -> GrowthCurve:
    """Put the references of the saved gradients into a growth curve."""
    points = (replace(p, gradients=refs.get(f"growth-{p.n_baseline}")) for p in curve.points)
    return GrowthCurve(points=tuple(points))
