"""One arm of an audit as a task: does anything move in this stack?"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from insular.audit.isolation.results import ArmResult
from insular.evidence import ArrayRef
from insular.recipes.audit.sources import Source
from insular.recipes.audit.spec import AuditSpec
from insular.recipes.parallel import Job
from insular.recipes.tasks import Output, Task

if TYPE_CHECKING:
    import numpy as np

    from insular.recipes.text import AuditText


def arm_task(spec: AuditSpec, source: Source, text: "AuditText") -> Task:
    """The task that audits one stack.

    Args:
        spec: The audit.
        source: Gives the stack.
        text: Base batch and spares.

    Returns:
        The task.
    """
    return Task(
        job=Job(name=source.name, work=run_arm, args=(spec, source, text)),
        slug=f"arm-{source.slug}",
        kind=ArmResult,
        attach=_attach,
    )


def run_arm(
    spec: AuditSpec, source: Source, text: "AuditText", *, progress: Callable[[str], None]
) -> Output:
    """Audit one stack in this process, at its own clip norm where it clips by itself.

    Args:
        spec: The audit.
        source: Gives the stack.
        text: Base batch and spares.
        progress: Called with a short line before each evaluation.

    Returns:
        An :class:`ArmResult`, and the gradients of its counter-example.
    """
    from insular.audit.isolation.audit import audit_isolation
    from insular.audit.spec import IsolationSpec

    arrays: dict[str, dict[str, np.ndarray]] = {}
    with source.subject(progress) as subject:
        own = subject.facts()
        result = audit_isolation(
            subject,
            text.base,
            text.spares,
            width=text.width,
            spec=IsolationSpec(
                clip_norm=own.clip_norm or spec.clip_norm,
                stabiliser=own.stabiliser,
                seed=spec.seed,
            ),
            progress=progress,
            keep=lambda saved: arrays.update({f"counterexample-{source.slug}": saved}),
        )
    return Output(result=result, arrays=arrays)


def _attach(result: ArmResult, refs: Mapping[str, ArrayRef]) -> ArmResult:
    """Put the reference of the saved gradients into the counter-example."""
    if result.counterexample is None or not refs:
        return result
    (gradients,) = refs.values()
    return replace(result, counterexample=replace(result.counterexample, gradients=gradients))
