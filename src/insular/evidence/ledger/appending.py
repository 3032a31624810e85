"""The steps that every entry goes through, from its time to its row."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from insular.errors import LedgerError
from insular.evidence.ledger import chain
from insular.evidence.ledger.amounts import ZERO
from insular.evidence.ledger.queries import Head
from insular.evidence.ledger.results import Account, Entry, Kind, plain

if TYPE_CHECKING:
    from insular.evidence.ledger.writing import Writer


def next_entry(head: Head, kind: Kind, *, now: datetime, population: str) -> Entry:
    """An entry that follows the last one, without content yet.

    Guarantees:
        * Its time is not before that of the last entry, whatever the clock says.

    Args:
        head: The head.
        kind: What the entry will do.
        now: What the machine's clock says.
        population: Whose budget.

    Returns:
        The draft.
    """
    now = now.astimezone(UTC)
    last = datetime.fromisoformat(head.last_time_utc) if head.n_entries else now
    return Entry(
        number=head.n_entries + 1,
        previous=head.digest,
        time_utc=max(now, last),
        clock_utc=now if now < last else None,
        kind=kind,
        population=population,
        release="",
        amount=ZERO,
        unit=None,
        relation=None,
        partition="",
        artifacts=(),
        note="",
    )


def append(writer: "Writer", head: Head, entry: Entry) -> Head:
    """Write an entry and the head that names it.

    Args:
        writer: The open transaction.
        head: The head before.
        entry: The entry.

    Returns:
        The new head.
    """
    body = chain.written(entry)
    after = replace(
        head,
        n_entries=entry.number,
        digest=chain.digest(body),
        last_time_utc=plain(entry.time_utc),
        n_clock_behind=head.n_clock_behind + (entry.clock_utc is not None),
    )
    writer.append(after, release=entry.release, body=body)
    return after


def account_of(accounts: Sequence[Account], name: str) -> Account:
    """The account of a population.

    Args:
        accounts: All populations.
        name: The one.

    Returns:
        Its account.

    Raises:
        LedgerError: If it was not declared.
    """
    for account in accounts:
        if account.name == name:
            return account
    known = ", ".join(account.name for account in accounts)
    raise LedgerError(f"population {name} is unknown; this ledger has {known}.")
