"""``insular attack training`` as a user meets it."""

import json
from pathlib import Path

import pytest

from insular.recipes.train.run import train_privately
from recipes.train_inputs import tiny_train

from .in_process import insular


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    train_privately(tiny_train(folder, noise_seed=3, steps=4), folder / "run", command=())
    return folder / "run"


def test_a_run_that_keeps_its_promise(trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "a"
    done = insular(
        "attack", "training", str(trained), "--repetitions", "24", "--out", str(out), "--quiet",
        "--workers", "1",
    )  # fmt: skip
    assert done.code == 0 and done.stderr == ""
    *lines, page = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80 and page == f"Page:   {out / 'report.html'}"
    assert "NOT REFUTED" in done.stdout and "(promised) at delta" in done.stdout
    assert insular("report", str(out)).code == 0


def test_too_few_scores_decide_nothing(trained: Path, tmp_path: Path) -> None:
    done = insular(
        "attack", "training", str(trained), "--canaries", "2", "--repetitions", "8", "--quiet",
        "--out", str(tmp_path / "a"), "--workers", "1", "--json", "-",
    )  # fmt: skip
    assert done.code == 2
    (game,) = json.loads(done.stdout)["games"]
    assert game["chance"] < 0.8 < game["draws_needed"]


def test_a_folder_that_is_no_training_run_is_one_line(tmp_path: Path) -> None:
    done = insular("attack", "training", str(tmp_path))
    assert done.code == 2 and done.stderr.count("\n") == 1
