"""Run one arm of an audit: build a stack, audit it. Importable by worker processes."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast, final

from insular.audit.results import ArmResult
from insular.recipes.spec import AuditSpec, StackName

if TYPE_CHECKING:
    import numpy as np

    from insular.audit.model_subject import ModelSubject
    from insular.audit.subjects import Subject
    from insular.recipes.text import AuditText

_last_built: "dict[tuple[AuditSpec, str], ModelSubject]" = {}
"""The stack that the last job of this process used: jobs on one stack load it once."""


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
    subject = built_subject(spec, stack, progress=progress)
    return audit_subject(spec, subject, text, progress=progress)


def built_subject(
    spec: AuditSpec, stack: str, *, progress: Callable[[str], None] | None = None
) -> "ModelSubject":
    """The named stack in this process: the one that the last job used, or else a new one.

    Args:
        spec: The audit.
        stack: Name of the stack.
        progress: Called with a short line before loading.

    Returns:
        The subject, with as many threads as the spec says.
    """
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import torch

    from insular.recipes.stacks import build_stack

    torch.set_num_threads(spec.threads)
    key = (spec, stack)
    if key not in _last_built:
        if progress is not None:
            progress("loading")
        forget_built()  # before the next one is loaded: two models need twice the memory
        _last_built[key] = build_stack(spec, cast(StackName, stack))[0]
    return _last_built[key]


def forget_built() -> None:
    """Let go of the stack that this process keeps."""
    _last_built.clear()


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
