"""docs/training.md: its commands run, its tables name what there is."""

import re
import shlex
from pathlib import Path

import typer.main

from cli.in_process import insular
from insular.cli.app import app
from insular.recipes.train.spec import BACKBONES, SAMPLERS
from recipes.train_inputs import tiny_train

TRAINING = (Path(__file__).parents[1] / "docs" / "training.md").read_text(encoding="utf-8")


def test_every_backbone_and_sampler_has_a_row() -> None:
    for name in (*BACKBONES, *SAMPLERS):
        assert re.search(rf"^\|.*`{name}`.*\|", TRAINING, re.MULTILINE), name


def test_every_option_exists() -> None:
    command = typer.main.get_command(app).commands["train"]  # type: ignore[attr-defined]
    known = {option for parameter in command.params for option in parameter.opts}
    assert set(re.findall(r"`(--[\w-]+)", TRAINING)) <= known


def test_its_commands_run(tmp_path: Path) -> None:
    """With a tiny model and fewer steps; the second command finds the run of the first complete."""
    spec = tiny_train(tmp_path)
    first, second = re.findall(r"^    (insular train .*)$", TRAINING, re.MULTILINE)
    out = tmp_path / "run"
    small = ["--backbone", "float32", "--validation", "none", "--batch", "5", "--tokens", "16"]
    words = {
        "smollm2": spec.model,
        "tickets.jsonl": spec.text,
        "200": "4",
        "runs/tickets": str(out),
    }
    typed = [words.get(word, word) for word in shlex.split(first)[1:]]
    done = insular(*typed, *small)
    assert done.code == 0, done.stderr
    again = [word.replace("runs/tickets", str(out)) for word in shlex.split(second)[1:]]
    resumed = insular(*again)
    assert resumed.code == 2
    assert "must hold an unfinished training run to resume" in resumed.stderr
