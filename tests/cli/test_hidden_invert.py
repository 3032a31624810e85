"""``insular hidden invert`` as a function of the command line."""

import json
from dataclasses import fields
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from insular.cli.hidden_invert import invert
from insular.cli.spec_options import field_docs
from insular.recipes.hidden.inversion import run as hidden_inversion
from insular.recipes.hidden.inversion.spec import HiddenInversionSpec
from recipes.hidden_samples import SECRET
from recipes.inversion_samples import tiny_calibration, tiny_inversion

NAMES = {"kl_nats": "kl", "layers": "layer", "mechanisms": "mechanism", "storages": "storage"}
"""Options that are not named as their field."""

app = typer.Typer()
app.command("invert")(invert)


def called(*arguments: str, columns: int = 200) -> tuple[int, str]:
    done = CliRunner(env={"COLUMNS": str(columns)}).invoke(app, list(arguments))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout


def test_every_setting_is_an_option_with_help() -> None:
    _, shown = called("--help")
    docs = field_docs(HiddenInversionSpec)
    assert set(docs) == {field.name for field in fields(HiddenInversionSpec)}
    for field in fields(HiddenInversionSpec):
        name = NAMES.get(field.name, field.name.replace("_", "-"))
        assert f"--{name}" in shown


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A tiny run, as far as all tests type it."""
    monkeypatch.setenv("INSULAR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(hidden_inversion, "calibration_records", tiny_calibration)
    spec = tiny_inversion(tmp_path)
    model = ["--model", spec.model, "--text", spec.text, "--id-field", "id"]
    return ["--quiet", "--workers", "1", *model, "--layer", "1", "--prompts", "2", "--tokens", "6"]


def test_invert_reads_prompts_and_exits_with_1(tmp_path: Path, typed: list[str]) -> None:
    code, shown = called(*typed, "--out", str(tmp_path / "run"))
    assert code == 1
    assert "2 OF 2 PROMPTS READ EXACTLY" in shown
    assert SECRET not in shown
    code, shown = called(*typed, "--out", str(tmp_path / "again"), "--json", "-")
    assert code == 1
    (cell,) = json.loads(shown)["cells"]
    assert [one["record_id"][0] for one in cell["prompts"]] == ["T", "T"]


def test_several_cells_are_a_table_of_80_columns(tmp_path: Path, typed: list[str]) -> None:
    more = ["--storage", "float32,int8", "--mechanism", "none,isotropic,diagonal-inverse-fisher"]
    more += ["--kl", "0.05", "--fit", "40", "--calibration", "20"]
    code, shown = called(*typed, *more, "--out", str(tmp_path / "run"), columns=80)
    assert code == 1
    lines = [line for line in shown.splitlines() if str(tmp_path) not in line]
    assert max(map(len, lines)) <= 80
    assert sum("float32" in line or "int8" in line for line in lines[-12:]) >= 6
    assert "Exact, %" in shown and "100 (16-100)" in shown


def test_an_interrupted_run_says_how_it_goes_on(
    tmp_path: Path, typed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(hidden_inversion, "run_tasks", stopped)
        code, _ = called(*typed, "--out", str(out))
    assert code == 130
    code, shown = called(*typed, "--out", str(out))
    assert code == 1 and "READ EXACTLY" in shown
