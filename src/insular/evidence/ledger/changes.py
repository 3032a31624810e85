"""What happens inside a writer's transaction: look, decide by the rules, write or refuse."""

import secrets
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from insular.errors import BudgetExceededError, LedgerError
from insular.evidence.ledger import queries, rules
from insular.evidence.ledger.appending import account_of, append, next_entry
from insular.evidence.ledger.composition import overspend
from insular.evidence.ledger.queries import Head
from insular.evidence.ledger.results import Account, Entry

if TYPE_CHECKING:
    from insular.evidence.ledger.writing import Writer

Written = tuple[Entry, Head, tuple[Account, ...]]
"""An entry, the head that names it and all populations after it."""


def create(writer: "Writer", *, now: datetime) -> None:
    """Make the tables and the first entry.

    Args:
        writer: The open transaction, on an empty database.
        now: What the machine's clock says.
    """
    ledger_id = secrets.token_hex(16)
    empty = Head(ledger_id=ledger_id, n_entries=0, digest="", last_time_utc="", n_clock_behind=0)
    writer.make_tables(empty)
    first = next_entry(empty, "create", now=now, population="")
    append(writer, empty, replace(first, note=ledger_id))


def declare(writer: "Writer", head: Head, entry: Entry) -> Written:
    """Open a population's account.

    Args:
        writer: The open transaction.
        head: The head.
        entry: The entry to write.

    Returns:
        What was written.

    Raises:
        LedgerError: If the population is declared already, or the rules refuse it.
        BudgetExceededError: If its units are already charged more than its cap.
    """
    accounts = queries.read_accounts(writer.rows)
    if any(account.name == entry.population for account in accounts):
        raise LedgerError(f"population {entry.population} is already declared.")
    account = rules.declared(entry, accounts[0] if accounts else None)
    accounts = (*accounts, account)
    _refuse_overspend(accounts, asked=account.name)
    writer.open_account(account, number=entry.number)
    return entry, append(writer, head, entry), accounts


def change(writer: "Writer", head: Head, entry: Entry) -> Written:
    """Reserve, extend, commit, cover or abort a release.

    Args:
        writer: The open transaction.
        head: The head.
        entry: The entry to write; without a population, the release's own is filled in.

    Returns:
        What was written.

    Raises:
        LedgerError: If the population or the release is unknown, or the rules refuse the entry.
        BudgetExceededError: If a cap would be exceeded.
    """
    accounts = queries.read_accounts(writer.rows)
    before = queries.read_release(writer.rows, entry.release)
    if before is None and entry.kind != "reserve":
        raise LedgerError(f"release {entry.release} was never reserved.")
    if before is not None and not entry.population:
        entry = replace(entry, population=before.population)
    account, after = rules.applied(entry, account_of(accounts, entry.population), before)
    accounts = tuple(account if one.name == account.name else one for one in accounts)
    if entry.kind in ("reserve", "extend"):
        _refuse_overspend(accounts, asked=account.name)
    writer.change_account(account)
    writer.put_release(after, new=before is None)
    return entry, append(writer, head, entry), accounts


def _refuse_overspend(accounts: Sequence[Account], *, asked: str) -> None:
    """Raise if these accounts exceed a cap."""
    why = overspend(accounts, asked=asked)
    if why:
        raise BudgetExceededError(f"refused: {why}. Nothing was written.")
