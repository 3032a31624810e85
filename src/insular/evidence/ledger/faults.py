"""What a driver reports, as one clear line that says what to do."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from insular.errors import LedgerError, LedgerUnavailableError

_NOTHING = " Nothing was written."
_INIT = "`insular ledger init` makes one"
_LOCKED = f"another process holds it.{_NOTHING} Try again."
_READ_ONLY = f"it is read-only.{_NOTHING} Make it writable for this user."
_FULL = f"the disk is full.{_NOTHING} Free some space and try again."
_SQLITE = {
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_READONLY: _READ_ONLY,
    sqlite3.SQLITE_PERM: _READ_ONLY,
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_IOERR: f"the disk is full or fails.{_NOTHING} Free some space and try again.",
    sqlite3.SQLITE_CANTOPEN: "it, or the journal beside it, cannot be opened. Check the path and "
    "that its folder is writable.",
    sqlite3.SQLITE_NOTADB: f"it is not a SQLite file. Choose another path; {_INIT}.",
    sqlite3.SQLITE_CORRUPT: "its SQLite file is damaged. Restore a copy, and verify it.",
}
_POSTGRESQL = {
    "25006": _READ_ONLY,
    "42501": f"this user may not do that.{_NOTHING} Grant it the right.",
    "40001": _LOCKED,
    "40P01": _LOCKED,
    "53100": _FULL,
    "55P03": _LOCKED,
    "57014": _LOCKED,
}
_NO_TABLE = f"there is no ledger in it; {_INIT}."
_OTHER_TABLES = "its tables are not those of this version's ledger; `insular ledger verify` a copy."


@contextmanager
def one_line(ledger: str) -> Iterator[None]:
    """Turn an error of either driver into one clear line.

    Args:
        ledger: What the line calls the ledger: a path, or an address without its password.

    Yields:
        Nothing.

    Raises:
        LedgerUnavailableError: If the database is locked, read-only, full, damaged or out of reach.
        LedgerError: If it holds no ledger, or other tables.
    """
    try:
        yield
    except Exception as error:
        original = getattr(error, "orig", error)  # SQLAlchemy wraps what the driver raised
        if original is error and not isinstance(error, sqlite3.Error):
            raise
        line, missing = _explained(original)
        kind = LedgerError if missing else LedgerUnavailableError
        raise kind(f"cannot use ledger {ledger}: {line}") from error


def _explained(error: Exception) -> tuple[str, bool]:
    """Reason and remedy, and whether the reason is that there are no such tables."""
    if isinstance(error, sqlite3.Error):
        text = str(error)
        code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
        known = _SQLITE.get(code)
        missing, other = "no such table" in text, "no such column" in text
    else:
        state = getattr(error, "sqlstate", None)
        known = _POSTGRESQL.get(state or "")
        missing, other = state in ("42P01", "3F000"), state == "42703"
        # without a state the connection itself failed, perhaps after the server had committed
        if state is None or state.startswith(("08", "57P")):
            known = f"{_first_line(error)}. `insular ledger history` tells whether it was written."
    if missing or other:
        return (_NO_TABLE if missing else _OTHER_TABLES), True
    return known or f"{_first_line(error)}.{_NOTHING}", False


def _first_line(error: Exception) -> str:
    """The start of a driver's message, without its detail lines."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].strip().rstrip(".")[:200]
