"""The steps of a private training run: each released, taken, told and kept, one after another."""

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from insular.evidence import decode, encode_json, to_toml, write_atomic
from insular.recipes.inputs import Progress
from insular.recipes.train.session import Session
from insular.training.checkpoint import Resumable, resume, save_checkpoint
from insular.training.executed_log import ExecutedLog
from insular.training.liveness import LivenessWatch
from insular.training.loop import PrivateLoop
from insular.training.results import ReleaseEntry, StepTelemetry

LOG = "releases.jsonl"
TELEMETRY = "telemetry.jsonl"
CHECKPOINT = "checkpoint.safetensors"


def learn(
    session: Session, folder: Path, watch: LivenessWatch, *, report: Progress
) -> tuple[tuple[ReleaseEntry, ...], tuple[StepTelemetry, ...]]:
    """Take every step that is left, a checkpoint after each.

    Guarantees:
        * A release is in the log before its step is taken, and stays there if that step is lost.

    Args:
        session: What trains.
        folder: Of the run; log, telemetry and checkpoint are there.
        watch: Told of every step, to say later whether the tensors learnt.
        report: Progress.

    Returns:
        All releases and all steps, those of earlier starts too.
    """
    spec = session.spec
    run = Resumable(parameters=session.parameters, optimiser=session.optimiser(), watch=watch)
    settings = sha256(to_toml(spec).encode()).hexdigest()
    if (folder / CHECKPOINT).is_file():
        at = resume(folder / CHECKPOINT, run, log_path=folder / LOG, settings_sha256=settings)
        step, start, log = at.step, at.start, at.log
    else:
        step, start, log = 0, 1, ExecutedLog.create(folder / LOG)
        _checkpoint(folder, run, step=0, start=1, log=log, settings=settings)
    telemetry = [line for line in _read_telemetry(folder / TELEMETRY) if line.step < step]
    _write_telemetry(folder / TELEMETRY, telemetry)
    loop = PrivateLoop(
        model=session.adapted.model,
        units=session.units,
        plan=session.plan.run,
        sampler=session.sampler,
        clipped_sum=session.clipped_sum(),
        noise=session.noise,
        optimiser=run.optimiser,
        learning_rate=session.learning_rate,
        watch=watch,
        log=log,
        start=start,
    )
    report("train", f"about {_records_a_step(session):.0f} records a step")
    for seen in loop.run(first_step=step):
        telemetry.append(seen)
        _append_telemetry(folder / TELEMETRY, seen)
        _checkpoint(folder, run, step=seen.step + 1, start=start, log=log, settings=settings)
        loss = "" if seen.loss_nats is None else f", loss {seen.loss_nats:.3f}"
        report("train", f"step {seen.step + 1} of {spec.steps}{loss}")
    report("train", f"done: {len(log.entries())} releases")
    return log.entries(), tuple(telemetry)


def _records_a_step(session: Session) -> float:
    """Mean number of records drawn, which decides how long a step takes."""
    drawn, data = session.plan.run.divisor, session.text.data
    by_unit = session.spec.by_owner and session.spec.sample == "unit"
    return drawn * data.n_records / data.n_units if by_unit else drawn


def _checkpoint(
    folder: Path, run: Resumable, *, step: int, start: int, log: ExecutedLog, settings: str
) -> None:
    """Keep what the next step depends on."""
    save_checkpoint(
        folder / CHECKPOINT, run, step=step, start=start, head=log.head, settings_sha256=settings
    )


def _read_telemetry(path: Path) -> list[StepTelemetry]:
    """The whole lines of an earlier start; telemetry that was lost costs nothing."""
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    return [decode(StepTelemetry, line, source=path.name) for line in lines]


def _write_telemetry(path: Path, lines: Sequence[StepTelemetry]) -> None:
    """All lines anew."""
    write_atomic(path, "".join(f"{json.dumps(encode_json(line))}\n" for line in lines))


def _append_telemetry(path: Path, line: StepTelemetry) -> None:
    """One more line."""
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{json.dumps(encode_json(line))}\n")
