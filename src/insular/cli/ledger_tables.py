"""A ledger's status and history as plain columns; importing rich would double the answer's time."""

from collections.abc import Sequence

from insular.evidence.ledger.amounts import Amount, shown
from insular.evidence.ledger.results import Entry, LedgerStatus


def status_lines(status: LedgerStatus) -> list[str]:
    """Caps and totals, then the releases that wait.

    Args:
        status: What the ledger answered.

    Returns:
        Lines.
    """
    kinds = {(one.account.unit, one.account.relation) for one in status.populations}
    of = "".join(f", for one {unit} under {relation}" for unit, relation in sorted(kinds))
    lines = [f"{counted(status.n_entries, 'entry', 'entries')}{of}", ""]
    rows: list[Sequence[str]] = [("Population", "", "Cap", "Spent", "Reserved", "A unit's", "Left")]
    for one in status.populations:
        account = one.account
        name = account.name + (f" ({account.partition})" if account.partition else "")
        amounts = (account.cap, account.spent, account.reserved, one.exposure, one.left)
        rows.append((name, "epsilon", *(shown(amount.epsilon) for amount in amounts)))
        rows.append(("", "delta", *(shown(amount.delta) for amount in amounts)))
    lines += _columns(rows, right=range(2, 7))
    if status.n_open:
        waiting = [("Waits", "Population", "Reserved", "Entry")]
        waiting += [
            (one.name, one.population, _both(one.charge), str(one.since))
            for one in status.open_releases
        ]
        lines += ["", *_columns(waiting, right=(3,))]
        more = status.n_open - len(status.open_releases)
        if more:
            lines.append(f"and {counted(more, 'more that waits', 'more that wait')}")
    return [*lines, "", f"Head {status.head}"]


def history_lines(entries: Sequence[Entry]) -> list[str]:
    """Entries, one a line.

    Args:
        entries: What the ledger answered.

    Returns:
        Lines.
    """
    rows = [("Entry", "Time (UTC)", "Kind", "About", "Amount", "Note")]
    for entry in entries:
        amount = "" if entry.kind in ("create", "abort", "cover") else _both(entry.amount)
        time = entry.time_utc.strftime("%Y-%m-%d %H:%M:%S")
        behind = "*" if entry.clock_utc is not None else ""
        note = "" if entry.kind == "create" else entry.note
        about = entry.release or entry.population
        rows.append((str(entry.number), time + behind, entry.kind, about, amount, note))
    lines = _columns(rows, right=(0,))
    if any(entry.clock_utc is not None for entry in entries):
        lines.append("* the clock stood before the time of the last entry")
    return lines


def counted(n: int, one: str, many: str) -> str:
    """A number with its noun.

    Args:
        n: How many.
        one: The noun for 1.
        many: The noun otherwise.

    Returns:
        Such as ``1 entry``.
    """
    return f"{n} {one if n == 1 else many}"


def _columns(rows: Sequence[Sequence[str]], *, right: Sequence[int]) -> list[str]:
    """Rows set under each other."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _both(amount: Amount) -> str:
    """Epsilon and delta in one cell."""
    return f"({shown(amount.epsilon)}, {shown(amount.delta)})"
