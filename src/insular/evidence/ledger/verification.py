"""Every entry read again: is the chain whole, and do the running totals follow from it?"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, final

from insular.errors import LedgerError
from insular.evidence.ledger import chain, queries, rules
from insular.evidence.ledger.composition import overspend
from insular.evidence.ledger.queries import Head, Rows
from insular.evidence.ledger.results import Account, Entry, Release, Verification, plain

FAULTS_SHOWN = 20
"""Most faults that are listed; the first is what matters."""


def verified(rows: Rows, *, ledger: str, kept: tuple[int, str] | None) -> Verification:
    """Check a ledger from its first entry to its last.

    Guarantees:
        * An entry that was edited, deleted, added or moved is a fault, as is a head, a population
          or a release that does not follow from the entries.
        * With a kept head, so is a chain that was cut before it or written anew.

    Args:
        rows: Runs a query, inside one transaction.
        ledger: What the result calls the ledger.
        kept: Number and digest of a head that was kept elsewhere; None for none.

    Returns:
        The verdict.
    """
    head = queries.read_head(rows, ledger=ledger)
    replay = _Replay(kept)
    for row in queries.read_entries(rows):
        replay.take(row)
    try:
        accounts, releases = queries.read_accounts(rows), list(queries.read_releases(rows))
    except LedgerError as error:
        replay.faults.append(str(error))
    else:
        replay.compare(head, accounts, releases)
    return Verification(
        ledger=ledger,
        intact=not replay.faults,
        n_entries=replay.n_entries,
        head=chain.head_of(replay.number, replay.digest),
        checked_head="" if kept is None else chain.head_of(*kept),
        faults=tuple(replay.faults[:FAULTS_SHOWN]),
        n_clock_behind=replay.n_clock_behind,
    )


@final
class _Replay:
    """The ledger as its entries alone make it."""

    def __init__(self, kept: tuple[int, str] | None) -> None:
        self.faults: list[str] = []
        self.n_entries = 0
        self.number = 0
        self.digest = ""
        self.n_clock_behind = 0
        self._kept = kept
        self._kept_seen = False
        self._time: datetime | None = None
        self._ledger_id = ""
        self._accounts: dict[str, Account] = {}
        self._releases: dict[str, Release] = {}
        self._follows = True  # until an entry cannot be applied; then totals say nothing

    def take(self, row: Sequence[Any]) -> None:
        """Read one row."""
        number, digest, release, body = row
        self.n_entries += 1
        if number != self.number + 1:
            self.faults.append(f"entry {self.number + 1} is missing: entry {number} follows.")
        previous, self.number, self.digest = self.digest, number, digest
        try:
            if not isinstance(body, str) or not isinstance(digest, str):
                raise LedgerError("the text is not that of a ledger entry.")
            if chain.digest(body) != digest:
                raise LedgerError("its text is not what its digest was taken of.")
            entry = chain.read(body)
            self._place(entry, number=number, release=release, previous=previous)
            self._apply(entry)
        except LedgerError as error:
            self.faults.append(f"entry {number}: {error}")
            self._follows = False
        if self._kept is not None and self._kept[0] == number:
            self._kept_seen = self._kept[1] == digest

    def compare(self, head: Head, accounts: Sequence[Account], releases: Sequence[Release]) -> None:
        """Hold the stored head and totals against what the entries make."""
        if (head.n_entries, head.digest) != (self.number, self.digest):
            self.faults.append(
                f"the head names entry {head.n_entries}, but the entries end with {self.number}: "
                "entries were removed, added or changed at the end."
            )
        if self._kept is not None and not self._kept_seen:
            self.faults.append(
                f"the kept head, entry {self._kept[0]}, is not in this chain: it was cut short or "
                "written anew, or the head is of another ledger."
            )
        if not self._follows:
            return
        time = None if self._time is None else plain(self._time)
        facts = replace(
            head,
            ledger_id=self._ledger_id,
            last_time_utc=time or "",
            n_clock_behind=self.n_clock_behind,
        )
        if facts != head:
            self.faults.append("the head's identity, time or clock count is not the entries'.")
        for kind, stored, made in (
            ("population", {one.name: one for one in accounts}, self._accounts),
            ("release", {one.name: one for one in releases}, self._releases),
        ):
            self.faults += [
                f"{kind} {name}: its stored state is not what the entries make of it."
                for name in sorted(stored.keys() | made.keys())
                if stored.get(name) != made.get(name)
            ]

    def _place(self, entry: Entry, *, number: int, release: str, previous: str) -> None:
        """Check that an entry stands where it was written."""
        if entry.number != number or entry.release != release:
            raise LedgerError("it was moved: its text names another place.")
        if entry.previous != previous:
            raise LedgerError("it does not follow the entry before it.")
        if self._time is not None and entry.time_utc < self._time:
            raise LedgerError("its time is before that of the entry before it.")
        if (entry.kind == "create") != (number == 1):
            raise LedgerError("a ledger is created by its first entry, once.")
        self._time = entry.time_utc
        self.n_clock_behind += entry.clock_utc is not None

    def _apply(self, entry: Entry) -> None:
        """Apply an entry by the rules that it was written under."""
        if entry.kind == "create":
            self._ledger_id = entry.note
            return
        if entry.kind == "declare":
            if entry.population in self._accounts:
                raise LedgerError(f"population {entry.population} is declared twice.")
            first = next(iter(self._accounts.values()), None)
            self._accounts[entry.population] = rules.declared(entry, first)
        else:
            account = self._accounts.get(entry.population)
            if account is None:
                raise LedgerError(f"population {entry.population} was never declared.")
            found = self._releases.get(entry.release)
            if found is not None and found.population != entry.population:
                raise LedgerError(f"release {entry.release} is of another population.")
            account, after = rules.applied(entry, account, found)
            self._accounts[entry.population] = account
            self._releases[entry.release] = after
        if entry.kind in ("declare", "reserve", "extend"):
            why = overspend(tuple(self._accounts.values()), asked=entry.population)
            if why:
                raise LedgerError(f"it exceeds a cap: {why}.")
