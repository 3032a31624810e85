"""What a ledger holds and what it answers; amounts are exact decimals, times are UTC."""

import dataclasses
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, final

from insular.evidence.ledger.amounts import Amount

if TYPE_CHECKING:
    from insular.accounting import Relation, Unit

Kind = Literal["create", "declare", "reserve", "extend", "commit", "cover", "abort"]
"""What an entry does."""
State = Literal["reserved", "committed", "aborted"]
"""Where a release stands."""


@final
@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of the ledger; nothing of it ever changes."""

    number: int
    """1, 2, 3, ... without a gap."""
    previous: str
    """SHA-256 of the entry before; empty for the first."""
    time_utc: datetime
    """When it was written; never before the time of the entry before."""
    clock_utc: datetime | None
    """What the machine's clock said, where that was earlier than ``time_utc``."""
    kind: Kind
    """What it does."""
    population: str
    """Whose budget; empty for ``create``."""
    release: str
    """Which release; empty for ``create`` and ``declare``."""
    amount: Amount
    """The cap, what was reserved or added to it, or what was spent; else nothing."""
    unit: "Unit | None"
    """Protected unit, for ``declare``."""
    relation: "Relation | None"
    """Neighbouring relation, for ``declare``."""
    partition: str
    """The set of disjoint populations that it belongs to, for ``declare``; empty for none."""
    artifacts: tuple[str, ...]
    """SHA-256 of each artifact that the release covers, for ``commit`` and ``cover``."""
    note: str
    """A person's remark, or the ledger's identity for ``create``."""


@final
@dataclass(frozen=True, kw_only=True)
class Account:
    """A population's cap and running totals."""

    name: str
    """Name of the population."""
    unit: "Unit"
    """What one protected unit is."""
    relation: "Relation"
    """Neighbouring relation that every charge is stated for."""
    partition: str
    """Populations of one partition share no unit; empty: may share units with any other."""
    cap: Amount
    """The most that any of its units may be charged."""
    spent: Amount
    """Sum of committed charges."""
    reserved: Amount
    """Sum of charges that were reserved and neither committed nor aborted."""
    n_committed: int
    """Committed releases."""
    n_reserved: int
    """Releases that wait to be committed or aborted."""

    @property
    def charged(self) -> Amount:
        """Spent and reserved together."""
        return self.spent.plus(self.reserved)


@final
@dataclass(frozen=True, kw_only=True)
class Release:
    """A release and what it is charged now."""

    name: str
    """Its name, unique in the ledger."""
    population: str
    """Whose budget it is charged to."""
    state: State
    """Where it stands."""
    charge: Amount
    """What is reserved or spent for it; nothing once aborted."""
    since: int
    """Number of the entry that reserved it."""


@final
@dataclass(frozen=True, kw_only=True)
class PopulationStatus:
    """A population's account, and what its units are charged in all."""

    account: Account
    """Cap and running totals."""
    exposure: Amount
    """The most that one of its units is charged, over all populations that may hold it."""
    left: Amount
    """The most that can be reserved for it now."""


@final
@dataclass(frozen=True, kw_only=True)
class LedgerStatus:
    """Where a ledger stands. ``head`` is worth keeping elsewhere: ``verify`` checks against it."""

    ledger: str
    """Path, or address without its password."""
    ledger_id: str
    """Identity drawn at creation."""
    n_entries: int
    """Entries."""
    head: str
    """Number and SHA-256 of the last entry, as ``NUMBER:SHA256``."""
    last_entry_utc: datetime
    """Time of the last entry."""
    n_clock_behind: int
    """Entries written while a clock stood before the last entry's time."""
    populations: tuple[PopulationStatus, ...]
    """In order of declaration."""
    n_open: int
    """Releases that wait to be committed or aborted."""
    open_releases: tuple[Release, ...]
    """The first of them, oldest first."""


@final
@dataclass(frozen=True, kw_only=True)
class Receipt:
    """An entry that is on disk."""

    entry: Entry
    """What was written."""
    head: str
    """Its number and SHA-256, as ``NUMBER:SHA256``."""
    exposure: Amount
    """The most that one unit of the population is charged, after the entry."""
    left: Amount
    """The most that can still be reserved for the population."""
    clock_behind_s: float
    """Seconds by which this machine's clock stood before the entry before; 0 if it did not."""


@final
@dataclass(frozen=True, kw_only=True)
class Verification:
    """Whether a ledger is as it was written."""

    ledger: str
    """Path, or address without its password."""
    intact: bool
    """True if there is no fault."""
    n_entries: int
    """Entries read."""
    head: str
    """Number and SHA-256 of the last entry read, as ``NUMBER:SHA256``."""
    checked_head: str
    """The head kept elsewhere that was looked for; empty for none."""
    faults: tuple[str, ...]
    """The first faults, one line each."""
    n_clock_behind: int
    """Entries written while a clock stood before the last entry's time. Not a fault."""


def as_json(result: Any) -> str:
    """A result of this file as JSON: amounts are decimal text, times end in ``Z``.

    Args:
        result: A dataclass of this file.

    Returns:
        Indented text with a newline at the end.
    """
    return json.dumps(plain(result), indent=2) + "\n"


def plain(value: Any) -> Any:
    """The same content as dictionaries, lists and scalars.

    Args:
        value: A dataclass of this file, or a field's value.

    Returns:
        What ``json.dumps`` writes without losing a digit.
    """
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    return value
