"""Reading a ledger: one consistent moment of it, and no change to it."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from insular.errors import LedgerError
from insular.evidence.ledger.faults import one_line
from insular.evidence.ledger.places import Place
from insular.evidence.ledger.queries import Rows


def connect_sqlite(file: Path, *, wait_s: float, create: bool = False) -> sqlite3.Connection:
    """Open a SQLite file without starting a transaction.

    Args:
        file: The file.
        wait_s: Seconds to wait for other processes.
        create: Make the file if it is not there.

    Returns:
        The connection; it commits nothing by itself.

    Raises:
        LedgerError: If there is no file.
    """
    if not create and not file.exists():
        raise LedgerError(f"there is no ledger at {file}; `insular ledger init` makes one.")
    address = f"{file.absolute().as_uri()}?mode={'rwc' if create else 'rw'}"
    return sqlite3.connect(address, uri=True, timeout=wait_s, isolation_level=None)


@contextmanager
def reading(place: Place, *, wait_s: float) -> Iterator[Rows]:
    """Ask a ledger, inside one read-only transaction.

    A SQLite file is asked through the standard library, because importing SQLAlchemy takes longer
    than the answer.

    Guarantees:
        * All rows come from one moment, whatever others write meanwhile.
        * The database refuses a change. (SQLite still undoes what a killed writer left half done.)

    Args:
        place: The ledger.
        wait_s: Seconds to wait for other processes.

    Yields:
        What runs a query.
    """
    if place.file is None:
        from insular.evidence.ledger.writing import postgresql_rows

        with one_line(place.shown), postgresql_rows(place, wait_s=wait_s) as rows:
            yield rows
        return
    with (
        one_line(place.shown),
        closing(connect_sqlite(place.file, wait_s=wait_s)) as connection,
    ):
        connection.execute("PRAGMA query_only = ON")
        connection.execute("BEGIN")
        yield connection.execute
