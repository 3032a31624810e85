"""Results on a terminal: plain words first, at most 80 columns, no meaning in colour alone."""

import sys
from collections.abc import Sequence
from typing import IO

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from insular.reports.page import VerdictKind

MAX_COLUMNS = 80
"""Results are never wider."""
_STYLES: dict[VerdictKind, str] = {"good": "green", "bad": "red", "open": "yellow"}


def results_console(file: IO[str] | None = None) -> Console:
    """A console for results: standard output, at most 80 columns, colour only where wanted.

    Guarantees:
        * Without a terminal, or with ``NO_COLOR`` set, the output holds no colour.

    Args:
        file: Where to write; None is standard output.

    Returns:
        The console.
    """
    stream = sys.stdout if file is None else file
    width = min(MAX_COLUMNS, Console(file=stream).width)
    return Console(file=stream, width=width, highlight=False, markup=False, emoji=False)


def verdict_panel(word: str, *, kind: VerdictKind, lines: Sequence[str]) -> RenderableType:
    """A frame with the verdict as its title.

    Guarantees:
        * The verdict is a word; colour only repeats it.
        * Square brackets in a line are text.

    Args:
        word: The verdict.
        kind: What it means for the claim.
        lines: Paragraphs inside the frame; they wrap.

    Returns:
        What a console prints.
    """
    texts: list[RenderableType] = []
    for i, line in enumerate(lines):
        texts.append(Padding(Text(line, overflow="fold"), (0 if i == 0 else 1, 0, 0, 0)))
    return Panel(
        Group(*texts),
        title=Text(f" {word.upper()} ", style=f"bold {_STYLES[kind]}"),
        title_align="left",
        border_style=_STYLES[kind],
        box=box.SQUARE,
        width=None,
        padding=(0, 1),
    )


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    numeric: Sequence[int] = (),
    title: str = "",
) -> RenderableType:
    """A table whose cells fold where they do not fit.

    Guarantees:
        * It is as wide as the console at most, and no character is cut off.
        * Square brackets in a cell are text.

    Args:
        columns: Heads.
        rows: One cell for each column.
        numeric: Positions of the columns set to the right.
        title: What to see in it; printed above, to the left.

    Returns:
        What a console prints.
    """
    grid = Table(
        box=box.SIMPLE_HEAD,
        title=Text(title, style="bold") if title else None,
        title_justify="left",
        pad_edge=False,
        padding=(0, 2, 0, 0),
        header_style="",
    )
    for i, column in enumerate(columns):
        grid.add_column(Text(column), justify="right" if i in numeric else "left", overflow="fold")
    for row in rows:
        grid.add_row(*(Text(cell) for cell in row))
    return grid


def facts(pairs: Sequence[tuple[str, str]]) -> RenderableType:
    """Names and what they stand for, in two columns.

    Args:
        pairs: Name and value.

    Returns:
        What a console prints.
    """
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(overflow="fold", min_width=12, max_width=22)
    grid.add_column(overflow="fold")
    for name, value in pairs:
        grid.add_row(Text(name), Text(value))
    return grid
