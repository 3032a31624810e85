"""``insular card`` as a user meets it: three files, one panel, exit codes, one clear line."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from insular.evidence import to_toml
from insular.evidence.card import read_card
from recipes.card_samples import RESULT, STATED, coupled, write_run

from .in_process import insular


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run")


def test_it_writes_three_files_into_the_run_and_says_where(run):
    done = insular("card", str(run))
    assert done.code == 0 and done.stderr == ""
    assert "HOLDS" in done.stdout and "Not stated: data curators" in done.stdout
    for name in ("card.json", "card.md", "card.html"):
        assert (run / name).is_file() and f"Card: {run / name}" in done.stdout
    listed = json.loads((run / "manifest.json").read_text())
    assert {"card.json", "card.md", "card.html"} <= set(listed["files"])
    assert listed["status"] == "complete"


def test_json_to_standard_output_is_the_card_alone(run, tmp_path):
    done = insular("card", str(run), "--json", "-", "--out", str(tmp_path / "out"))
    assert done.code == 0
    assert read_card(done.stdout).basic.name == "run"
    assert (tmp_path / "out" / "card.json").read_text() == done.stdout
    assert not (run / "card.json").exists()


def test_json_to_a_file(run, tmp_path):
    assert insular("card", str(run), "--json", str(tmp_path / "c.json")).code == 0
    assert (tmp_path / "c.json").read_text() == (run / "card.json").read_text()


@pytest.mark.parametrize(
    ("result", "code", "word"),
    [
        (coupled(influence=1.0), 1, "COUPLED STACK"),
        (coupled(influence=7.0), 0, "COUPLED STACK"),
        (
            replace(RESULT, isolation=replace(RESULT.isolation, verdict="undecided")),
            2,
            "UNDECIDED",
        ),
    ],
)
def test_exit_codes(tmp_path, result, code, word):
    done = insular("card", str(write_run(tmp_path / "run", result)))
    assert done.code == code
    assert done.stdout.splitlines()[0].startswith(f"┌─  {word}  ")


def test_statements_come_from_a_file(run, tmp_path):
    (tmp_path / "stated.toml").write_text(to_toml(STATED))
    done = insular("card", str(run), "--stated", str(tmp_path / "stated.toml"), "--json", "-")
    assert read_card(done.stdout).basic.intended_use == STATED.intended_use


def test_what_cannot_be_done_is_one_line_and_exit_code_2(run, tmp_path):
    (tmp_path / "bad.toml").write_text("curator = 1\n")
    for arguments, part in (
        ((str(tmp_path),), "is not a run folder"),
        ((str(run), "--stated", str(tmp_path / "no.toml")), "cannot read"),
        ((str(run), "--stated", str(tmp_path / "bad.toml")), "curator is not a known field"),
        ((str(run), "--out", str(run / "results.json")), "cannot use"),
    ):
        done = insular("card", *arguments)
        assert done.code == 2 and done.stdout == ""
        assert part in done.stderr and len(done.stderr.splitlines()) == 1
