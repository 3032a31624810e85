"""Small ledgers, and a way to edit one behind its back."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from insular.evidence.ledger import Amount, Ledger, Receipt

A = Amount.of


def declare(ledger: Ledger, name: str = "support", *, cap: Amount | None = None, **more) -> Receipt:
    return ledger.declare(
        name,
        cap=A("3.0", "3e-6") if cap is None else cap,
        **{"unit": "owner", "relation": "add_or_remove_one", **more},
    )


def small_ledger(where: str | Path, **settings) -> Ledger:
    """Two committed releases, one aborted, one that waits: ten entries."""
    ledger = Ledger(where, **settings)
    declare(ledger)
    for name in ("one", "two", "three", "four"):
        ledger.reserve(name, population="support", amount=A("0.5", "5e-7"))
    ledger.commit("one", amount=A("0.4", "5e-7"), artifacts=["a" * 64])
    ledger.commit("two", amount=A("0.5", "5e-7"))
    ledger.abort("three", reason="crashed before its first step")
    ledger.extend("four", amount=A("0.25", "0"))
    return ledger


@contextmanager
def raw(where: str) -> Iterator[Any]:
    """A connection of the driver, for statements with %s; commits at the end."""
    if where.startswith("postgresql"):
        import psycopg

        with psycopg.connect(where) as connection:
            yield connection.execute
        return
    with closing(sqlite3.connect(where)) as connection:
        yield lambda sql, values=(): connection.execute(sql.replace("%s", "?"), values)
        connection.commit()
