"""``insular audit``: audit a stack and its repairs, write evidence as it comes, render the page."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from insular.audit.results import ArmResult, AuditResult
from insular.errors import EvidenceError, InsularError
from insular.evidence import (
    InputFact,
    RunManifest,
    RunStore,
    collect_manifest,
    from_toml,
    to_toml,
)
from insular.recipes.arm import ArmOutput, audit_subject, forget_built, run_arm
from insular.recipes.inputs import AuditInputs, Progress, prepare_inputs, silent
from insular.recipes.isolation_page import isolation_page
from insular.recipes.parallel import Job, run_jobs
from insular.recipes.spec import AuditSpec
from insular.recipes.text import AuditText
from insular.reports.page import render

KIND = "audit.isolation"
SPEC_FILE = "run.toml"
RESULT = "results"
SLOW_ARMS = ("llm-int8", "singleton")
"""Arms that start first, so that workers end together."""
PAGE = "report.html"


def audit_stack(
    spec: AuditSpec,
    out: Path,
    *,
    command: Sequence[str],
    workers: int = 1,
    progress: Progress | None = None,
) -> AuditResult:
    """Audit a built stack, or a callable, and its repairs.

    Evidence is written as it comes: a killed run keeps every finished arm, and running it again
    with the same settings goes on from there.

    Guarantees:
        * ``out`` holds ``run.toml``, which repeats the run; one result per arm; all of them in
          ``results.json``; the counter-example's gradients; the page.
        * No file holds record text.

    Args:
        spec: What to audit.
        out: Folder of the evidence: new, empty, or an unfinished run of the same spec.
        command: The command as typed, for the manifest.
        workers: Processes that run arms side by side.
        progress: Called from this process.

    Returns:
        The result.
    """
    report = progress or silent
    inputs = prepare_inputs(spec, report)
    store = _open(spec, out, command=command, inputs=inputs.facts)
    with _status(store):
        if spec.subject:
            output = subject_arm(spec, inputs, report)
            _write_arm(store, "subject", output)
            arms = [output.result]
        else:
            arms = _built_arms(spec, store, inputs.text, workers=workers, progress=report)
        result = AuditResult(
            subject=arms[0],
            repairs=tuple(arms[1:]),
            record_ids=tuple(record.id for record in inputs.text.base),
            clip_norm=arms[0].manifest.clip_norm,
        )
        store.write_result(RESULT, result)
        store.finish("complete")
    write_page(store)
    return result


def write_page(store: RunStore) -> Path:
    """Render the page of a finished audit from its evidence alone.

    Args:
        store: The run.

    Returns:
        The page's path.
    """
    result = store.read_result(RESULT, AuditResult)
    status = store.manifest.status
    store.reopen()
    manifest = replace(store.manifest, status=status)
    page = isolation_page(result, manifest, run_folder=str(store.path))
    store.write_text(PAGE, render(page))
    store.finish(status)
    return store.path / PAGE


def read_spec(store: RunStore) -> AuditSpec:
    """The settings that a run was given.

    Args:
        store: The run.

    Returns:
        The spec of its ``run.toml``.
    """
    return from_toml(AuditSpec, store.read_text(SPEC_FILE), source=str(store.path / SPEC_FILE))


def _open(
    spec: AuditSpec, out: Path, *, command: Sequence[str], inputs: tuple[InputFact, ...]
) -> RunStore:
    """Create the run folder, or go on with an unfinished run of the same spec."""
    if (out / "manifest.json").is_file():
        store = RunStore.open(out)
        _same_run(store, spec, inputs)
        if store.manifest.finished:
            store.reopen()
        return store
    manifest: RunManifest = collect_manifest(
        KIND, out.name, command=tuple(command), inputs=inputs, seed=spec.seed
    )
    store = RunStore.create(out, manifest)
    store.write_text(SPEC_FILE, to_toml(spec))
    return store


def _same_run(store: RunStore, spec: AuditSpec, inputs: tuple[InputFact, ...]) -> None:
    """Refuse to go on with another run's evidence."""
    if store.manifest.kind != KIND or store.manifest.status == "complete":
        raise EvidenceError(
            f"{store.path} already holds a {store.manifest.status} run ({store.manifest.kind});"
            " choose another --out."
        )
    if read_spec(store) != spec or store.manifest.inputs != inputs:
        raise EvidenceError(
            f"{store.path} holds an unfinished run with other settings or inputs; repeat it with"
            f" insular audit --config {store.path / SPEC_FILE}, or choose another --out."
        )


@contextmanager
def _status(store: RunStore) -> Iterator[None]:
    """Let the manifest say how a run ended, whatever ends it."""
    try:
        yield
    except KeyboardInterrupt:
        store.finish("interrupted")
        raise
    except InsularError as error:
        if not store.manifest.finished:
            store.record_failure("audit", str(error))
            store.finish("failed")
        raise


def _built_arms(
    spec: AuditSpec, store: RunStore, text: AuditText, *, workers: int, progress: Progress
) -> list[ArmResult]:
    """The stack under test, then its repairs; finished ones are read instead of run."""
    names = [spec.stack, *(name for name in spec.repairs if name != spec.stack)]
    waiting = [name for name in names if not store.has_result(f"arm-{name}")]
    for name in names:
        if name not in waiting:
            progress(name, "done before")

    def finished(name: str, output: ArmOutput) -> None:
        _write_arm(store, name, output)
        progress(name, "done")

    waiting.sort(key=lambda name: name not in SLOW_ARMS)
    jobs = [Job(name=name, work=run_arm, args=(spec, name, text)) for name in waiting]
    run_jobs(jobs, workers=workers, progress=progress, finished=finished)
    forget_built()
    return [store.read_result(f"arm-{name}", ArmResult) for name in names]


def subject_arm(spec: AuditSpec, inputs: AuditInputs, progress: Progress) -> ArmOutput:
    """Audit a callable, or a subject that the user built, in this process.

    Args:
        spec: Names it.
        inputs: It, and the records.
        progress: Called with a line before each evaluation.

    Returns:
        Result and arrays.
    """
    from insular.audit.callable_subject import CallableSubject
    from insular.audit.subjects import Subject

    found = inputs.under_test
    if isinstance(found, Subject):
        subject: Subject = found
    else:
        assert found is not None
        subject = CallableSubject(found, name=spec.subject, decode=inputs.decode)
    return audit_subject(
        spec, subject, inputs.text, progress=lambda line: progress(spec.subject, line)
    )


def _write_arm(store: RunStore, name: str, output: ArmOutput) -> None:
    """Write one arm's arrays and result."""
    if output.arrays:
        store.write_arrays(f"counterexample-{name}", output.arrays)
    store.write_result(f"arm-{name}", output.result)
