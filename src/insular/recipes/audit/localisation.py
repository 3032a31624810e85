"""The localisation of a selected pair as a task: origins, then interventions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

from insular.audit.localisation.results import Localisation
from insular.evidence import ArrayRef
from insular.recipes.audit.sensitivity import candidate_of, sensitivity_spec
from insular.recipes.audit.sources import Source
from insular.recipes.audit.spec import AuditSpec
from insular.recipes.parallel import Job
from insular.recipes.tasks import Output, Task

if TYPE_CHECKING:
    import numpy as np

    from insular.recipes.text import AuditText


@final
@dataclass(frozen=True, kw_only=True)
class LocalisationOutcome:
    """The localisation, where it applies."""

    found: Localisation | None
    """None where no module can be observed."""


def localisation_task(spec: AuditSpec, source: Source, text: "AuditText", record: str) -> Task:
    """The task that says which modules a selected pair's excess comes from.

    Args:
        spec: The audit.
        source: Gives the stack under test.
        text: The records.
        record: Id of the selected candidate.

    Returns:
        The task.
    """
    return Task(
        job=Job(name="localisation", work=run_localisation, args=(spec, source, text, record)),
        slug="localisation",
        kind=LocalisationOutcome,
        attach=_attach,
    )


def run_localisation(
    spec: AuditSpec,
    source: Source,
    text: "AuditText",
    record: str,
    *,
    progress: Callable[[str], None],
) -> Output:
    """Trace the pair through every module, then hold outlier sets fixed.

    Args:
        spec: The audit.
        source: Gives the stack under test.
        text: The records.
        record: Id of the selected candidate.
        progress: Called with a short line before each evaluation.

    Returns:
        A :class:`LocalisationOutcome`, and the gradients of every intervention.
    """
    from insular.audit.localisation.localise import localise

    arrays: dict[str, dict[str, np.ndarray]] = {}

    def keep(name: str, saved: "dict[str, np.ndarray]") -> None:
        del name
        if spec.keep_gradients == "all":
            arrays[_file(len(arrays))] = saved

    with source.subject(progress) as subject:
        found = localise(
            subject,
            text.baseline,
            candidate_of(spec, text, record),
            width=text.usable_width,
            spec=sensitivity_spec(spec, subject),
            keep=keep,
            progress=progress,
        )
    return Output(result=LocalisationOutcome(found=found), arrays=arrays)


def _attach(outcome: LocalisationOutcome, refs: Mapping[str, ArrayRef]) -> LocalisationOutcome:
    """Put the references of the saved gradients into the interventions that succeeded."""
    found = outcome.found
    if found is None or found.interventions is None:
        return outcome
    steps, n_saved = [], 0
    for step in found.interventions.steps:
        if step.valid:
            step = replace(step, gradients=refs.get(_file(n_saved)))
            n_saved += 1
        steps.append(step)
    interventions = replace(found.interventions, steps=tuple(steps))
    return LocalisationOutcome(found=replace(found, interventions=interventions))


def _file(i: int) -> str:
    """Name of the arrays of one intervention: by position."""
    return f"intervention-{i + 1:02d}"
