"""Reading a card of any version: an older one goes through one upgrade after the other."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from insular.errors import EvidenceError
from insular.evidence.card.card import SCHEMA_VERSION, ReleaseCard
from insular.evidence.codec import decode, parse_json

Upgrade = Callable[[dict[str, Any]], dict[str, Any]]
"""Turns the JSON of one version into that of the next. A fact that the old layout did not have
becomes null, never a guess."""

UPGRADES: Mapping[int, Upgrade] = {}
"""The upgrade from each older version, by that version. Version 1 is the first."""


def read_card(
    text: str | bytes,
    *,
    source: str = "card.json",
    upgrades: Mapping[int, Upgrade] = UPGRADES,
) -> ReleaseCard:
    """Read a card, of this version or an older one.

    Guarantees:
        * ``read_card(encode(card))`` is ``card``.
        * An unknown field, a wrong type and a contradiction are refused, in an older card too, once
          it is upgraded.
        * A newer version is refused as such, and not by its first unknown field.

    Args:
        text: JSON.
        source: What the error calls it, such as a file name.
        upgrades: The upgrade from each older version.

    Returns:
        The card.

    Raises:
        EvidenceError: With source, rule and remedy.
    """
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError:
            raise EvidenceError(f"{source} is not UTF-8 text.") from None
    content = parse_json(text, source=source)
    version = _version(content, source=source)
    if version == SCHEMA_VERSION:
        return decode(ReleaseCard, text, source=source)
    while version < SCHEMA_VERSION:
        if version not in upgrades:
            raise EvidenceError(f"{source} has card version {version}, which no insular reads.")
        content = _upgraded(content, upgrades[version], version=version, source=source)
        version += 1
    return decode(ReleaseCard, json.dumps(content), source=source)


def _version(content: Any, *, source: str) -> int:
    """The version that a card states."""
    version = content.get("schema_version") if isinstance(content, dict) else None
    if not isinstance(version, int) or isinstance(version, bool) or version < 0:
        raise EvidenceError(f"{source} is no release card: it has no schema_version.")
    if version > SCHEMA_VERSION:
        raise EvidenceError(
            f"{source} has card version {version}, and this insular reads up to {SCHEMA_VERSION}; "
            "update insular."
        )
    return version


def _upgraded(
    content: dict[str, Any], upgrade: Upgrade, *, version: int, source: str
) -> dict[str, Any]:
    """The next version; a card that its own upgrade cannot read is refused."""
    try:
        return {**upgrade(content), "schema_version": version + 1}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise EvidenceError(f"{source} is not a whole card of version {version}.") from None
