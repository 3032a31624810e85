"""Reserve before a run, commit what it spent, ask what is left."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, final

from insular import _check
from insular.errors import InvalidArgumentError
from insular.evidence.ledger import chain, queries
from insular.evidence.ledger.amounts import ZERO, Amount
from insular.evidence.ledger.answers import receipt_of, status_of
from insular.evidence.ledger.appending import next_entry
from insular.evidence.ledger.changes import change, create, declare
from insular.evidence.ledger.names import check_artifacts, check_name, check_note
from insular.evidence.ledger.places import place_of
from insular.evidence.ledger.reading import reading
from insular.evidence.ledger.results import (
    Entry,
    Kind,
    LedgerStatus,
    Receipt,
    Verification,
)
from insular.evidence.ledger.verification import verified

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from insular.accounting import Relation, Unit
    from insular.evidence.ledger.writing import Writer

UNITS = ("record", "owner")
RELATIONS = ("add_or_remove_one", "replace_one")
OPEN_SHOWN = 20
"""Most open releases that ``status`` lists."""


def utc_now() -> datetime:
    """The machine's clock.

    Returns:
        The time, in UTC.
    """
    return datetime.now(UTC)


@final
class Ledger:
    """A budget ledger in a SQLite file or a PostgreSQL database.

    Guarantees:
        * No cap is ever exceeded, by reserved and spent charges together, whatever processes do
          at the same time and wherever they are killed.
        * What a method returned is on disk. What raised changed nothing, except where the message
          says that a connection broke.
        * A run that crashes stays reserved until someone commits or aborts it.
        * ``status``, ``history`` and ``verify`` change nothing.
        * A spend and ``status`` cost the same whatever the number of entries.
        * Times never decrease: an entry written under a clock that was set back takes the time of
          the entry before, keeps the clock's reading, and the receipt says so.
    """

    def __init__(
        self,
        where: str | Path,
        *,
        wait_s: float = 30.0,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        """Name a ledger; nothing is opened yet.

        Args:
            where: Path of a file, or ``postgresql://USER@HOST/DATABASE``.
            wait_s: Seconds to wait for other processes before giving up.
            clock: Tells the time, in UTC.
        """
        _check.positive_finite(wait_s=wait_s)
        self._place = place_of(where)
        self._wait_s = wait_s
        self._clock = clock

    def declare(
        self,
        population: str,
        *,
        unit: "Unit",
        relation: "Relation",
        cap: Amount,
        partition: str = "",
        note: str = "",
    ) -> Receipt:
        """Declare a population and its cap; the first makes the ledger.

        Args:
            population: Its name.
            unit: What one protected unit is; the same for all populations of a ledger.
            relation: Neighbouring relation; the same for all populations of a ledger.
            cap: The most that any of its units may be charged.
            partition: Populations of one partition are declared to share no unit. Empty: it may
                share units with every other population.
            note: A remark, kept in the entry.

        Returns:
            What was written.

        Raises:
            LedgerError: If the name is taken, or unit or relation are not the ledger's.
            BudgetExceededError: If earlier releases already charge its units more than the cap.
        """
        check_name(population=population)
        _check.one_of(UNITS, unit=unit)
        _check.one_of(RELATIONS, relation=relation)
        if partition:
            check_name(partition=partition)
        check_note(note=note)
        with self._writing(create=True) as writer:
            if not writer.has_tables(ledger=self._place.shown):
                create(writer, now=self._clock())
            head = queries.read_head(writer.rows, ledger=self._place.shown)
            draft = next_entry(head, "declare", now=self._clock(), population=population)
            entry = replace(
                draft, amount=cap, unit=unit, relation=relation, partition=partition, note=note
            )
            written = declare(writer, head, entry)
        return receipt_of(*written)

    def reserve(self, release: str, *, population: str, amount: Amount, note: str = "") -> Receipt:
        """Set budget aside before a run starts.

        Args:
            release: A name for what the run will release, unique in the ledger.
            population: Whose units the run reads.
            amount: The most that it will spend, for the ledger's unit and relation.
            note: A remark, kept in the entry.

        Returns:
            What was written.

        Raises:
            BudgetExceededError: If a cap would be exceeded; it says by how much.
            LedgerError: If the population is unknown or the release is already in the ledger.
        """
        check_name(population=population)
        return self._change("reserve", release, population=population, amount=amount, note=note)

    def extend(self, release: str, *, amount: Amount, note: str = "") -> Receipt:
        """Reserve more for a release that is reserved already.

        Args:
            release: Its name.
            amount: What to add.
            note: A remark, kept in the entry.

        Returns:
            What was written.

        Raises:
            BudgetExceededError: If a cap would be exceeded; it says by how much.
            LedgerError: If the release is not reserved.
        """
        return self._change("extend", release, amount=amount, note=note)

    def commit(
        self, release: str, *, amount: Amount, artifacts: Sequence[str] = (), note: str = ""
    ) -> Receipt:
        """State what a run really spent; the rest of its reservation is free again.

        Artifacts that come from one accounted transcript (checkpoints of one run) belong to one
        commit: together they cost what the transcript cost.

        Args:
            release: Its name.
            amount: What it spent, at most what is reserved.
            artifacts: SHA-256 of each artifact that this pays for.
            note: A remark, kept in the entry.

        Returns:
            What was written.

        Raises:
            LedgerError: If the release is not reserved, or spent more than that.
        """
        return self._change("commit", release, amount=amount, artifacts=artifacts, note=note)

    def cover(self, release: str, *, artifacts: Sequence[str], note: str = "") -> Receipt:
        """Name more artifacts of a committed transcript, at no cost.

        Args:
            release: Its name.
            artifacts: SHA-256 of each; computed from the accounted output alone.
            note: A remark, kept in the entry.

        Returns:
            What was written.

        Raises:
            LedgerError: If the release is not committed.
        """
        return self._change("cover", release, artifacts=artifacts, note=note)

    def abort(self, release: str, *, reason: str) -> Receipt:
        """Free a reservation, because nothing that the run computed was seen by anyone.

        Args:
            release: Its name.
            reason: Why that is so; kept in the entry.

        Returns:
            What was written.

        Raises:
            InvalidArgumentError: If there is no reason.
            LedgerError: If the release is not reserved.
        """
        if not reason.strip():
            raise InvalidArgumentError(
                "reason must say why nobody saw anything that the run computed, got none."
            )
        return self._change("abort", release, note=reason)

    def status(self) -> LedgerStatus:
        """Where every population stands.

        Returns:
            Caps, totals, what is left, and what waits.
        """
        with reading(self._place, wait_s=self._wait_s) as rows:
            head = queries.read_head(rows, ledger=self._place.shown)
            accounts = queries.read_accounts(rows)
            waiting = queries.read_open(rows, limit=OPEN_SHOWN)
        return status_of(head, accounts, waiting=waiting, ledger=self._place.shown)

    def history(self, *, last: int = 20, release: str = "") -> tuple[Entry, ...]:
        """The last entries.

        Args:
            last: Most of them.
            release: Only those of this release; empty for all.

        Returns:
            Them, oldest first.
        """
        _check.at_least(1, last=last)
        with reading(self._place, wait_s=self._wait_s) as rows:
            queries.read_head(rows, ledger=self._place.shown)
            return tuple(map(chain.read, queries.read_last(rows, limit=last, release=release)))

    def verify(self, *, head: str = "") -> Verification:
        """Read every entry and find any that was edited, deleted, added or moved.

        Args:
            head: A head that was kept elsewhere, as ``status`` gave it. Without one, a chain that
                was cut short or written anew as a whole cannot be told from a true one.

        Returns:
            The verdict.
        """
        kept = chain.read_head_text(head) if head else None
        with reading(self._place, wait_s=self._wait_s) as rows:
            return verified(rows, ledger=self._place.shown, kept=kept)

    def _change(
        self,
        kind: Kind,
        release: str,
        *,
        population: str = "",
        amount: Amount = ZERO,
        artifacts: Sequence[str] = (),
        note: str = "",
    ) -> Receipt:
        """Append one entry about a release, or refuse it."""
        check_name(release=release)
        check_note(note=note)
        digests = check_artifacts(artifacts, needed=kind == "cover")
        with self._writing() as writer:
            head = queries.read_head(writer.rows, ledger=self._place.shown)
            draft = next_entry(head, kind, now=self._clock(), population=population)
            written = change(
                writer,
                head,
                replace(draft, release=release, amount=amount, artifacts=digests, note=note),
            )
        return receipt_of(*written)

    def _writing(self, *, create: bool = False) -> "AbstractContextManager[Writer]":
        """A transaction."""
        from insular.evidence.ledger.writing import writing

        return writing(self._place, wait_s=self._wait_s, create=create)
