"""``insular attack membership`` as a user meets it."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from insular.cli.attack_membership import membership
from insular.errors import InvalidArgumentError
from recipes.membership_inputs import two_models

app = typer.Typer()
app.command("membership")(membership)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("membership")
    two_models(made)
    return made


def given(folder: Path, run: str, *more: str) -> list[str]:
    files = ("--members", folder / "members.jsonl", "--non-members", folder / "others.jsonl")
    return [str(folder / run), *map(str, files), "--quiet", *more]


def test_a_leaky_model_refutes_a_promise(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = CliRunner().invoke(
        app, given(folder, "leaky", "--epsilon", "0.1", "--delta", "1e-5", "--out", str(out))
    )
    assert done.exit_code == 1 and done.stderr == ""
    *lines, page = done.stdout.splitlines()
    assert page == f"Page:   {out / 'report.html'}" and max(map(len, lines)) <= 80
    assert "REFUTED" in done.stdout and (out / "report.html").is_file()


def test_json_is_the_same_result(folder: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(
        app, given(folder, "model", "--json", "-", "--fprs", "0.1", "--out", str(tmp_path / "run"))
    )
    assert done.exit_code == 0
    result = json.loads(done.stdout)
    assert result == json.loads((tmp_path / "run" / "results.json").read_text())
    assert [point["wanted_fpr"] for point in result["scores"][0]["points"]] == [0.1]


def test_bad_rates_are_an_error(folder: Path) -> None:
    done = CliRunner().invoke(app, given(folder, "model", "--fprs", "one"))
    assert isinstance(done.exception, InvalidArgumentError)
    assert "fprs must be numbers separated by commas" in str(done.exception)
