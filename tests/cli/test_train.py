"""``insular train`` as typed: options made of the settings, what is printed, how it ends."""

from dataclasses import fields
from pathlib import Path

import pytest

from insular.cli.spec_options import field_docs
from insular.recipes.train.spec import BACKBONES, TrainSpec
from recipes.train_inputs import tiny_train

from .in_process import insular as run


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> TrainSpec:
    return tiny_train(tmp_path_factory.mktemp("train"))


def options(spec: TrainSpec, *names: str) -> list[str]:
    return [
        part for name in names for part in (f"--{name.replace('_', '-')}", str(getattr(spec, name)))
    ]


def given(spec: TrainSpec) -> list[str]:
    names = ("model", "text", "id_field", "unit", "backbone", "epsilon", "steps", "batch")
    return options(spec, *names, "tokens", "validation", "threads")


def test_every_setting_is_an_option_with_its_docstring_as_help() -> None:
    shown = " ".join(run("train", "--help").stdout.split())
    docs = field_docs(TrainSpec)
    for field in fields(TrainSpec):
        assert f"--{field.name.replace('_', '-')} " in shown
        assert docs[field.name][:20] in shown


def test_the_backbones_are_listed() -> None:
    listed = run("train", "--list")
    assert listed.code == 0
    assert all(name in listed.stdout for name in BACKBONES)


def test_a_run_says_what_it_guarantees(spec: TrainSpec, tmp_path: Path) -> None:
    ended = run("train", *given(spec), "--out", str(tmp_path / "run"))
    assert ended.code == 0, ended.stderr
    said = " ".join(ended.stdout.replace("│", " ").split())
    assert "differentially private for each owner: 8 of 8 planned releases ran" in said
    assert all(len(line) <= 80 for line in ended.stdout.splitlines()[:-3])
    again = run("report", str(tmp_path / "run"))
    assert again.stdout.strip() == str(tmp_path / "run" / "report.html")


def test_json_is_the_result(spec: TrainSpec, tmp_path: Path) -> None:
    ended = run("train", *given(spec), "--out", str(tmp_path / "run"), "--json", "-", "--quiet")
    assert ended.stdout == (tmp_path / "run" / "results.json").read_text()
    assert ended.stderr == ""


def test_a_seeded_run_ends_with_1(spec: TrainSpec, tmp_path: Path) -> None:
    ended = run("train", *given(spec), "--noise-seed", "1", "--out", str(tmp_path / "run"))
    assert ended.code == 1
    assert "Nothing is protected" in ended.stdout.replace("\n", " ")


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (["--text", "none.jsonl", "--epsilon", "1"], "none.jsonl does not exist"),
        (["--epsilon", "1"], "text must name a file of records"),
        (["--resume"], "--resume must know its run"),
        (["--config", "none.toml"], "none.toml cannot be read"),
        (["--text", "x.jsonl", "--epsilon", "-1"], "epsilon must be finite and >= 0"),
    ],
)
def test_bad_input_is_one_clear_line(typed: list[str], message: str) -> None:
    ended = run("train", *typed)
    assert ended.code == 2
    assert message in ended.stderr
    assert "Traceback" not in ended.stderr
