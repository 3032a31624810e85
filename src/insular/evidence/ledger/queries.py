"""The questions a ledger answers, in SQL that SQLite and PostgreSQL both read."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, final

from insular.errors import LedgerError
from insular.evidence.ledger.amounts import Amount
from insular.evidence.ledger.results import Account, Release

FORMAT_VERSION = 1
"""Version of the tables and of the entries' text."""
Rows = Callable[[str, Mapping[str, Any]], Iterator[Sequence[Any]]]
"""Runs one query inside a transaction and yields its rows."""

_HEAD = (
    "SELECT format_version, ledger_id, n_entries, digest, last_time_utc, n_clock_behind "
    "FROM insular_ledger"
)
_ACCOUNTS = (
    "SELECT name, unit, relation, part, epsilon_cap, delta_cap, epsilon_spent, delta_spent, "
    "epsilon_reserved, delta_reserved, n_committed, n_reserved "
    "FROM insular_ledger_populations ORDER BY number"
)
_RELEASES = "SELECT name, population, state, epsilon, delta, since FROM insular_ledger_releases"
_ENTRIES = "SELECT number, digest, release, body FROM insular_ledger_entries"


@final
@dataclass(frozen=True, kw_only=True)
class Head:
    """The ledger's one row of facts about itself."""

    ledger_id: str
    """Identity drawn at creation."""
    n_entries: int
    """Entries, and the number of the last."""
    digest: str
    """Digest of the last entry."""
    last_time_utc: str
    """Time of the last entry, as in its text."""
    n_clock_behind: int
    """Entries whose machine's clock stood before the entry before."""


def read_head(rows: Rows, *, ledger: str) -> Head:
    """The head, if this version can read the ledger.

    Args:
        rows: Runs a query.
        ledger: What errors call the ledger.

    Returns:
        The head.

    Raises:
        LedgerError: If the head is missing or has another format version.
    """
    found = list(rows(_HEAD, {}))
    if len(found) != 1:
        raise LedgerError(
            f"{ledger}: the ledger's head must be one row, found {len(found)}; restore a copy."
        )
    version, *values = found[0]
    if version != FORMAT_VERSION:
        raise LedgerError(
            f"{ledger} has ledger format {version!r}, and this insular reads {FORMAT_VERSION}; use "
            "the version that wrote it, or a newer one."
        )
    names = ("ledger_id", "n_entries", "digest", "last_time_utc", "n_clock_behind")
    return Head(**dict(zip(names, values, strict=True)))


def read_accounts(rows: Rows) -> tuple[Account, ...]:
    """Every population's account, in order of declaration.

    Args:
        rows: Runs a query.

    Returns:
        The accounts.
    """
    return tuple(
        Account(
            name=name,
            unit=unit,
            relation=relation,
            partition=partition,
            cap=_amount(*amounts[:2]),
            spent=_amount(*amounts[2:4]),
            reserved=_amount(*amounts[4:6]),
            n_committed=amounts[6],
            n_reserved=amounts[7],
        )
        for name, unit, relation, partition, *amounts in rows(_ACCOUNTS, {})
    )


def read_release(rows: Rows, name: str) -> Release | None:
    """One release.

    Args:
        rows: Runs a query.
        name: Its name.

    Returns:
        The release, or None if there is none of that name.
    """
    return next((_release(row) for row in rows(f"{_RELEASES} WHERE name = :name", _at(name))), None)


def read_open(rows: Rows, *, limit: int) -> tuple[Release, ...]:
    """The releases that wait, oldest first.

    Args:
        rows: Runs a query.
        limit: Most of them.

    Returns:
        The releases.
    """
    query = f"{_RELEASES} WHERE state = 'reserved' ORDER BY since LIMIT :limit"
    return tuple(_release(row) for row in rows(query, {"limit": limit}))


def read_releases(rows: Rows) -> Iterator[Release]:
    """Every release.

    Args:
        rows: Runs a query.

    Yields:
        Them, in no order.
    """
    yield from (_release(row) for row in rows(_RELEASES, {}))


def read_entries(rows: Rows) -> Iterator[Sequence[Any]]:
    """Every entry by number, as stored.

    Args:
        rows: Runs a query.

    Yields:
        Number, digest, release and text.
    """
    yield from rows(f"{_ENTRIES} ORDER BY number", {})


def read_last(rows: Rows, *, limit: int, release: str = "") -> list[str]:
    """The texts of the last entries.

    Args:
        rows: Runs a query.
        limit: Most of them.
        release: Those of this release only; empty for all.

    Returns:
        Them, oldest first.
    """
    where = " WHERE release = :name" if release else ""
    query = f"{_ENTRIES}{where} ORDER BY number DESC LIMIT :limit"
    arguments = {"limit": limit, **(_at(release) if release else {})}
    return [row[3] for row in rows(query, arguments)][::-1]


def _at(name: str) -> dict[str, str]:
    """The argument of a query by name."""
    return {"name": name}


def _release(row: Sequence[Any]) -> Release:
    """A release from its row."""
    name, population, state, epsilon, delta, since = row
    charge = _amount(epsilon, delta)
    return Release(name=name, population=population, state=state, charge=charge, since=since)


def _amount(epsilon: str, delta: str) -> Amount:
    """An amount from its two columns."""
    try:
        return Amount(epsilon=Decimal(epsilon), delta=Decimal(delta))
    except (ArithmeticError, ValueError, TypeError):
        raise LedgerError(
            "a running total is not a decimal >= 0: it was changed outside the ledger."
        ) from None
