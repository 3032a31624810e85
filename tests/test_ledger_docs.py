"""docs/ledger.md cannot drift: its commands and code run, and print what it says."""

import os
import re
import shlex
from pathlib import Path

import pytest

from cli.in_process import insular

TEXT = (Path(__file__).parents[1] / "docs" / "ledger.md").read_text(encoding="utf-8")
CONSOLE = re.findall(r"<!-- run -->\n```console\n(.*?)```", TEXT, re.DOTALL)
PYTHON = re.findall(r"<!-- run -->\n```python\n(.*?)```", TEXT, re.DOTALL)


def test_the_worked_example_prints_what_the_document_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("INSULAR_LEDGER", raising=False)
    steps = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", "".join(CONSOLE), re.MULTILINE)
    assert len(steps) == 9 and len(CONSOLE) + len(PYTHON) == TEXT.count("<!-- run -->")
    for command, expected in steps:
        words = shlex.split(command)
        if words[0] == "export":
            monkeypatch.setenv(*words[1].split("=", 1))
            continue
        done = insular(*words[1:])
        printed = re.sub(r":[0-9a-f]{64}", ":...", done.stdout + done.stderr)
        assert printed == expected, command
        assert done.code == (1 if "refused" in expected else 0), command
    assert os.listdir(tmp_path) == ["support.ledger"]


def test_the_python_example_prints_what_its_comment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(PYTHON[0], "ledger.md", "exec"), {})
    assert capsys.readouterr().out.strip() in PYTHON[0]
