"""A short audit of the very stack that is about to be trained; a coupled one is refused."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from insular.audit.audit_results import AuditResult
from insular.errors import SubjectError
from insular.evidence import RunStore, available_cores, sha256_of
from insular.recipes.audit.run import audit_stack
from insular.recipes.audit.spec import AuditSpec
from insular.recipes.audit.summary import isolation_summary
from insular.recipes.inputs import Progress
from insular.recipes.run_folder import RESULT
from insular.recipes.train.results import IsolationFinding
from insular.recipes.train.spec import TrainSpec

FOLDER = "audit"
"""Where its evidence is, within the run's folder."""
MOST_RECORDS = 8
"""Records in its batch, at most."""


def audit_spec(spec: TrainSpec, *, n_records: int) -> AuditSpec:
    """The audit of a training run's stack: the same model, arithmetic, adapters, clipping, text.

    Args:
        spec: The run.
        n_records: Records that it has.

    Returns:
        The settings.
    """
    in_one_forward = spec.physical_tokens // spec.tokens
    return AuditSpec(
        model=spec.model,
        stack=spec.backbone,
        text=spec.text,
        text_field=spec.text_field,
        id_field=spec.id_field,
        encoding=spec.encoding,
        batch=max(2, min(MOST_RECORDS, in_one_forward, n_records // 2)),
        tokens=max(4, spec.tokens),
        clip_norm=spec.clip_norm,
        repairs=(),
        parts=("isolation",),
        gradients="hooks",
        attention=spec.attention,
        lora_rank=spec.lora_rank,
        lora_targets=spec.lora_targets,
        device=spec.device,
        threads=spec.threads or available_cores(),
        seed=spec.seed,
    )


def audit_first(
    spec: TrainSpec,
    out: Path,
    *,
    n_records: int,
    command: Sequence[str],
    progress: Progress,
) -> IsolationFinding:
    """Audit the stack, or read the audit that an earlier start made, and refuse a coupled one.

    Args:
        spec: The run.
        out: Its folder.
        n_records: Records that it has.
        command: As typed.
        progress: Called before each part.

    Returns:
        What was found, and on which path.

    Raises:
        SubjectError: If the stack is coupled and nobody accepted that, or it is undecided.
    """
    folder = out / FOLDER
    settings = audit_spec(spec, n_records=n_records)
    if (folder / "manifest.json").is_file() and RunStore.open(folder).manifest.status == "complete":
        result = RunStore.open(folder).read_result(RESULT, AuditResult)
    else:
        result = audit_stack(settings, folder, command=command, progress=progress)
    found = _finding(result, folder, accepted=spec.accept_coupling)
    if found.verdict == "undecided":
        raise SubjectError(
            f"backbone {spec.backbone} must be found isolated before it is trained, but could not "
            f"be audited: {result.subject.failed_checks[0].name} failed; see {folder}."
        )
    if found.verdict == "coupled" and not spec.accept_coupling:
        raise SubjectError(
            f"backbone {spec.backbone} couples records on this path, so no guarantee would hold: "
            f"{found.sentence} See {folder / 'report.html'}. Train on --backbone record-owned or "
            "bf16; or give --accept-coupling REASON, which adds the noise that (2m + 1) C needs."
        )
    return found if found.verdict == "coupled" else replace(found, accepted="")


def _finding(result: AuditResult, folder: Path, *, accepted: str) -> IsolationFinding:
    """The audit's finding as a run keeps it."""
    words = isolation_summary(result, run_folder=str(folder))
    path = result.subject.path
    operators = ", ".join(f"{name} x {n}" for name, n in path.operators.items() if n) or "none"
    shapes = ", ".join(f"{records} x {width}" for records, width in path.shapes[:4])
    return IsolationFinding(
        verdict=result.verdict,
        path=(
            f"{path.device}; {path.mode}; {path.dtype}; {path.threads} thread(s); batches "
            f"[record x token] {shapes}; operators {operators}; torch {path.versions['torch']}"
        ),
        sentence=words.paragraphs[0],
        folder=FOLDER,
        results_sha256=sha256_of(folder / f"{RESULT}.json"),
        accepted=accepted,
    )
