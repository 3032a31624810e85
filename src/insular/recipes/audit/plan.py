"""An audit from its tasks: what runs first, what the screen decides, how the results merge."""

from collections.abc import Callable, Sequence
from typing import Any

from insular.accounting.composition import composed_epsilon
from insular.accounting.influence import influence_bound
from insular.accounting.pair import implied_epsilon
from insular.audit.audit_results import AuditResult
from insular.audit.isolation.results import ArmResult
from insular.audit.sensitivity.results import (
    REPEAT_FACTOR,
    Price,
    PriceRow,
    Screen,
    ScreenPart,
    SensitivityResult,
    ValidatedArm,
)
from insular.audit.spec import SensitivitySpec
from insular.recipes.audit.arm import arm_task
from insular.recipes.audit.census import census_task
from insular.recipes.audit.localisation import localisation_task
from insular.recipes.audit.sensitivity import (
    LARGEST_GROWTH_SIZES,
    growth_task,
    screen_tasks,
    validation_task,
)
from insular.recipes.audit.sources import BuiltStack, GivenSubject, Source
from insular.recipes.audit.spec import AuditSpec
from insular.recipes.inputs import AuditInputs
from insular.recipes.tasks import Task
from insular.recipes.text import AuditText

ACCOUNTANT = "pld"
"""Composes the steps of a run."""
SLOW_STACKS = ("singleton",)
"""Repairs that start first, so that workers end together."""

Run = Callable[[Sequence[Task]], list[Any]]
"""Runs tasks and gives their results in order."""


def measure(
    spec: AuditSpec, inputs: AuditInputs, run: Run, *, only_subject: bool = False
) -> AuditResult:
    """Run every task of an audit and merge what they found.

    Guarantees:
        * The candidate is frozen before anything of the validation runs.

    Args:
        spec: The audit.
        inputs: Records, and what is under test.
        run: Runs tasks.
        only_subject: Leave the repairs out.

    Returns:
        The audit, not yet reconciled.
    """
    text = inputs.text
    mine, *repairs = _sources(spec, inputs)
    if only_subject:
        repairs = []
    sources = (mine, *sorted(repairs, key=lambda source: source.name not in SLOW_STACKS))
    arms = [arm_task(spec, source, text) for source in sources]
    screen = screen_tasks(spec, mine, text) if spec.has("sensitivity") else []
    census = [census_task(spec, mine, text)] if spec.has("census") else []
    # tasks on the stack under test first: whoever has loaded it takes them
    first = run([arms[0], *screen, *census, *arms[1:]])
    n_native = 1 + len(screen) + len(census)
    by_name = _named(sources, [first[0], *first[n_native:]])
    subject: ArmResult = by_name[mine.name]
    skipped = _skipped(first[1 : 1 + len(screen)])
    sensitivity = localisation = None
    if screen and not skipped:
        merged = merge_screen(text, first[1 : 1 + len(screen)], subject=subject)
        record = merged.selected.record
        where = [localisation_task(spec, mine, text, record)] if spec.has("localisation") else []
        second = run(
            [
                *where,
                growth_task(spec, mine, text, record),
                *(validation_task(spec, source, text, record) for source in sources),
            ]
        )
        (last,) = run([growth_task(spec, mine, text, record, sizes=LARGEST_GROWTH_SIZES)])
        validated = _named(sources, second[-len(sources) :])
        localisation = second[0].found if where else None
        ordered = tuple(validated[source.name] for source in (mine, *repairs))
        sensitivity = SensitivityResult(
            screen=merged,
            arms=ordered,
            growth=(*second[len(where)].points, *last.points),
            price=price_of(spec, ordered[0]),
        )
    return AuditResult(
        subject=subject,
        repairs=tuple(by_name[source.name] for source in repairs),
        record_ids=tuple(record.id for record in text.base),
        clip_norm=subject.manifest.clip_norm,
        sensitivity=sensitivity,
        census=first[len(screen) + 1].found if census else None,
        localisation=localisation,
        skipped=skipped,
    )


def _skipped(parts: Sequence[ScreenPart]) -> tuple[str, ...]:
    """Why the screen left nothing to go on with, or nothing."""
    if not parts:
        return ()
    problem = next((part.problem for part in parts if part.problem), "")
    candidates = [candidate for part in parts for candidate in part.candidates]
    if not problem and not any(candidate.valid for candidate in candidates):
        problem = f"none of {len(candidates)} candidates gave finite gradients."
    return (f"sensitivity and localisation: {problem}",) if problem else ()


def merge_screen(text: AuditText, parts: Sequence[ScreenPart], *, subject: ArmResult) -> Screen:
    """One screen from its parts.

    Args:
        text: Baseline and candidates.
        parts: What the tasks found, in order.
        subject: The stack under test.

    Returns:
        The screen.
    """
    spec = SensitivitySpec(clip_norm=subject.manifest.clip_norm)
    candidates = tuple(candidate for part in parts for candidate in part.candidates)
    norms = [*parts[0].norms, *(c.norm for c in candidates if c.valid)]
    return Screen(
        stack=subject.arm,
        baseline=tuple(record.id for record in text.baseline),
        width=text.usable_width,
        clip_norm=spec.clip_norm,
        radii=spec.radii,
        clipped_shares=tuple(sum(n > radius for n in norms) / len(norms) for radius in spec.radii),
        margin=spec.margin + REPEAT_FACTOR * max(part.repeat_ratio for part in parts),
        repeatable=len({part.digests for part in parts}) == 1,
        baseline_gradients=parts[0].baseline_gradients,
        candidates=candidates,
        seconds=sum(part.seconds for part in parts),
    )


def price_of(spec: AuditSpec, arm: ValidatedArm) -> Price:
    """What the validated ratio costs, for the run that the spec describes.

    Args:
        spec: Noise, sampling, steps and delta.
        arm: The stack under test.

    Returns:
        The price: claimed, measured, and what the influence bound allows.
    """
    ratios = {
        "claimed": 1.0,
        "measured": arm.radii[0].ratio,
        "influence bound": influence_bound(arm.n_altered, relation="add_or_remove_one"),
    }
    return Price(
        noise_multiplier=spec.noise_multiplier,
        sampling_prob=spec.sampling_prob,
        steps=spec.steps,
        delta=spec.delta,
        accountant=ACCOUNTANT,
        rows=tuple(_priced(spec, meaning, ratio) for meaning, ratio in ratios.items()),
    )


def _priced(spec: AuditSpec, meaning: str, ratio: float) -> PriceRow:
    """One ratio as epsilon: a step of it, and a run of it."""
    return PriceRow(
        meaning=meaning,
        ratio=ratio,
        step_epsilon=implied_epsilon(
            ratio, noise_multiplier=spec.noise_multiplier, delta=spec.delta
        ),
        run_epsilon=composed_epsilon(
            spec.noise_multiplier / ratio,
            sampling_prob=spec.sampling_prob,
            steps=spec.steps,
            delta=spec.delta,
            accountant=ACCOUNTANT,
        )
        if ratio
        else 0.0,
    )


def _sources(spec: AuditSpec, inputs: AuditInputs) -> list[Source]:
    """The stack under test, then its repairs."""
    if inputs.under_test is not None:
        return [GivenSubject(given=inputs.under_test, name=spec.subject)]
    names = [spec.stack, *(name for name in spec.repairs if name != spec.stack)]
    return [BuiltStack(spec=spec, name=name) for name in names]


def _named(sources: Sequence[Source], results: Sequence[Any]) -> dict[str, Any]:
    """Results by the name of their stack."""
    return {source.name: found for source, found in zip(sources, results, strict=True)}
