"""Entries as canonical text, each hashed with the hash of the one before."""

import json
import re
from dataclasses import fields
from datetime import datetime
from hashlib import sha256
from typing import Any, get_args

from insular.errors import InvalidArgumentError, LedgerError
from insular.evidence.ledger.amounts import Amount, exact
from insular.evidence.ledger.results import Entry, Kind, plain

_FIELDS = [field.name for field in fields(Entry)]
_NOT_AN_ENTRY = "the text is not that of a ledger entry."
_HEAD = re.compile(r"([1-9][0-9]{0,17}):([0-9a-f]{64})", re.ASCII)


def written(entry: Entry) -> str:
    """An entry as the text that is stored and hashed.

    Args:
        entry: The entry.

    Returns:
        One line of ASCII JSON with its keys in order, so equal entries are equal text.
    """
    return json.dumps(plain(entry), separators=(",", ":"), ensure_ascii=True)


def digest(body: str) -> str:
    """The SHA-256 of an entry's text, which holds the digest of the entry before.

    Args:
        body: What ``written`` returned.

    Returns:
        64 hexadecimal digits.
    """
    return sha256(body.encode("utf-8", "surrogatepass")).hexdigest()


def read(body: str) -> Entry:
    """Read an entry from its text.

    Guarantees:
        * Only text that ``written`` makes is read: ``written(read(body)) == body``.

    Args:
        body: The text.

    Returns:
        The entry.

    Raises:
        LedgerError: If the text is not that of an entry.
    """
    try:
        found: dict[str, Any] = json.loads(body)
        if list(found) != _FIELDS or found["kind"] not in get_args(Kind):
            raise LedgerError(_NOT_AN_ENTRY)
        amount, clock = found["amount"], found["clock_utc"]
        entry = Entry(
            **{
                **found,
                "time_utc": datetime.fromisoformat(found["time_utc"]),
                "clock_utc": None if clock is None else datetime.fromisoformat(clock),
                "amount": Amount(
                    epsilon=exact("epsilon", amount["epsilon"]),
                    delta=exact("delta", amount["delta"]),
                ),
                "artifacts": tuple(found["artifacts"]),
            }
        )
        if written(entry) != body:
            raise LedgerError(_NOT_AN_ENTRY)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise LedgerError(_NOT_AN_ENTRY) from None
    return entry


def head_of(number: int, of_digest: str) -> str:
    """A head as people keep it.

    Args:
        number: Number of the entry.
        of_digest: Its digest.

    Returns:
        ``NUMBER:SHA256``.
    """
    return f"{number}:{of_digest}"


def read_head_text(text: str) -> tuple[int, str]:
    """Read a head that someone kept.

    Args:
        text: ``NUMBER:SHA256``.

    Returns:
        Both.

    Raises:
        InvalidArgumentError: If it has another form.
    """
    found = _HEAD.fullmatch(text.strip())
    if found is None:
        raise InvalidArgumentError(
            "head must be NUMBER:SHA256, as `insular ledger status` prints it."
        )
    return int(found[1]), found[2]
