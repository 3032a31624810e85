"""What a ledger answers, put together from its head and its accounts."""

from collections.abc import Sequence
from datetime import datetime

from insular.evidence.ledger import chain
from insular.evidence.ledger.appending import account_of
from insular.evidence.ledger.composition import exposure, left
from insular.evidence.ledger.queries import Head
from insular.evidence.ledger.results import (
    Account,
    Entry,
    LedgerStatus,
    PopulationStatus,
    Receipt,
    Release,
)


def receipt_of(entry: Entry, head: Head, accounts: Sequence[Account]) -> Receipt:
    """What a caller gets once an entry is on disk.

    Args:
        entry: The entry.
        head: The head that names it.
        accounts: All populations after it.

    Returns:
        The receipt.
    """
    account = account_of(accounts, entry.population)
    clock = entry.clock_utc
    return Receipt(
        entry=entry,
        head=chain.head_of(head.n_entries, head.digest),
        exposure=exposure(accounts, account),
        left=left(accounts, account),
        clock_behind_s=(entry.time_utc - clock).total_seconds() if clock else 0.0,
    )


def status_of(
    head: Head, accounts: Sequence[Account], *, waiting: tuple[Release, ...], ledger: str
) -> LedgerStatus:
    """Where every population stands.

    Args:
        head: The head.
        accounts: All populations.
        waiting: The first open releases.
        ledger: What people call the ledger.

    Returns:
        The status.
    """
    populations = tuple(
        PopulationStatus(
            account=account, exposure=exposure(accounts, account), left=left(accounts, account)
        )
        for account in accounts
    )
    return LedgerStatus(
        ledger=ledger,
        ledger_id=head.ledger_id,
        n_entries=head.n_entries,
        head=chain.head_of(head.n_entries, head.digest),
        last_entry_utc=datetime.fromisoformat(head.last_time_utc),
        n_clock_behind=head.n_clock_behind,
        populations=populations,
        n_open=sum(account.n_reserved for account in accounts),
        open_releases=waiting,
    )
