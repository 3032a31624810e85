"""What each kind of entry changes, and when it is refused; live and verified entries share it."""

from dataclasses import replace

from insular.errors import LedgerError
from insular.evidence.ledger.amounts import ZERO
from insular.evidence.ledger.results import Account, Entry, Release


def declared(entry: Entry, first: Account | None) -> Account:
    """The account that a ``declare`` entry opens.

    Args:
        entry: The entry.
        first: The ledger's first account, with which unit and relation must agree; None if this
            is the first.

    Returns:
        An account without charges.

    Raises:
        LedgerError: If unit or relation differ, or a partition is declared under ``replace_one``.
    """
    if entry.unit is None or entry.relation is None:
        raise LedgerError(f"population {entry.population} states no unit or no relation.")
    if first is not None and (first.unit, first.relation) != (entry.unit, entry.relation):
        raise LedgerError(
            f"this ledger protects one {first.unit} under {first.relation}; a charge for one "
            f"{entry.unit} under {entry.relation} does not add to it. Use another ledger."
        )
    if entry.partition and entry.relation != "add_or_remove_one":
        raise LedgerError(
            "a partition needs relation add_or_remove_one: a replaced unit may move from one "
            "population to another, and then both spends count. Leave the partition out."
        )
    return Account(
        name=entry.population,
        unit=entry.unit,
        relation=entry.relation,
        partition=entry.partition,
        cap=entry.amount,
        spent=ZERO,
        reserved=ZERO,
        n_committed=0,
        n_reserved=0,
    )


def applied(entry: Entry, account: Account, release: Release | None) -> tuple[Account, Release]:
    """An account and a release after one entry.

    Guarantees:
        * A commit never spends more than was reserved.
        * Only a reserved release is extended, committed or aborted, so each once.
        * ``cover`` charges nothing: its artifacts come from a transcript already paid for.

    Args:
        entry: Any kind but ``create`` and ``declare``.
        account: The account of its population.
        release: The release that it names, as it stands; None if there is none.

    Returns:
        Both, changed.

    Raises:
        LedgerError: If the release's state does not allow the entry.
    """
    if entry.kind == "reserve":
        return _reserve(entry, account, release)
    if release is None:
        raise LedgerError(f"release {entry.release} was never reserved.")
    wanted = "committed" if entry.kind == "cover" else "reserved"
    if release.state != wanted:
        raise LedgerError(
            f"release {release.name} is {release.state}; only a {wanted} one can be changed so."
        )
    if entry.kind == "extend":
        grown = replace(release, charge=release.charge.plus(entry.amount))
        return replace(account, reserved=account.reserved.plus(entry.amount)), grown
    if entry.kind == "cover":
        return account, release
    freed = replace(
        account,
        reserved=account.reserved.minus(release.charge),
        n_reserved=account.n_reserved - 1,
    )
    if entry.kind == "abort":
        return freed, replace(release, state="aborted", charge=ZERO)
    if not release.charge.covers(entry.amount):
        raise LedgerError(
            f"release {release.name} spent {entry.amount} but reserved {release.charge}; extend "
            "its reservation first, and let nothing out until that is granted."
        )
    paid = replace(freed, spent=freed.spent.plus(entry.amount), n_committed=freed.n_committed + 1)
    return paid, replace(release, state="committed", charge=entry.amount)


def _reserve(entry: Entry, account: Account, release: Release | None) -> tuple[Account, Release]:
    """A new reservation."""
    if release is not None:
        raise LedgerError(
            f"release {release.name} is already in the ledger ({release.state}, entry "
            f"{release.since}); choose another name."
        )
    booked = replace(
        account,
        reserved=account.reserved.plus(entry.amount),
        n_reserved=account.n_reserved + 1,
    )
    new = Release(
        name=entry.release,
        population=entry.population,
        state="reserved",
        charge=entry.amount,
        since=entry.number,
    )
    return booked, new
