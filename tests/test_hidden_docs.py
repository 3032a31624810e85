"""docs/hidden.md cannot drift: its commands and code run, and print what it says."""

import re
import shlex
from pathlib import Path

import pytest

from cli.in_process import insular
from insular.recipes.hidden.spec import MECHANISM_KINDS
from insular.recipes.hidden.states_spec import StatesSpec
from test_budget_docs import assert_holds

TEXT = (Path(__file__).parents[1] / "docs" / "hidden.md").read_text(encoding="utf-8")
CONSOLE = re.findall(r"<!-- run -->\n```console\n\$ insular (.*?)\n(.*?)```", TEXT, re.DOTALL)
PYTHON = re.findall(
    r"<!-- run -->\n```python\n(.*?)```\n\n<!-- prints -->\n```text\n(.*?)```", TEXT, re.DOTALL
)


def test_every_block_is_found() -> None:
    assert len(CONSOLE) + len(PYTHON) == TEXT.count("<!-- run") == 2


@pytest.mark.parametrize(("command", "expected"), CONSOLE)
def test_commands_print_what_the_document_says(command: str, expected: str) -> None:
    done = insular(*shlex.split(command))
    assert done.code == 0, done.stderr
    assert_holds(expected, done.stdout)


@pytest.mark.parametrize(("code", "expected"), PYTHON)
def test_code_prints_what_the_document_says(
    code: str,
    expected: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "hidden.md", "exec"), {})
    assert_holds(expected, capsys.readouterr().out)


def test_every_mechanism_is_listed_with_its_line() -> None:
    for name, line in MECHANISM_KINDS.items():
        assert f"\n{name} {line}\n" in TEXT


def test_every_option_exists() -> None:
    calls = re.findall(r"^\$? ?insular hidden (\w+)(.*)$", TEXT, re.MULTILINE)
    assert len(calls) >= 5
    described = {name: insular("hidden", name, "--help").stdout for name in {n for n, _ in calls}}
    for name, rest in calls:
        for option in re.findall(r"--[\w-]+", rest):
            assert f"{option} " in described[name], (name, option)
    for option in re.findall(r"`(--[\w-]+)", TEXT):
        assert any(f"{option} " in text for text in described.values()), option


def test_what_runs_must_agree_on_to_share_states_is_named() -> None:
    sentence = TEXT.split("They must agree on")[1].split("A folder")[0]
    for field in StatesSpec.__dataclass_fields__:
        if field in ("model", "layers", "text"):
            assert field in sentence
        elif not field.endswith(("_field", "encoding")):
            assert f"`--{field.replace('_', '-')}`" in sentence


def test_what_must_be_known_is_said() -> None:
    words = " ".join(TEXT.split())
    assert "An attack that fails proves no privacy" in words
    assert "keep it, and delete it, as you would the text" in words
    assert "It is for measurements" in words
