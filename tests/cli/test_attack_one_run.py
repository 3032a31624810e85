"""``insular attack one-run`` as a user meets it."""

import json
from pathlib import Path

import pytest

from insular.recipes.train.run import train_privately
from recipes.train_inputs import tiny_train

from .in_process import insular


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    spec = tiny_train(folder, noise_seed=3, sampler="full_batch", epsilon=4.0, delta=1e-3)
    train_privately(spec, folder / "run", command=())
    return folder / "run"


def test_a_run_that_keeps_its_promise(trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "a"
    done = insular("attack", "one-run", str(trained), "--out", str(out), "--quiet")
    assert done.code == 0 and done.stderr == ""
    *lines, page = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80 and page == f"Page:   {out / 'report.html'}"
    assert "NOT REFUTED" in done.stdout and "(promised) at delta" in done.stdout
    assert insular("report", str(out)).code == 0


def test_too_few_canaries_decide_nothing(trained: Path, tmp_path: Path) -> None:
    done = insular(
        "attack", "one-run", str(trained), "--canaries", "20", "--guesses", "10,20", "--quiet",
        "--out", str(tmp_path / "a"), "--json", "-",
    )  # fmt: skip
    assert done.code == 2
    found = json.loads(done.stdout)
    assert [one["counts"]["highest"] for one in found["bound"]["attempts"]] == [5, 10]


def test_what_is_wrong_is_one_line(trained: Path, tmp_path: Path) -> None:
    for options in (["--guesses", "ten"], ["--canaries", "0"]):
        done = insular("attack", "one-run", str(trained), *options)
        assert done.code == 2 and done.stderr.count("\n") == 1
    done = insular("attack", "one-run", str(tmp_path))
    assert done.code == 2 and done.stderr.count("\n") == 1
