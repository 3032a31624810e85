"""The commands on secrets that we planted: what they print, write and refuse."""

import json
from pathlib import Path

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from insular.cli.attack_secrets import attribute, canaries, extraction
from insular.cli.one_line_group import OneLineGroup
from insular.errors import InsularError
from insular.evidence import RunStore
from recipes.secret_models import TEMPLATE, notes, spelling_folder

app = typer.Typer(cls=OneLineGroup, rich_markup_mode=None)
app.command("canaries")(canaries)
app.command("extraction")(extraction)
app.command("attribute")(attribute)


def insular(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli")
    spelling_folder(folder / "model")
    text = notes(folder / "notes.jsonl", n_records=20)
    done = insular(
        "canaries", text, "--secrets", 8, "--repeat", "1,4", "--template", TEMPLATE,
        "--id-field", "id", "--out", folder / "canaries",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    return folder


def test_canaries_says_what_it_wrote_and_shows_no_secret(home: Path, tmp_path: Path):
    done = insular(
        "canaries", home / "notes.jsonl", "--secrets", 8, "--repeat", "1,4", "--template", TEMPLATE,
        "--id-field", "id", "--out", tmp_path / "out", "--json", tmp_path / "counts.json",
    )  # fmt: skip
    said = " ".join(done.output.split())
    assert "30 rows, 10 of them planted" in said
    assert "4 secrets, 2 of them in 1 row, 2 of them in 4 rows; 4 controls in none" in said
    assert "It shows" in said and "It does not show" in said
    plan = json.loads((tmp_path / "out" / "canaries.json").read_text())
    counts = (tmp_path / "counts.json").read_text()
    for secret in plan["secrets"]:
        assert secret["name"] not in done.output + counts
        assert secret["id"] in counts


def test_extraction_prints_its_answer_and_gives_an_exit_code(home: Path, tmp_path: Path):
    words = ("extraction", home / "model", "--canaries", home / "canaries", "--quiet")
    done = insular(*words, "--out", tmp_path / "plain")
    assert done.exit_code == 0 and "NOTHING PROMISED" in done.output
    assert "It does not show" in done.output and "report.html" in done.output
    held = insular(
        *words, "--epsilon", 1, "--delta", "1e-6", "--out", tmp_path / "held", "--json", "-"
    )
    found = json.loads(held.stdout)
    assert held.exit_code in (0, 2) and found["epsilon"] == 1.0
    assert len(found["tests"]) == 8 and len(found["secrets"]) == 8
    weak = insular(
        *words, "--epsilon", 30, "--delta", "1e-6", "--rank", "sampled", "--candidates", 100,
        "--out", tmp_path / "weak",
    )  # fmt: skip
    assert weak.exit_code == 2 and "UNDECIDED" in weak.output
    assert RunStore.open(tmp_path / "weak").manifest.status == "complete"


def test_attribute_prints_its_answer(home: Path, tmp_path: Path):
    (tmp_path / "people.jsonl").write_text(
        "".join(json.dumps({"id": i, "name": f"Bo{i}", "pet": "cat"}) + "\n" for i in range(6))
    )
    done = insular(
        "attribute", home / "model", "--records", tmp_path / "people.jsonl", "--template",
        "{name} has a {pet}", "--attribute", "pet", "--values", "cat,dog", "--quiet", "--out",
        tmp_path / "out",
    )  # fmt: skip
    assert done.exit_code == 0 and "NOT SHOWN" in done.output and "It does not show" in done.output


def test_what_cannot_be_done_is_one_line(home: Path, tmp_path: Path):
    for words in (
        ("canaries", home / "notes.jsonl", "--repeat", "often", "--out", tmp_path / "a"),
        ("canaries", home / "notes.jsonl", "--template", "none", "--out", tmp_path / "a"),
        ("extraction", home / "model", "--canaries", home / "model", "--out", tmp_path / "a"),
        ("extraction", home / "none", "--canaries", home / "canaries", "--out", tmp_path / "a"),
    ):
        error = insular(*words).exception
        # the command line prints such an error as it is and exits with 2
        assert isinstance(error, InsularError) and len(str(error).splitlines()) == 1
    assert not (tmp_path / "a").exists()
