"""Run one arm of an audit: build a stack, audit it. Importable by worker processes."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast, final

from insular.audit.results import ArmResult
from insular.recipes.spec import AuditSpec, StackName

if TYPE_CHECKING:
    import numpy as np

    from insular.audit.subjects import Subject
    from insular.recipes.text import AuditText


@final
@dataclass(frozen=True, kw_only=True)
class ArmOutput:
    """What an arm hands back: the result, and the arrays of its counter-example."""

    result: ArmResult
    """The result."""
    arrays: "dict[str, np.ndarray]"
    """Gradients of the worst record in both batches; empty if nothing moved."""


def run_arm(
    spec: AuditSpec,
    stack: str,
    text: "AuditText",
    *,
    progress: Callable[[str], None] | None = None,
) -> ArmOutput:
    """Build a stack and audit it in this process.

    Args:
        spec: The audit.
        stack: Name of the stack.
        text: Base batch and spares.
        progress: Called with a short line before each evaluation.

    Returns:
        Result and arrays.
    """
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import torch

    from insular.recipes.stacks import build_stack

    torch.set_num_threads(spec.threads)
    if progress is not None:
        progress("loading")
    subject, _ = build_stack(spec, cast(StackName, stack))
    return audit_subject(spec, subject, text, progress=progress)


def audit_subject(
    spec: AuditSpec,
    subject: "Subject",
    text: "AuditText",
    *,
    progress: Callable[[str], None] | None = None,
) -> ArmOutput:
    """Audit a subject in this process, at its own clip norm where it clips by itself.

    Args:
        spec: The audit.
        subject: The stack under test.
        text: Base batch and spares.
        progress: Called with a short line before each evaluation.

    Returns:
        Result and arrays.
    """
    from insular.audit.isolation import audit_isolation
    from insular.audit.spec import IsolationSpec
    from insular.precision.stock import quiet_bitsandbytes

    own = subject.facts()
    arrays: dict[str, np.ndarray] = {}
    with quiet_bitsandbytes():
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
            keep=arrays.update,
        )
    return ArmOutput(result=result, arrays=arrays)
