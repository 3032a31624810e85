"""``insular hidden`` as a user meets it."""

import json
from dataclasses import fields
from pathlib import Path

import pytest

from insular.cli.spec_options import field_docs
from insular.recipes.hidden.spec import MECHANISM_KINDS, SweepSpec
from recipes.hidden_samples import SECRET, tiny_sweep

from .in_process import insular

NAMES = {"kl_nats": "--kl"}
"""Options that are not named as their field."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hidden")


def typed(folder: Path, **changes: object) -> list[str]:
    """A sweep's settings as options, those that are not the default."""
    spec = tiny_sweep(folder, **changes)
    found = ["hidden", "sweep", "--states", str(folder / "states"), "--workers", "1"]
    for field in fields(SweepSpec):
        value = getattr(spec, field.name)
        if value != field.default:
            text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
            found += [NAMES.get(field.name, f"--{field.name.replace('_', '-')}"), text]
    return found


def test_every_setting_is_an_option_with_its_docstring_as_help() -> None:
    shown = " ".join(insular("hidden", "sweep", "--help").stdout.split())
    docs = field_docs(SweepSpec)
    for field in fields(SweepSpec):
        assert f"{NAMES.get(field.name, '--' + field.name.replace('_', '-'))} " in shown
        assert docs[field.name][:20] in shown


def test_the_mechanisms_are_listed_in_80_columns() -> None:
    listed = insular("hidden", "sweep", "--list")
    assert listed.code == 0 and max(map(len, listed.stdout.splitlines())) <= 80
    words = " ".join(listed.stdout.split())
    assert all(f"{name} {line}" in words for name, line in MECHANISM_KINDS.items())


def test_a_sweep_without_a_useful_and_private_release_ends_with_1(
    folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    done = insular(*typed(folder), "--out", str(out))
    assert done.code == 1, done.stderr
    assert max(map(len, done.stdout.splitlines()[:-1])) <= 80
    said = " ".join(done.stdout.replace("│", " ").split())
    assert "NO RELEASE IS USEFUL AND PRIVATE" in said
    assert "Layer 0: no release is both useful and private. The nearest: " in said
    assert done.stdout.endswith(f"Page:   {out / 'report.html'}\n")
    assert "states: done" in done.stderr and "cells: done" in done.stderr
    assert SECRET not in done.stdout + done.stderr
    assert insular("report", str(out)).stdout.strip() == str(out / "report.html")


def test_one_that_has_it_ends_with_0(folder: Path, tmp_path: Path) -> None:
    easy = typed(folder, agreement=0.05, top1=0.95, kl_nats=(3.0,), mechanisms=("worst-case",))
    done = insular(*easy, "--out", str(tmp_path / "run"))
    assert done.code == 0, done.stdout
    assert "EACH LAYER HAS A USEFUL AND PRIVATE RELEASE" in done.stdout


def test_one_in_which_nothing_reaches_its_kl_ends_with_2(folder: Path, tmp_path: Path) -> None:
    done = insular(*typed(folder, mechanisms=("dropout",)), "--out", str(tmp_path / "run"))
    assert done.code == 2
    assert "NOTHING WAS MEASURED" in done.stdout


def test_json_is_the_result_and_quiet_says_no_more(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = insular(*typed(folder), "--out", str(out), "--json", "-", "--quiet")
    assert done.code == 1 and done.stderr == ""
    assert json.loads(done.stdout) == json.loads((out / "results.json").read_text())


def test_a_run_is_repeated_from_its_toml_with_the_typed_options_on_top(
    folder: Path, tmp_path: Path
) -> None:
    first, second = tmp_path / "one", tmp_path / "two"
    insular(*typed(folder), "--out", str(first), "--quiet")
    insular(
        *("hidden", "sweep", "--config", str(first / "run.toml"), "--kl", "0.01, 0.1"),
        *("--states", str(folder / "states"), "--workers", "1", "--out", str(second), "--quiet"),
    )
    was, now = ((run / "run.toml").read_text() for run in (first, second))
    assert now == was.replace("kl_nats = [0.003, 0.03]", "kl_nats = [0.01, 0.1]") != was


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (("--layers", "0,9"), "layers must be from 0 to 1 (the output of that block)"),
        (("--layers", "first"), "layers must be whole numbers separated by commas"),
        (("--kl", "0.1;1"), "kl_nats must be numbers separated by commas"),
        (("--rank", "64"), "rank must be below the 64 numbers of a state, got rank=64"),
        (("--queries", "61"), "queries must be candidates of the bank of 60, got queries=61"),
        (("--bank", "200"), "must hold 280 different prompts of 12 tokens"),
        (("--tokens", "65"), "tokens must be at most the model's context of 64"),
        (("--mechanisms", "noise"), "mechanisms must be one of isotropic"),
        (("--workers", "-1"), "workers must be an integer >= 1"),
        (("--text", "none.jsonl"), "none.jsonl does not exist"),
        (("--seed", "1"), "must hold states of the same model, text and prompts"),
    ],
)
def test_bad_input_is_one_clear_line(
    changes: tuple[str, ...], message: str, folder: Path, tmp_path: Path
) -> None:
    whole = typed(folder)
    if not (folder / "states").exists():
        insular(*whole, "--out", str(tmp_path / "first"), "--quiet")
    done = insular(*whole, *changes, "--out", str(tmp_path / "run"), "--quiet")
    assert done.code == 2 and done.stdout == ""
    assert message in done.stderr
    assert done.stderr.startswith("insular: ") and done.stderr.count("\n") == 1
    assert SECRET not in done.stderr
