"""Where a ledger lies: a file, or a PostgreSQL server."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import final

from insular.errors import InvalidArgumentError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_PASSWORD = re.compile(r"(://[^:/@]*):.*@")


@final
@dataclass(frozen=True, kw_only=True)
class Place:
    """A ledger's file or address; exactly one of the two is set."""

    file: Path | None
    """SQLite file."""
    url: str
    """SQLAlchemy address of a PostgreSQL database; empty for a file."""
    shown: str
    """What messages call it; holds no password."""


def place_of(text: str | Path) -> Place:
    """Read a path or an address.

    Args:
        text: A path, or ``postgresql://USER@HOST/DATABASE``.

    Returns:
        The place. Nothing is opened.

    Raises:
        InvalidArgumentError: If it is empty or an address of another kind.
    """
    text = str(text)
    scheme = _SCHEME.match(text)
    if scheme is None:
        if not text.strip() or "\0" in text:
            raise InvalidArgumentError(
                "ledger must be the path of a file, or postgresql://USER@HOST/DATABASE."
            )
        return Place(file=Path(text), url="", shown=text)
    if scheme[1] not in ("postgresql", "postgres", "postgresql+psycopg"):
        raise InvalidArgumentError(
            f"ledger must be the path of a file, or postgresql://USER@HOST/DATABASE, got "
            f"{scheme[1]}://."
        )
    rest = text[scheme.end() :]
    shown = _PASSWORD.sub(r"\1:***@", f"postgresql://{rest}").partition("?")[0]
    return Place(file=None, url=f"postgresql+psycopg://{rest}", shown=shown)
