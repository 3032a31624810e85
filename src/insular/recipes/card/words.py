"""A release card as groups of names and values, the same for Markdown and for the page."""

import dataclasses
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, final

from insular.evidence.card import Claim, ReleaseCard
from insular.evidence.ledger.amounts import shown
from insular.recipes.budget._words import upper
from insular.reports import VerdictKind

if TYPE_CHECKING:
    from rich.console import RenderableType

KINDS: dict[Claim, VerdictKind] = {"holds": "good", "does not hold": "bad", "undecided": "open"}
NOT_STATED = "not stated"
_HEADINGS = {
    "basic": "What this is, and who answers for it",
    "released": "What left",
    "privacy_loss": "Privacy parameters and unit of privacy",
    "implementation": "Algorithm and correctness",
    "isolation": "Isolation of records",
    "utility": "Utility",
    "lower_bounds": "Lower bounds from attacks",
    "unprotected_quantities": "Outside the guarantee",
    "base_model": "Base model",
    "deployment_model": "Trust model, side channels, security, data collection",
    "ledger": "Budget ledger",
    "code": "Code",
    "evidence": "Made from",
}
_LABELS = {
    "sha256": "SHA-256",
    "evidence_sha256": "SHA-256 of the evidence",
    "size_bytes": "Size in bytes",
    "delta_times_units": "Delta over 1/n",
    "delta_times_units_squared": "Delta over 1/n^2",
    "noise_std": "Noise standard deviation",
    "before_nats": "Loss before, nats per token",
    "after_nats": "Loss after, nats per token",
    "largest_movement": "Largest movement, in C",
    "sensitivity_ratio": "Measured sensitivity, in C",
    "accepted": "Coupling accepted because",
}
_EMPTY = {
    "accepted": "nobody accepted a coupling",
    "code_revision": "installed package",
    "caveat": "none",
}
_BOUNDS = ("epsilon", "delta", "delta_times_units", "delta_times_units_squared")
"""Numbers that are rounded up."""
_CODE = ("sha256", "evidence_sha256", "file", "name", "head", "code_revision")


@final
@dataclass(frozen=True, kw_only=True)
class CardValue:
    """A value as it is shown."""

    text: str
    """In words."""
    place: str
    """JSON pointer in the card."""
    is_number: bool = False
    """Whether it is a number."""
    is_code: bool = False
    """Whether it is a name or a digest."""


@final
@dataclass(frozen=True, kw_only=True)
class CardTable:
    """Values that repeat."""

    caption: str
    """What they are."""
    columns: tuple[str, ...]
    """Heads."""
    rows: tuple[tuple[CardValue, ...], ...]
    """One for each."""
    place: str
    """JSON pointer in the card."""


@final
@dataclass(frozen=True, kw_only=True)
class CardGroup:
    """One heading of the card."""

    heading: str
    """Its heading."""
    place: str
    """JSON pointer in the card."""
    pairs: tuple[tuple[str, CardValue], ...] = ()
    """Names and values."""
    tables: tuple[CardTable, ...] = ()
    """What repeats."""
    points: tuple[str, ...] = ()
    """Statements."""
    absent: str = ""
    """Why there is nothing; empty where there is something."""


def first_word(card: ReleaseCard) -> str:
    """The answer in a word or a few, for the first line.

    Args:
        card: The card.

    Returns:
        What is wrong, if anything is; else the claim.
    """
    if card.warning:
        return card.warning
    if card.claim == "holds":
        return "Isolated" if card.basic.kind == "audit" else "Holds"
    return card.claim.capitalize()


def missing_sentence(card: ReleaseCard) -> str:
    """What nobody stated, by its names.

    Args:
        card: The card.

    Returns:
        One sentence.
    """
    if not card.missing:
        return "Nothing is missing."
    names = [_plain_words(path.rpartition(".")[2]) for path in card.missing]
    return f"Not stated: {', '.join(names)}."


def card_summary(card: ReleaseCard) -> "tuple[RenderableType, ...]":
    """What a terminal shows of a card.

    Args:
        card: The card.

    Returns:
        What a console prints.
    """
    from insular.reports import terminal

    lines = (card.headline, missing_sentence(card))
    return (terminal.verdict_panel(first_word(card), kind=KINDS[card.claim], lines=lines),)


def groups(card: ReleaseCard) -> tuple[CardGroup, ...]:
    """Every fact of the card under its heading, in the order of the card.

    Args:
        card: The card.

    Returns:
        The groups.
    """
    return tuple(_group(card, name) for name in _HEADINGS)


def label(name: str) -> str:
    """A field's name as people write it.

    Args:
        name: The field.

    Returns:
        Its words.
    """
    return _LABELS.get(name, _plain_words(name).capitalize())


def _plain_words(name: str) -> str:
    """A field's name without its underscores."""
    return name.removeprefix("n_").replace("_", " ")


def _group(card: ReleaseCard, name: str) -> CardGroup:
    """One group."""
    heading, value, place = _HEADINGS[name], getattr(card, name), f"/{name}"
    if value is None:
        return CardGroup(heading=heading, place=place, absent=_absent(card, name))
    if name == "unprotected_quantities":
        return CardGroup(heading=heading, place=place, points=value)
    if isinstance(value, tuple):
        if not value:
            return CardGroup(heading=heading, place=place, absent="nothing")
        return CardGroup(heading=heading, place=place, tables=(_table(value, "", place),))
    pairs, tables = [], []
    for field in dataclasses.fields(value):
        inner, at = getattr(value, field.name), f"{place}/{field.name}"
        if _is_rows(inner):
            tables.append(_table(inner, label(field.name), at))
        else:
            name = label(field.name)
            if field.name == "epsilon" and card.claim != "holds":
                name = "Epsilon, computed but not promised"
            pairs.append((name, _value(field.name, inner, at)))
    return CardGroup(heading=heading, place=place, pairs=tuple(pairs), tables=tuple(tables))


def _absent(card: ReleaseCard, name: str) -> str:
    """What to say of a group that is missing."""
    if card.basic.kind == "audit" and name in ("privacy_loss", "implementation", "ledger"):
        return f"{NOT_STATED}: an audit releases nothing and promises no epsilon"
    return {
        "lower_bounds": f"{NOT_STATED}: no attack on this release was run",
        "utility": f"{NOT_STATED}: not measured",
        "ledger": f"{NOT_STATED}: no ledger keeps this spending",
    }.get(name, NOT_STATED)


def _is_rows(value: Any) -> bool:
    """Whether a value is a list of facts with fields."""
    return isinstance(value, tuple) and bool(value) and dataclasses.is_dataclass(value[0])


def _table(rows: tuple[Any, ...], caption: str, place: str) -> CardTable:
    """Facts with the same fields."""
    names = [field.name for field in dataclasses.fields(rows[0])]
    return CardTable(
        caption=caption,
        columns=tuple(map(label, names)),
        rows=tuple(
            tuple(_value(name, getattr(row, name), f"{place}/{i}/{name}") for name in names)
            for i, row in enumerate(rows)
        ),
        place=place,
    )


def _value(name: str, value: Any, place: str) -> CardValue:
    """One value in words."""
    number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    text = _words(name, value)
    code = name in _CODE and bool(value)
    return CardValue(text=text, place=place, is_number=number, is_code=code)


def _words(name: str, value: Any) -> str:
    """What stands for a value."""
    match value:
        case None:
            return NOT_STATED
        case "":
            return _EMPTY.get(name, "none")
        case bool():
            return "yes" if value else "no"
        case float() if name in _BOUNDS:
            return upper(value)
        case float():
            return f"{value:.6g}"
        case Decimal():
            return shown(value)
        case datetime():
            return value.strftime("%Y-%m-%d %H:%M:%S UTC")
        case dict():
            return ", ".join(f"{key} {_words(key, item)}" for key, item in value.items()) or "none"
        case tuple():
            return ", ".join(_words(name, item) for item in value) or "none"
    return str(value)
