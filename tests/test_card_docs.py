"""docs/card.md cannot drift: its commands and code run, and print what it says."""

import json
import re
import shlex
from dataclasses import fields
from pathlib import Path

import pytest

from cli.in_process import insular
from insular.evidence.card import schema_text
from insular.recipes.card.statements import Statements
from recipes.card_samples import coupled, write_run

TEXT = (Path(__file__).parents[1] / "docs" / "card.md").read_text(encoding="utf-8")
CONSOLE = re.findall(r"<!-- run: (\d) -->\n```console\n\$ ([^\n]*)\n(.*?)```", TEXT, re.DOTALL)
PYTHON = re.findall(r"<!-- run -->\n```python\n(.*?)```", TEXT, re.DOTALL)
FILES = re.findall(r"<!-- file: (\S+) -->\n```toml\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with both runs and the statements."""
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "runs" / "copilot-1")
    write_run(tmp_path / "runs" / "copilot-2", coupled(influence=1.0))
    for name, text in FILES:
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_every_block_is_found() -> None:
    assert len(CONSOLE) + len(PYTHON) == TEXT.count("<!-- run") == 3
    assert len(FILES) == 1


@pytest.mark.usefixtures("here")
def test_the_commands_print_what_the_document_says() -> None:
    for code, command, expected in CONSOLE:
        done = insular(*shlex.split(command)[1:])
        assert done.code == int(code), done.stderr
        if expected.endswith("...\n"):
            assert done.stdout.startswith(expected.removesuffix("...\n"))
        else:
            assert done.stdout == expected


@pytest.mark.usefixtures("here")
def test_the_code_prints_what_its_comment_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert insular(*shlex.split(CONSOLE[0][1])[1:]).code == 0
    exec(compile(PYTHON[0], "card.md", "exec"), {})
    assert f"# {capsys.readouterr().out.strip()}\n" in PYTHON[0]


def test_every_field_of_the_document_exists() -> None:
    schema = json.loads(schema_text())
    parts = [schema, *schema["$defs"].values()]
    known = {name for part in parts for name in part["properties"]}
    named = re.findall(r"^\| `([\w.]+)` \|", TEXT, re.MULTILINE)
    assert len(named) == 9
    for path in named:
        assert set(path.split(".")) <= known, path


def test_the_statements_file_uses_known_fields() -> None:
    known = {field.name for field in fields(Statements)}
    assert set(re.findall(r"^(\w+) =", FILES[0][1], re.MULTILINE)) <= known
