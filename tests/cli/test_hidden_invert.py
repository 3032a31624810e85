"""``insular hidden invert`` and ``store`` as functions of the command line."""

import json
from dataclasses import fields
from pathlib import Path

import pytest
import torch
import typer
from safetensors.torch import save_file
from typer.testing import CliRunner

from insular.cli.hidden_invert import invert, store
from insular.cli.spec_options import field_docs
from insular.hidden.intervals import MeanInterval
from insular.hidden.inversion_results import StoreResult
from insular.recipes import hidden_inversion
from insular.recipes.hidden_inversion_spec import HiddenInversionSpec
from recipes.hidden_samples import SECRET
from recipes.inversion_samples import tiny_calibration, tiny_inversion

app = typer.Typer()
app.command("invert")(invert)
app.command("store")(store)


def called(*arguments: str) -> tuple[int, str]:
    done = CliRunner(env={"COLUMNS": "200"}).invoke(app, list(arguments))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout


def test_every_setting_is_an_option_with_help() -> None:
    _, shown = called("invert", "--help")
    docs = field_docs(HiddenInversionSpec)
    assert set(docs) == {field.name for field in fields(HiddenInversionSpec)}
    for field in fields(HiddenInversionSpec):
        name = {"kl_nats": "kl"}.get(field.name, field.name.replace("_", "-"))
        assert f"--{name}" in shown


def test_invert_reads_prompts_and_exits_with_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INSULAR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(hidden_inversion, "calibration_records", tiny_calibration)
    spec = tiny_inversion(tmp_path)
    typed = ["invert", "--quiet", "--model", spec.model, "--text", spec.text, "--id-field", "id"]
    typed += ["--layer", "1", "--prompts", "2", "--tokens", "6"]
    code, shown = called(*typed, "--out", str(tmp_path / "run"))
    assert code == 1
    assert "2 OF 2 PROMPTS READ EXACTLY" in shown
    assert SECRET not in shown
    code, shown = called(*typed, "--out", str(tmp_path / "again"), "--json", "-")
    assert code == 1
    assert [one["record_id"][0] for one in json.loads(shown)["prompts"]] == ["T", "T"]


def test_store_says_what_is_lost_and_what_is_told(tmp_path: Path) -> None:
    file = tmp_path / "states.safetensors"
    rows = torch.randn((50, 8), generator=torch.Generator().manual_seed(0))
    save_file({"states": rows}, str(file))
    code, shown = called("store", str(file), "--storage", "int8", "--queries", "20")
    assert code == 0
    assert "50 states, clean, kept in int8." in shown
    code, shown = called("store", str(file), "--json", "-")
    assert json.loads(shown)["attack_top1"]["mean"] == 1.0


def test_recall_lost_is_the_rest_of_recall() -> None:
    share = MeanInterval(
        mean=0.9, low=0.8, high=1.0, standard_error=0.1, n=9, significance=0.05, method="bootstrap"
    )
    result = StoreResult(
        mechanism="none",
        budget_nats=None,
        storage="float32",
        k=3,
        n_states=9,
        recall=share,
        attack_top1=share,
        seed=0,
    )
    assert result.recall_lost == pytest.approx(0.1)
