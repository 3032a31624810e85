"""``insular audit``: audit a stack and its repairs, write evidence as it comes, render the page."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from insular.audit.audit_results import AuditResult
from insular.errors import EvidenceError, InsularError
from insular.evidence import (
    InputFact,
    RunManifest,
    RunStore,
    collect_manifest,
    from_toml,
    to_toml,
)
from insular.recipes.inputs import Progress, prepare_inputs, silent
from insular.recipes.isolation_page import isolation_page
from insular.recipes.plan import measure
from insular.recipes.spec import AuditSpec
from insular.recipes.tasks import run_tasks
from insular.reports.page import render

KIND = "audit.isolation"
SPEC_FILE = "run.toml"
RESULT = "results"
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

    Evidence is written as it comes: a killed run keeps every finished task, and running it again
    with the same settings goes on from there.

    Guarantees:
        * ``out`` holds ``run.toml``, which repeats the run; one result per task; all of them in
          ``results.json``; gradients to compute the distances from again; the page.
        * Every distance that has saved gradients was computed again from those alone; a mismatch
          fails the run, and the results are kept.
        * No file holds record text.

    Args:
        spec: What to audit.
        out: Folder of the evidence: new, empty, or an unfinished run of the same spec.
        command: The command as typed, for the manifest.
        workers: Processes that run arms side by side.
        progress: Called from this process.

    Returns:
        The result.

    Raises:
        EvidenceError: If ``out`` holds another run, or a distance does not come out again.
    """
    report = progress or silent
    inputs = prepare_inputs(spec, report)
    store = _open(spec, out, command=command, inputs=inputs.facts)
    with _status(store):
        result = measure(
            spec,
            inputs,
            partial(
                run_tasks,
                store=store,
                # a subject that the user built stays in this process
                workers=1 if spec.subject else workers,
                progress=report,
            ),
        )
        report("", "computing every distance again")
        result = _reconciled(result, store)
        store.write_result(RESULT, result)
        _refuse_mismatch(result)
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


def _reconciled(result: AuditResult, store: RunStore) -> AuditResult:
    """The result with its distances computed again from the saved arrays."""
    from insular.audit.reconciliation import reconcile

    stabiliser = result.subject.manifest.stabiliser
    return replace(
        result, reconciliation=reconcile(result, store.read_arrays, stabiliser=stabiliser)
    )


def _refuse_mismatch(result: AuditResult) -> None:
    """Fail the run if a distance did not come out the same."""
    found = result.reconciliation
    if found is not None and not found.agrees:
        raise EvidenceError(
            f"{len(found.mismatches)} of {found.n_distances} distances must agree with the saved"
            f" gradients within {found.tolerance:g}, the first that does not: "
            f"{found.mismatches[0]}; the results are kept, and do not count."
        )
