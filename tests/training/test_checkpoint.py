"""Checkpoints: everything together, whole or refused."""

import os
from pathlib import Path

import pytest
import torch
from torch import nn

from insular.errors import EvidenceError, TrainingError
from insular.training.checkpoint import Resumable, Resumed, resume, save_checkpoint
from insular.training.executed_log import ExecutedLog, LogHead
from insular.training.liveness import LivenessWatch
from insular.training.optimisers import DpAdamW, DpSgd
from training.log_samples import facts, log_of

SETTINGS = "a" * 64


def build(seed: int = 0, width: int = 4, make=None) -> Resumable:
    generator = torch.Generator().manual_seed(seed)
    parameters = {
        "layer.a": nn.Parameter(torch.randn(3, width, generator=generator)),
        "layer.b": nn.Parameter(torch.randn(2, generator=generator).bfloat16()),
    }
    make = make or (lambda p: DpAdamW(p, noise_std=0.1, divisor=4.0))
    return Resumable(
        parameters=parameters, optimiser=make(parameters), watch=LivenessWatch(parameters)
    )


def take(run: Resumable, steps: range) -> None:
    for step in steps:
        n = sum(p.numel() for p in run.parameters.values())
        gradient = torch.randn(n, generator=torch.Generator().manual_seed(step))
        run.watch.saw(gradient, n_units=4)
        run.optimiser.step(gradient, learning_rate=0.01)


def image(run: Resumable) -> list:
    held = [p.detach().clone() for p in run.parameters.values()]
    state = run.optimiser.state().values()
    return [*(t.tolist() for t in held), *(t.tolist() for t in state), run.watch.state()]


def saved(folder: Path, *, n_lines: int = 3) -> tuple[Resumable, ExecutedLog]:
    log = log_of(folder / "log", n_lines)
    run = build()
    take(run, range(3))
    save_checkpoint(folder / "run", run, step=3, start=1, head=log.head, settings_sha256=SETTINGS)
    return run, log


def again(folder: Path, run: Resumable, settings: str = SETTINGS) -> Resumed:
    return resume(folder / "run", run, log_path=folder / "log", settings_sha256=settings)


def test_a_resumed_run_goes_on_bit_for_bit(tmp_path) -> None:
    first, log = saved(tmp_path)
    whole = build()
    take(whole, range(8))
    other = build()
    found = again(tmp_path, other)
    assert image(other) == image(first)
    assert (found.step, found.start, found.log.head) == (3, 2, log.head)
    take(other, range(3, 8))
    assert image(other) == image(whole)


def test_the_next_start_is_above_every_start_that_was_seen(tmp_path) -> None:
    _, log = saved(tmp_path)
    log.append(**facts(3, start=4))
    found = again(tmp_path, build())
    assert (found.start, found.log.n_entries) == (5, 4)


def test_releases_after_the_checkpoint_stay_in_the_log(tmp_path) -> None:
    _, log = saved(tmp_path)
    log.append(**facts(3))
    log.append(**facts(4))
    found = again(tmp_path, build())
    assert (found.step, found.log.n_entries) == (3, 5)


def test_a_new_checkpoint_takes_the_place_of_the_old_one(tmp_path) -> None:
    run, log = saved(tmp_path)
    take(run, range(3, 6))
    log.append(**facts(3))
    save_checkpoint(tmp_path / "run", run, step=6, start=2, head=log.head, settings_sha256=SETTINGS)
    found = again(tmp_path, build())
    assert (found.step, found.start) == (6, 3)
    assert sorted(os.listdir(tmp_path)) == ["log", "run"]


def test_a_checkpoint_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch) -> None:
    run, log = saved(tmp_path)
    before = (tmp_path / "run").read_bytes()

    def fail(*_):
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patch:
        patch.setattr("insular.evidence.files.os.replace", fail)
        with pytest.raises(EvidenceError, match="No space left on device"):
            save_checkpoint(
                tmp_path / "run", run, step=9, start=1, head=log.head, settings_sha256=SETTINGS
            )
    assert (tmp_path / "run").read_bytes() == before


def refused(folder: Path, run: Resumable, error: type[Exception], match: str, **given) -> None:
    """An error, after which all of the run is as it was."""
    before = image(run)
    with pytest.raises(error, match=match) as caught:
        again(folder, run, **given)
    assert "\n" not in str(caught.value)
    assert image(run) == before


def test_other_settings_are_refused(tmp_path) -> None:
    saved(tmp_path)
    refused(tmp_path, build(1), TrainingError, "made with other settings", settings="b" * 64)


def test_another_model_is_refused(tmp_path) -> None:
    saved(tmp_path)
    refused(tmp_path, build(width=5), TrainingError, "another model's tensors: layer.a")


def test_another_optimiser_is_refused(tmp_path) -> None:
    saved(tmp_path)
    run = build(1, make=lambda p: DpSgd(p, momentum=0.9))
    refused(tmp_path, run, TrainingError, "must be one of dp-sgd over 14 coordinates")


def test_a_log_that_is_behind_or_another_one_is_refused(tmp_path) -> None:
    saved(tmp_path)
    lines = (tmp_path / "log").read_bytes().splitlines(keepends=True)
    (tmp_path / "log").write_bytes(b"".join(lines[:2]))
    refused(tmp_path, build(1), EvidenceError, "behind the checkpoint: it ends with release 2")
    (tmp_path / "log").unlink()
    refused(tmp_path, build(1), EvidenceError, "No such file")  # a checkpoint without history
    log_of(tmp_path / "log", 3)
    refused(tmp_path, build(1), EvidenceError, "is not the checkpoint's log")


def test_a_checkpoint_before_the_first_release(tmp_path) -> None:
    ExecutedLog.create(tmp_path / "log")
    save_checkpoint(
        tmp_path / "run", build(), step=0, start=1, head=LogHead(), settings_sha256=SETTINGS
    )
    assert again(tmp_path, build(1)).step == 0


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_cut_file_is_refused(tmp_path, share: float) -> None:
    saved(tmp_path)
    whole = (tmp_path / "run").read_bytes()
    (tmp_path / "run").write_bytes(whole[: int(share * len(whole))])
    refused(tmp_path, build(1), EvidenceError, "is not a whole checkpoint")


def test_a_changed_byte_is_refused(tmp_path) -> None:
    saved(tmp_path)
    whole = (tmp_path / "run").read_bytes()
    for place in range(0, len(whole), 29):
        changed = bytearray(whole)
        changed[place] ^= 1
        (tmp_path / "run").write_bytes(changed)
        try:
            again(tmp_path, build(1))
        except (EvidenceError, TrainingError) as error:
            assert "\n" not in str(error)
        else:  # only spaces that fill up the header may change
            assert whole[place] in b" "


def test_no_file_is_one_clear_line(tmp_path) -> None:
    refused(tmp_path, build(), EvidenceError, r"cannot read .*run: No such file")
