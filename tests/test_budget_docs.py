"""docs/budget.md cannot drift: its commands and code run, and print what it says."""

import re
import shlex
from pathlib import Path

import pytest

from cli.in_process import insular

TEXT = (Path(__file__).parents[1] / "docs" / "budget.md").read_text(encoding="utf-8")
CONSOLE = re.findall(r"<!-- run(?:: (\d))? -->\n```console\n(.*?)```", TEXT, re.DOTALL)
PYTHON = re.findall(
    r"<!-- run -->\n```python\n(.*?)```\n\n<!-- prints -->\n```text\n(.*?)```", TEXT, re.DOTALL
)
NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e[+-]?\d+)?")
TOLERANCE = 0.005


def split(text: str) -> tuple[str, list[float]]:
    """Words and numbers apart, whatever the spacing."""
    words = " ".join(text.split())
    return NUMBER.sub("#", words), [float(number) for number in NUMBER.findall(words)]


def assert_holds(expected: str, printed: str) -> None:
    """Every line, or sentence over several lines, stands in the output, in this order."""
    words, numbers = split(printed)
    start = 0
    for line in expected.splitlines():
        if line.strip() in ("", "..."):
            continue
        wanted, values = split(line)
        while True:
            start = words.find(wanted, start)
            assert start >= 0, f"{line!r} is not printed by\n{printed}"
            n_before = words[:start].count("#")
            found = numbers[n_before : n_before + len(values)]
            if found == pytest.approx(values, rel=TOLERANCE):
                break
            start += 1
        start += len(wanted)


def test_every_block_is_found() -> None:
    assert len(CONSOLE) + len(PYTHON) == TEXT.count("<!-- run") >= 12


@pytest.mark.parametrize(("code", "block"), CONSOLE)
def test_commands_print_what_the_document_says(code: str, block: str) -> None:
    for call in re.split(r"^\$ insular ", block, flags=re.MULTILINE)[1:]:
        command, _, expected = call.partition("\n")
        done = insular(*shlex.split(command))
        assert done.code == int(code or 0), done.stderr
        assert_holds(expected, done.stdout + done.stderr)


@pytest.mark.parametrize(("code", "expected"), PYTHON)
def test_code_prints_what_the_document_says(
    code: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    exec(compile(code, "budget.md", "exec"), {})
    assert_holds(expected, capsys.readouterr().out)


def test_a_wrong_number_would_be_noticed() -> None:
    with pytest.raises(AssertionError, match="is not printed"):
        assert_holds("epsilon 1.46 at", "epsilon 1.4391 at delta 1e-5")
    assert_holds("epsilon 1.44 at", "epsilon 1.4391\n at delta 1e-5")
