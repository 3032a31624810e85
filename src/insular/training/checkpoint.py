"""Checkpoints: all that the next step depends on, in one file that is whole or is not there.

Draws and noise are functions of their generator, the step and the start, so they have no state.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import final

import torch
from torch import Tensor, nn

from insular import _check
from insular.errors import EvidenceError, TrainingError
from insular.evidence import decode, encode, write_atomic
from insular.evidence.files import read_bytes
from insular.training.executed_log import ExecutedLog, LogHead
from insular.training.liveness import LivenessState, LivenessWatch
from insular.training.optimisers import Optimiser

_KEY = "insular"  # in the file's own metadata
_PARAMETER, _OPTIMISER = "parameter/", "optimiser/"


@final
@dataclass(frozen=True, kw_only=True)
class CheckpointState:
    """What a checkpoint says besides its tensors."""

    step: int
    """Step that comes next."""
    start: int
    """Start of the run that wrote it."""
    head: LogHead
    """Last line of the log when it was written."""
    settings_sha256: str
    """Digest of the run's settings."""
    liveness: LivenessState
    """What training was seen to do."""
    tensors_sha256: str
    """Digest of the tensors."""


@final
@dataclass(frozen=True, kw_only=True)
class Resumed:
    """A run that can go on."""

    step: int
    """Step that comes next."""
    start: int
    """Number of this start: above every start that the log or the checkpoint has seen."""
    log: ExecutedLog
    """The log, open."""


@final
@dataclass(frozen=True, kw_only=True)
class Resumable:
    """The objects of a run that change from step to step."""

    parameters: Mapping[str, nn.Parameter]
    """Trainable tensors, by name and in order."""
    optimiser: Optimiser
    """Over these tensors."""
    watch: LivenessWatch
    """Over these tensors."""


def save_checkpoint(
    path: str | Path,
    run: Resumable,
    *,
    step: int,
    start: int,
    head: LogHead,
    settings_sha256: str,
) -> None:
    """Write a checkpoint over the one before.

    Guarantees:
        * Whoever reads ``path``, after any crash, finds the old checkpoint or the new one, whole.

    Args:
        path: The file.
        run: What changes from step to step.
        step: Step that comes next.
        start: Number of this start of the run.
        head: Head of the log now.
        settings_sha256: Digest of the run's settings.
    """
    from safetensors.torch import save

    _check.at_least(0, step=step)
    _check.at_least(1, start=start)
    tensors = {_PARAMETER + name: p.detach() for name, p in run.parameters.items()}
    tensors |= {_OPTIMISER + name: tensor for name, tensor in run.optimiser.state().items()}
    ready = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
    state = CheckpointState(
        step=step,
        start=start,
        head=head,
        settings_sha256=settings_sha256,
        liveness=run.watch.state(),
        tensors_sha256=sha256(save(ready)).hexdigest(),
    )
    text = encode(state)
    write_atomic(path, save(ready, {_KEY: text, "sha256": sha256(text.encode()).hexdigest()}))


def resume(
    path: str | Path, run: Resumable, *, log_path: str | Path, settings_sha256: str
) -> Resumed:
    """Put a run back to its last checkpoint, and open its log.

    Releases after the checkpoint stay in the log and stay spent.

    Guarantees:
        * Parameters, optimiser, liveness, step and log are restored together: after an error, all
          of ``run`` is as it was.
        * The next start has a number that no release and no checkpoint has, so that neither draws
          nor noise come back.

    Args:
        path: The checkpoint.
        run: What is overwritten.
        log_path: The run's log.
        settings_sha256: Digest of the settings that it goes on with.

    Returns:
        Where it goes on.

    Raises:
        EvidenceError: If the checkpoint or the log is damaged, or the log is behind or another's.
        TrainingError: If the settings or the tensors are those of another run.
    """
    state, tensors = _read(Path(path))
    if state.settings_sha256 != settings_sha256:
        raise TrainingError(
            f"{path} was made with other settings: their digest is {state.settings_sha256[:12]}, "
            f"this run's is {settings_sha256[:12]}. Resume with the settings that it began with, "
            "or begin another run."
        )
    parameters = _under(_PARAMETER, tensors)
    _check_fit(path, parameters, run.parameters)
    log = ExecutedLog.open(log_path, head=state.head)
    before = run.optimiser.state()
    run.optimiser.load(_under(_OPTIMISER, tensors))
    try:
        run.watch.load(state.liveness)
    except TrainingError:
        run.optimiser.load(before)
        raise
    with torch.no_grad():
        for name, parameter in run.parameters.items():
            parameter.copy_(parameters[name])
    starts = [entry.start for entry in log.entries()]
    return Resumed(step=state.step, start=max([state.start, *starts]) + 1, log=log)


def _read(path: Path) -> tuple[CheckpointState, dict[str, Tensor]]:
    """A checkpoint whose digests hold."""
    from safetensors import SafetensorError, safe_open
    from safetensors.torch import load, save

    data = read_bytes(path)
    try:
        tensors = load(data)
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
    except (SafetensorError, ValueError, KeyError) as error:
        raise EvidenceError(
            f"{path} is not a whole checkpoint: it cannot be read. Use an earlier copy."
        ) from error
    text = metadata.get(_KEY, "")
    if sha256(text.encode()).hexdigest() != metadata.get("sha256"):
        raise EvidenceError(f"{path} was changed: its state is not what was written.")
    state = decode(CheckpointState, text, source=str(path))
    if sha256(save(tensors)).hexdigest() != state.tensors_sha256:
        raise EvidenceError(f"{path} was changed: its tensors are not what was written.")
    return state, tensors


def _check_fit(
    path: str | Path, found: Mapping[str, Tensor], parameters: Mapping[str, nn.Parameter]
) -> None:
    """Refuse parameters of another model."""
    wanted = {name: (tuple(p.shape), p.dtype) for name, p in parameters.items()}
    given = {name: (tuple(t.shape), t.dtype) for name, t in found.items()}
    if wanted != given:
        odd = sorted(
            name for name in wanted.keys() | given.keys() if wanted.get(name) != given.get(name)
        )
        raise TrainingError(
            f"{path} holds another model's tensors: {odd[0]} and {len(odd) - 1} others differ in "
            "name, shape or dtype. Build the model with the settings that the run began with."
        )


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors with a prefix, without it."""
    return {k.removeprefix(prefix): t for k, t in tensors.items() if k.startswith(prefix)}
