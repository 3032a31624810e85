"""``insular train``: plan, audit, reserve, learn, account for what ran, keep what may leave."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from insular.errors import EvidenceError
from insular.evidence import RunStore, available_cores
from insular.models.adapter import read_adapter, save_adapter
from insular.recipes.audit.spec import PACKAGED_MODELS
from insular.recipes.inputs import Progress, silent
from insular.recipes.parallel import intra_op_threads
from insular.recipes.run_folder import (
    RESULT,
    SPEC_FILE,
    begin_run,
    read_settings,
    run_status,
    write_run_page,
)
from insular.recipes.train.account import account, epsilon_path
from insular.recipes.train.budget import Reservation
from insular.recipes.train.isolation import audit_first
from insular.recipes.train.page import train_page
from insular.recipes.train.results import (
    Artifact,
    IsolationFinding,
    TrainResult,
    Utility,
)
from insular.recipes.train.session import Session, open_session
from insular.recipes.train.spec import TrainSpec
from insular.recipes.train.steps import LOG, TELEMETRY, learn
from insular.recipes.train.utility import public_loss
from insular.training.liveness import LivenessWatch
from insular.training.results import Liveness, ReleaseEntry, StepTelemetry

KIND = "train"
ADAPTER = "adapter"


def train_privately(
    spec: TrainSpec,
    out: Path,
    *,
    command: Sequence[str],
    resume: bool = False,
    progress: Progress | None = None,
) -> TrainResult:
    """Fine-tune adapters so that the guarantee is the one that ran.

    Guarantees:
        * The stack is audited and the budget reserved before anything is drawn.
        * Every release is on disk before it is used, and the cost is computed from that log alone.
        * A run that was killed goes on from its last step and never spends less than it released.
        * Any difference between plan and log, or a tensor that did not learn, and no adapter is
          kept: the result says why, and its exit code is 1.
        * No file holds record text. Only the files of ``artifacts`` are made to leave: log,
          telemetry, results, page and audit hold counts and norms that no noise covers.

    Args:
        spec: What to do.
        out: Folder of the run: new, empty, or with ``resume`` an unfinished run of the same spec.
        command: The command as typed, for the manifest.
        resume: Go on with an unfinished run.
        progress: Called from this process.

    Returns:
        The result.

    Raises:
        SubjectError: If the stack is coupled and nobody accepted that.
        BudgetExceededError: If the ledger refuses.
        EvidenceError: If ``out`` holds another run.
    """
    report = progress or silent
    if resume:
        _check_resumable(spec, out)
    with intra_op_threads(spec.threads or available_cores()):
        session = open_session(spec, progress=lambda line: report("", line))
        store = _open(session, out, command=command, resume=resume)
        with run_status(store, stage="train"):
            if store.has_result(RESULT):  # killed after its end
                result = store.read_result(RESULT, TrainResult)
            else:
                result = _trained(session, store, command=command, report=report)
                store.write_result(RESULT, result)
            for file in (LOG, TELEMETRY, *(artifact.file for artifact in result.artifacts)):
                store.adopt(file)
            store.finish("complete" if result.as_planned else "failed")
    write_page(store)
    return result


def write_page(store: RunStore) -> Path:
    """Render the page of a finished run from its evidence alone.

    Args:
        store: The run.

    Returns:
        The page's path.
    """
    result = store.read_result(RESULT, TrainResult)
    return write_run_page(
        store, lambda manifest: train_page(result, manifest, run_folder=str(store.path))
    )


def read_spec(store: RunStore) -> TrainSpec:
    """The settings that a run was given.

    Args:
        store: The run.

    Returns:
        The spec of its ``run.toml``.
    """
    return read_settings(store, TrainSpec)


def _trained(
    session: Session, store: RunStore, *, command: Sequence[str], report: Progress
) -> TrainResult:
    """Audit, reserve, learn, account, commit."""
    spec, out = session.spec, store.path
    finding = audit_first(
        spec, out, n_records=len(session.text.rows), command=command, progress=report
    )
    reservation = None
    if spec.ledger:
        reservation = Reservation(
            spec, session.plan, release=spec.release or out.name, run=store.manifest.identity
        )
        reservation.reserve()
    before = public_loss(session.adapted, session.public) if session.public else None
    watch = LivenessWatch(session.parameters)
    log, telemetry = learn(session, store.path, watch, report=report)
    result = _finish(session, store, log, watch, telemetry, finding, before=before)
    return _settled(result, reservation)


def _finish(
    session: Session,
    store: RunStore,
    entries: tuple[ReleaseEntry, ...],
    watch: LivenessWatch,
    telemetry: tuple[StepTelemetry, ...],
    finding: IsolationFinding,
    *,
    before: float | None,
) -> TrainResult:
    """Account for what ran; keep the adapter only where nothing differs."""
    spec, plan, decoder = session.spec, session.plan, session.adapted.decoder
    executed, costs = account(entries, plan, drawn_from=len(session.units))
    liveness, artifacts = _saved(session, store.path, watch)
    if executed.differences or not liveness.alive:
        shutil.rmtree(store.path / ADAPTER, ignore_errors=True)
        artifacts = ()
    utility = None
    if before is not None:
        utility = Utility(
            text=spec.validation,
            n_records=len(session.public),
            before_nats=before,
            after_nats=public_loss(session.adapted, session.public),
        )
    schedule = f"{spec.schedule} from {spec.learning_rate:g}"
    noise = {
        "secure": "ChaCha20 keystream of this machine's randomness, rounded to a public grid",
        "seeded": f"seeded with {spec.noise_seed}: whoever knows the seed takes the noise away",
    }
    return TrainResult(
        unit=plan.unit,
        owner_field=spec.unit if spec.by_owner else "",
        relation=plan.relation,
        target_epsilon=spec.epsilon or None,
        delta=plan.delta,
        delta_reason=plan.delta_reason,
        planned=plan.run,
        executed=executed,
        costs=costs,
        epsilon_path=epsilon_path(entries, plan),
        isolation=finding,
        liveness=liveness,
        telemetry=telemetry,
        utility=utility,
        data=session.text.data,
        model=PACKAGED_MODELS.get(spec.model, spec.model),
        model_digest=decoder.digest,
        backbone=spec.backbone,
        optimiser=f"{spec.optimiser}, {schedule}, {spec.warmup_steps} warmup steps",
        n_trainable=sum(p.numel() for p in session.parameters.values()),
        clipping=_clipping_words(spec),
        noise=noise[plan.run.noise_source],
        artifacts=artifacts,
        ledger=None,
        seconds=sum(seen.seconds for seen in telemetry),
    )


def _saved(
    session: Session, folder: Path, watch: LivenessWatch
) -> tuple[Liveness, tuple[Artifact, ...]]:
    """Save the adapter, read it back, and say whether it is the trained one."""
    model = session.adapted.model
    files = save_adapter(
        model,
        folder / ADAPTER,
        base_model=PACKAGED_MODELS.get(session.spec.model, session.spec.model),
    )
    liveness = watch.finish(read_adapter(folder / ADAPTER, model))
    return liveness, tuple(
        Artifact(
            file=str(file.relative_to(folder)),
            sha256=sha256(file.read_bytes()).hexdigest(),
            size_bytes=file.stat().st_size,
        )
        for file in files
    )


def _settled(result: TrainResult, reservation: Reservation | None) -> TrainResult:
    """Commit what was spent; a run whose guarantee did not hold stays reserved."""
    if reservation is None:
        return result
    if result.as_planned:
        reservation.commit(epsilon=result.epsilon, delta=result.delta, artifacts=result.artifacts)
    return replace(result, ledger=reservation.reference())


def _clipping_words(spec: TrainSpec) -> str:
    """The clipping rule in words."""
    whose = "gradient of each record"
    if spec.by_owner and spec.sample == "unit":
        whose = "sum of the gradients of each owner's records"
    return f"{whose}: g min(1, C / |g|), C = {spec.clip_norm:g}; one that is not finite counts 0"


def _open(session: Session, out: Path, *, command: Sequence[str], resume: bool) -> RunStore:
    """Create the run's folder, or go on with the unfinished run in it."""
    if resume:
        store = RunStore.open(out)
        if store.manifest.inputs != session.inputs:
            raise EvidenceError(
                f"{out} holds a run on another text or model; resume it with the same files."
            )
        store.reopen()
        return store
    return begin_run(KIND, out, session.spec, command=command, inputs=session.inputs)


def _check_resumable(spec: TrainSpec, out: Path) -> None:
    """Refuse to go on with a finished run, or another one."""
    store = RunStore.open(out)
    if store.manifest.kind != KIND or store.manifest.status == "complete":
        raise EvidenceError(
            f"{out} must hold an unfinished training run to resume, got a {store.manifest.status} "
            f"run ({store.manifest.kind})."
        )
    if store.has_result(RESULT) and not store.read_result(RESULT, TrainResult).as_planned:
        raise EvidenceError(
            f"{out} holds a run that ended with differences between plan and execution; it cannot "
            "be resumed. Find the cause and start another."
        )
    if read_spec(store) != spec:
        raise EvidenceError(
            f"{out} holds a run with other settings; resume it with insular train --config "
            f"{out / SPEC_FILE} --resume and nothing else."
        )
