"""A training process killed outright at random moments never spends less than it released."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from insular.evidence import RunStore, to_toml
from insular.recipes.train.results import TrainResult
from insular.training.executed_log import read_log
from recipes.train_inputs import tiny_train

N_KILLS = 4


def _start(config: Path, out: Path, *, resume: bool) -> subprocess.Popen[bytes]:
    """The command, as a user gives it."""
    options = ["--resume"] if resume else ["--out", str(out)]
    return subprocess.Popen(
        [sys.executable, "-m", "insular.cli.app", "train", "--config", str(config), *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def _n_lines(log: Path) -> int:
    return log.read_bytes().count(b"\n") if log.exists() else 0


@pytest.mark.timeout(600)
def test_a_killed_run_never_spends_less_than_it_released(tmp_path: Path) -> None:
    rng = random.Random(11)
    spec = tiny_train(tmp_path, steps=60, epsilon=3.0)
    given, out = tmp_path / "given.toml", tmp_path / "run"
    given.write_text(to_toml(spec))
    log, before, resume = out / "releases.jsonl", 0, False
    for _ in range(N_KILLS):
        config = out / "run.toml" if resume else given
        process = _start(config, out, resume=resume)
        while _n_lines(log) < before + 5 and process.poll() is None:
            time.sleep(0.01)
        time.sleep(rng.uniform(0.0, 0.1))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        now = _n_lines(log)
        assert now >= before + 5  # nothing that was released is lost
        before, resume = now, True
    process = _start(out / "run.toml", out, resume=True)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said.decode()
    result = RunStore.open(out).read_result("results", TrainResult)
    entries = read_log(out / "releases.jsonl")
    assert result.executed.n_releases == len(entries) == 60
    assert result.executed.n_starts == N_KILLS + 1
    assert {entry.start for entry in entries} == set(range(1, N_KILLS + 2))
    # as many releases as an unbroken run, so exactly its epsilon; a killed step's is among them
    assert result.executed.event == result.planned.event
    assert result.executed.differences == ()
