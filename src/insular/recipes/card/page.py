"""A release card as a page."""

from insular.evidence.card import ReleaseCard
from insular.recipes.card.words import (
    KINDS,
    CardGroup,
    CardTable,
    CardValue,
    first_word,
    groups,
    missing_sentence,
)
from insular.reports import (
    Block,
    Cell,
    Code,
    Facts,
    Number,
    Page,
    Points,
    Section,
    Table,
    paragraph,
)

_FILE = "card.json"


def card_page(card: ReleaseCard) -> Page:
    """Turn a card into the content of a page.

    Guarantees:
        * The first line says what is wrong, if anything is.
        * What nobody stated stands on the first screen.

    Args:
        card: The card, written beside the page as ``card.json``.

    Returns:
        The page, for :func:`insular.reports.render`.
    """
    return Page(
        title=f"{first_word(card)}: release card of {card.basic.name}",
        verdict=card.claim.capitalize(),
        verdict_kind=KINDS[card.claim],
        lead=(paragraph(card.headline), paragraph(missing_sentence(card))),
        sections=tuple(_section(group) for group in groups(card)),
        footer=f"Run {card.basic.name}, started"
        f" {card.created_utc:%Y-%m-%d %H:%M:%S UTC}, insular {card.code.insular_version}; layout"
        f" {card.schema_version}. What a field means: schema-{card.schema_version}.json of the"
        " package. Records appear neither by text nor by id.",
    )


def _section(group: CardGroup) -> Section:
    """A heading and what stands below it."""
    blocks: list[Block] = []
    if group.absent:
        blocks.append(paragraph(f"{group.absent[:1].upper()}{group.absent[1:]}."))
    if group.pairs:
        pairs = tuple((name, _cell(value)) for name, value in group.pairs)
        blocks.append(Facts(pairs=pairs, source=_source(group.place)))
    blocks += [_table(table) for table in group.tables]
    if group.points:
        blocks.append(Points(items=group.points))
    return Section(heading=group.heading, blocks=tuple(blocks))


def _table(table: CardTable) -> Table:
    """A table."""
    first = table.rows[0]
    return Table(
        caption=table.caption,
        columns=table.columns,
        rows=tuple(tuple(_cell(value) for value in row) for row in table.rows),
        numeric=tuple(i for i, value in enumerate(first) if value.is_number),
        source=_source(table.place),
    )


def _cell(value: CardValue) -> Cell:
    """A value: a number with its place, a digest in a fixed-width face, or words."""
    if value.is_number:
        return Number(text=value.text, source=_source(value.place))
    return Code(text=value.text) if value.is_code else value.text


def _source(place: str) -> str:
    """Where a fact stands."""
    return f"{_FILE}#{place}"
