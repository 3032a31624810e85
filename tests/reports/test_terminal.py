from io import StringIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from insular.reports.terminal import facts, results_console, table, verdict_panel

LONG = "a-very-long-record-id-" * 8
BLOCKS = (
    verdict_panel("coupled", kind="bad", lines=(f"record [bold]{LONG}[/bold]", "second")),
    table(("Stack", "Time"), ((LONG, "1.0 s"), ("[red]x[/red]", "2")), numeric=(1,), title=LONG),
    facts((("name", LONG), ("[i]other[/i]", "value"))),
)


def printed(console: Console) -> str:
    for block in BLOCKS:
        console.print(block)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_never_wider_than_80_columns():
    lines = printed(Console(width=80, file=StringIO())).splitlines()
    assert max(map(cell_len, lines)) <= 80


@pytest.mark.parametrize("columns", ["40", "200"])
def test_results_console_is_as_wide_as_the_terminal_but_no_wider_than_80(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    lines = printed(results_console(StringIO())).splitlines()
    assert max(map(cell_len, lines)) <= min(80, int(columns))


def test_no_colour_without_a_terminal():
    assert "\x1b" not in printed(results_console(StringIO()))


def test_no_colour_with_no_color(monkeypatch):
    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")
    text = printed(results_console(Terminal()))
    assert "\x1b[31m" not in text
    assert "COUPLED" in text


def test_the_verdict_is_a_word():
    assert "COUPLED" in printed(results_console(StringIO())).splitlines()[0]


def test_square_brackets_are_text():
    text = printed(results_console(StringIO()))
    for tag in ("[bold]", "[red]x[/red]", "[i]other[/i]"):
        assert tag in text


@settings(max_examples=30, deadline=None)
@given(st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=300))
def test_no_character_is_cut_off(text):
    console = Console(width=80, file=StringIO())
    console.print(table(("Id", "n"), ((text, "1.0"),), numeric=(1,)))
    lines = console.file.getvalue().splitlines()[3:]  # type: ignore[attr-defined]
    assert "".join(line.split()[0] for line in lines if line.strip()) == text
