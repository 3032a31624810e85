"""What a reader sees of some blocks of a page."""

import html as markup
import re
from collections.abc import Sequence

from insular.reports import Block, Cell, Figure, Page, Section, Table, render


def visible(blocks: Sequence[Block]) -> str:
    """The visible text, without the drawings."""
    section = Section(heading="", blocks=tuple(blocks))
    page = Page(title="", verdict="", verdict_kind="open", lead=(), sections=(section,))
    body = render(page).partition("</h2>")[2].partition('<section class="notes">')[0]
    body = re.sub(r"<svg.*?</svg>|<sup>.*?</sup>", "", body, flags=re.DOTALL)
    return " ".join(markup.unescape(re.sub(r"<[^>]*>", "", body)).split())


def figures(blocks: Sequence[Block]) -> list[Figure]:
    """The drawings."""
    return [block for block in blocks if isinstance(block, Figure)]


def table(blocks: Sequence[Block], caption: str) -> list[list[str]]:
    """The cells of the table whose caption has some words."""
    tables = (block for block in blocks if isinstance(block, Table))
    return [
        [_flat(cell) for cell in row]
        for row in next(found for found in tables if caption in found.caption).rows
    ]


def _flat(cell: Cell) -> str:
    """A cell's text."""
    if isinstance(cell, tuple):
        return "".join(map(_flat, cell))
    return cell if isinstance(cell, str) else cell.text
