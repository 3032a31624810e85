"""``insular audit``: audit a stack and its repairs, write evidence as it comes, render the page."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from insular.audit.audit_results import AuditResult
from insular.errors import EvidenceError
from insular.evidence import RunStore
from insular.recipes.audit.page import isolation_page
from insular.recipes.audit.plan import measure
from insular.recipes.audit.spec import AuditSpec
from insular.recipes.inputs import Progress, prepare_inputs, silent
from insular.recipes.run_folder import (
    RESULT,
    SPEC_FILE,
    begin_or_continue,
    read_settings,
    run_status,
    write_run_page,
)
from insular.recipes.tasks import run_tasks

KIND = "audit.isolation"


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
    store = begin_or_continue(
        KIND,
        out,
        spec,
        command=command,
        inputs=inputs.facts,
        other="inputs",
        repeat=f"with insular audit --config {out / SPEC_FILE}",
    )
    with run_status(store, stage="audit"):
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
    return write_run_page(
        store, lambda manifest: isolation_page(result, manifest, run_folder=str(store.path))
    )


def read_spec(store: RunStore) -> AuditSpec:
    """The settings that a run was given.

    Args:
        store: The run.

    Returns:
        The spec of its ``run.toml``.
    """
    return read_settings(store, AuditSpec)


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
