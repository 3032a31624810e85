"""docs/attacks.md cannot drift: its commands and code run, and print what it says."""

import re
import shlex
from pathlib import Path

import pytest

from cli.in_process import insular
from test_budget_docs import assert_holds

TEXT = (Path(__file__).parents[1] / "docs" / "attacks.md").read_text(encoding="utf-8")
CONSOLE = re.findall(r"<!-- run -->\n```console\n\$ insular (.*?)\n(.*?)```", TEXT, re.DOTALL)
PYTHON = re.findall(
    r"<!-- run -->\n```python\n(.*?)```\n\n<!-- prints -->\n```text\n(.*?)```", TEXT, re.DOTALL
)


def test_every_block_is_found() -> None:
    assert len(CONSOLE) + len(PYTHON) == TEXT.count("<!-- run") == 4


@pytest.mark.parametrize(("command", "expected"), CONSOLE)
def test_commands_print_what_the_document_says(command: str, expected: str) -> None:
    done = insular(*shlex.split(command))
    assert done.code == 0, done.stderr
    assert_holds(expected, done.stdout)


@pytest.mark.parametrize(("code", "expected"), PYTHON)
def test_code_prints_what_the_document_says(
    code: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    exec(compile(code, "attacks.md", "exec"), {})
    assert_holds(expected, capsys.readouterr().out)


def test_every_option_of_its_commands_exists() -> None:
    calls = re.findall(r"^\$ insular (attack [\w-]+|audit)(.*)$", TEXT, re.MULTILINE)
    for command, options in calls:
        described = insular(*command.split(), "--help").stdout
        for option in re.findall(r"--[\w-]+", options):
            assert option in described
