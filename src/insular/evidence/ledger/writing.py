"""Writing a ledger: one transaction at a time, on disk before it is acknowledged."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, final

from sqlalchemy import Connection, Engine, create_engine, event, insert, inspect, text, update
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import NullPool

from insular.errors import InvalidArgumentError, LedgerError, MissingDependencyError
from insular.evidence.ledger.faults import one_line
from insular.evidence.ledger.places import Place
from insular.evidence.ledger.queries import FORMAT_VERSION, Head, Rows
from insular.evidence.ledger.reading import connect_sqlite
from insular.evidence.ledger.results import Account, Release
from insular.evidence.ledger.tables import ENTRIES, HEAD, METADATA, POPULATIONS, RELEASES

_INIT_LOCK = 0x696E73756C6172  # "insular": one process at a time makes the tables


@final
class Writer:
    """One open transaction that no other writer shares."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def rows(self, query: str, arguments: Mapping[str, Any]) -> Iterator[Sequence[Any]]:
        """Run a query inside the transaction.

        Args:
            query: SQL text.
            arguments: Its named values.

        Yields:
            Rows.
        """
        yield from self._connection.execute(text(query), arguments)

    def has_tables(self, *, ledger: str) -> bool:
        """Whether the ledger's tables are there.

        Args:
            ledger: What an error calls the ledger.

        Returns:
            False for an empty database.

        Raises:
            LedgerError: If a SQLite file belongs to something else.
        """
        names = inspect(self._connection).get_table_names()
        if HEAD.name in names:
            return True
        if names and self._connection.dialect.name == "sqlite":
            raise LedgerError(
                f"{ledger} is a database of something else: it has tables, but none of a ledger. "
                "Choose another path."
            )
        return False

    def make_tables(self, head: Head) -> None:
        """Make empty tables and the head's row.

        Args:
            head: The head of a ledger without entries.
        """
        METADATA.create_all(self._connection, checkfirst=False)
        self._connection.execute(insert(HEAD), {"format_version": FORMAT_VERSION, **vars(head)})

    def append(self, head: Head, *, release: str, body: str) -> None:
        """Add the entry that the new head names.

        Args:
            head: The head with this entry.
            release: The release that it is about; empty for none.
            body: Its text.
        """
        row = {
            "number": head.n_entries,
            "digest": head.digest,
            "release": release,
            "body": body,
        }
        self._connection.execute(insert(ENTRIES), row)
        self._connection.execute(update(HEAD), vars(head))

    def open_account(self, account: Account, *, number: int) -> None:
        """Add a population.

        Args:
            account: Its account.
            number: Number of its entry.
        """
        row = {
            "name": account.name,
            "number": number,
            "unit": account.unit,
            "relation": account.relation,
            "part": account.partition,
            **_totals(account),
        }
        self._connection.execute(insert(POPULATIONS), row)

    def change_account(self, account: Account) -> None:
        """Write an account's new totals.

        Args:
            account: The account.
        """
        statement = update(POPULATIONS).where(POPULATIONS.c.name == account.name)
        self._connection.execute(statement, _totals(account))

    def put_release(self, release: Release, *, new: bool) -> None:
        """Write where a release stands.

        Args:
            release: The release.
            new: Whether it is its first entry.
        """
        charge = {
            "state": release.state,
            "epsilon": format(release.charge.epsilon, "f"),
            "delta": format(release.charge.delta, "f"),
        }
        if new:
            fixed = {"name": release.name, "population": release.population}
            self._connection.execute(insert(RELEASES), {**fixed, **charge, "since": release.since})
        else:
            statement = update(RELEASES).where(RELEASES.c.name == release.name)
            self._connection.execute(statement, charge)


@contextmanager
def writing(place: Place, *, wait_s: float, create: bool = False) -> Iterator[Writer]:
    """Open a transaction that ends on disk, or leaves no trace.

    SQLite: ``BEGIN IMMEDIATE``, a rollback journal, ``synchronous = EXTRA``. PostgreSQL: a lock on
    the head's row, ``synchronous_commit = on``.

    Guarantees:
        * Writers run one after another, on any number of processes or machines.
        * When the block has ended without an error, its entries are on disk.
        * After an error or a kill, none of them is there.

    Args:
        place: The ledger.
        wait_s: Seconds to wait for other writers.
        create: The ledger may not exist yet.

    Yields:
        The open transaction.
    """
    with one_line(place.shown):
        engine = _engine(place, wait_s=wait_s, create=create)
        with engine.begin() as connection:
            if place.file is None:
                _lock_postgresql(connection, wait_s=wait_s, create=create)
            yield Writer(connection)


@contextmanager
def postgresql_rows(place: Place, *, wait_s: float) -> Iterator[Rows]:
    """Ask a server inside one read-only snapshot.

    Args:
        place: The ledger.
        wait_s: Seconds to wait for a connection.

    Yields:
        What runs a query.
    """
    options = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    with (
        _engine(place, wait_s=wait_s).connect().execution_options(**options) as connection,
        ExitStack() as cursors,
    ):

        def rows(query: str, arguments: Mapping[str, Any]) -> Iterator[Sequence[Any]]:
            found = connection.execution_options(yield_per=1000).execute(text(query), arguments)
            cursors.callback(found.close)  # also if an error stops the reader half way
            yield from found

        yield rows


def _engine(place: Place, *, wait_s: float, create: bool = False) -> Engine:
    """A source of connections that keeps none, so a fork shares none."""
    if place.file is None:
        return _postgresql_engine(place, wait_s=wait_s)
    file = place.file
    engine = create_engine(
        "sqlite://",
        creator=lambda: connect_sqlite(file, wait_s=wait_s, create=create),
        poolclass=NullPool,
    )

    @event.listens_for(engine, "connect")
    def _(connection: Any, _record: object) -> None:
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("PRAGMA fullfsync = ON")

    @event.listens_for(engine, "begin")
    def _(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def _postgresql_engine(place: Place, *, wait_s: float) -> Engine:
    """An engine for a server."""
    settings = {"connect_timeout": max(2, round(wait_s)), "application_name": "insular ledger"}
    try:
        return create_engine(
            make_url(place.url),
            connect_args=settings,
            poolclass=NullPool,
            isolation_level="READ COMMITTED",  # what is read after the lock is the latest
        )
    except ImportError:
        raise MissingDependencyError(
            "a ledger on PostgreSQL needs psycopg: pip install 'insular[postgresql]'."
        ) from None
    except (ArgumentError, ValueError):
        raise InvalidArgumentError(
            f"ledger must read postgresql://USER@HOST/DATABASE, got {place.shown}."
        ) from None


def _lock_postgresql(connection: Connection, *, wait_s: float, create: bool) -> None:
    """Wait for the other writers, and be durable whatever the server's default."""
    connection.exec_driver_sql(f"SET LOCAL lock_timeout = {max(1, round(wait_s * 1000))}")
    connection.exec_driver_sql("SET LOCAL synchronous_commit = on")
    if create:
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_INIT_LOCK})")
        if not inspect(connection).has_table(HEAD.name):
            return
    connection.exec_driver_sql(f"SELECT n_entries FROM {HEAD.name} FOR UPDATE")


def _totals(account: Account) -> dict[str, Any]:
    """The columns of an account that entries change, and its cap."""
    amounts = {"cap": account.cap, "spent": account.spent, "reserved": account.reserved}
    texts = {
        f"{quantity}_{total}": format(getattr(amount, quantity), "f")
        for total, amount in amounts.items()
        for quantity in ("epsilon", "delta")
    }
    return {**texts, "n_committed": account.n_committed, "n_reserved": account.n_reserved}
