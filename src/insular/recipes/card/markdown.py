"""A release card as a section of a model card, in GitHub's Markdown."""

import re
from collections.abc import Sequence

from insular.evidence.card import ReleaseCard
from insular.recipes.card.words import (
    CardGroup,
    CardTable,
    CardValue,
    first_word,
    groups,
    missing_sentence,
)

_SPECIAL = re.compile(r"([\\`*\[\]|<>#~$]|(?<!\w)_|_(?!\w))")


def card_markdown(card: ReleaseCard) -> str:
    """Write a card as Markdown.

    Guarantees:
        * The first line says what is wrong, if anything is.
        * No value can start a tag, a link, a table cell or a heading.

    Args:
        card: The card.

    Returns:
        The text: a heading of the second level, and below it headings of the third.
    """
    parts = [
        f"## {escaped(first_word(card))}: release card of {escaped(card.basic.name)}",
        f"**{escaped(card.headline)}**",
        escaped(missing_sentence(card)),
        *(_group(group) for group in groups(card)),
        f"Made by insular {escaped(card.code.insular_version)} from a run of"
        f" {card.created_utc:%Y-%m-%d}; layout {card.schema_version}.",
    ]
    return "\n\n".join(parts) + "\n"


def escaped(text: str) -> str:
    """Text on one line in which no character has a meaning.

    Args:
        text: Any text.

    Returns:
        Markdown that shows it.
    """
    return _SPECIAL.sub(r"\\\1", " ".join(text.replace("&", "&amp;").split()))


def _group(group: CardGroup) -> str:
    """A heading and what stands below it."""
    parts = [f"### {group.heading}"]
    if group.absent:
        parts.append(escaped(group.absent).capitalize() + ".")
    if group.pairs:
        rows = [(escaped(name), _cell(value)) for name, value in group.pairs]
        parts.append(_rows(("Fact", "Value"), rows))
    parts += [_table(table) for table in group.tables]
    if group.points:
        parts.append("\n".join(f"- {escaped(point)}" for point in group.points))
    return "\n\n".join(parts)


def _table(table: CardTable) -> str:
    """A table with its caption above."""
    rows = _rows(table.columns, [[_cell(value) for value in row] for row in table.rows])
    return f"{escaped(table.caption)}:\n\n{rows}" if table.caption else rows


def _rows(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lines of a table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: CardValue) -> str:
    """A value; a digest in a fixed-width face, unless it could break out of one."""
    if value.is_code and re.fullmatch(r"[\w.:/+@-]+", value.text):
        return f"`{value.text}`"
    return escaped(value.text)
