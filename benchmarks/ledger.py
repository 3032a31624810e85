"""What a spend, a status and a verification cost in a ledger of few and of many entries.

All in one process but the command line, which starts its own; times are medians of repetitions.

    python benchmarks/ledger.py --entries 1000 100000
"""

import argparse
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from insular.evidence.ledger import Amount, Ledger, queries, rules
from insular.evidence.ledger.appending import next_entry
from insular.evidence.ledger.chain import digest, written
from insular.evidence.ledger.places import place_of
from insular.evidence.ledger.results import Kind, plain
from insular.evidence.ledger.writing import writing


def fill(file: Path, *, entries: int) -> None:
    """Write committed releases by the ledger's own rules, in bulk to save time."""
    ledger = Ledger(file)
    ledger.declare(
        "support", unit="owner", relation="add_or_remove_one", cap=Amount.of("1e6", "0.1")
    )
    spent, rows, releases = Amount.of("0.001", "1e-9"), [], []
    with writing(place_of(file), wait_s=30) as writer:
        head = queries.read_head(writer.rows, ledger=str(file))
        account = queries.read_accounts(writer.rows)[0]
        while head.n_entries < entries:
            name, release = f"run-{head.n_entries}", None
            steps: tuple[Kind, ...] = ("reserve", "commit")
            for kind in steps:
                draft = next_entry(head, kind, now=datetime.now(UTC), population="support")
                entry = replace(draft, release=name, amount=spent)
                account, release = rules.applied(entry, account, release)
                body = written(entry)
                head = replace(
                    head,
                    n_entries=entry.number,
                    digest=digest(body),
                    last_time_utc=plain(entry.time_utc),
                )
                rows.append((entry.number, head.digest, name, body))
            since = head.n_entries - 1
            releases.append((name, "support", "committed", "0.001", "0.000000001", since))
        _, _, name, body = rows.pop()
        writer.change_account(account)
        writer.append(head, release=name, body=body)
    with closing(sqlite3.connect(file)) as connection:
        for table, many in (("entries", rows), ("releases", releases)):
            places = ", ".join("?" * len(many[0]))
            connection.executemany(f"INSERT INTO insular_ledger_{table} VALUES ({places})", many)
        connection.commit()


def median_ms(run: Callable[[], object], *, repeats: int) -> float:
    """Median milliseconds of a call, after one warm-up."""
    run()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        run()
        times.append(1000 * (time.perf_counter() - started))
    return statistics.median(times)


def measure(file: Path, *, repeats: int) -> dict[str, float]:
    """Milliseconds of each question and of a spend."""
    ledger = Ledger(file)
    insular = [sys.executable, "-m", "insular"]
    command = [*insular, "ledger", "status", "--ledger", str(file)]
    names = iter(range(10**9))

    def spend() -> None:
        name = f"spend-{next(names)}"
        ledger.reserve(name, population="support", amount=Amount.of("0.001", "0"))
        ledger.commit(name, amount=Amount.of("0.001", "0"))

    assert ledger.verify().intact
    return {
        "reserve and commit": median_ms(spend, repeats=repeats),
        "status": median_ms(ledger.status, repeats=repeats),
        "insular ledger status": median_ms(
            lambda: subprocess.run(command, capture_output=True, check=True), repeats=repeats
        ),
        "insular --version": median_ms(  # how much of that is the start
            lambda: subprocess.run([*insular, "--version"], capture_output=True, check=True),
            repeats=repeats,
        ),
        "verify": median_ms(ledger.verify, repeats=1),
    }


def main() -> None:
    """Print one column for each size, and the last over the first."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--entries", type=int, nargs="+", default=[1000, 100_000])
    parser.add_argument("--repeats", type=int, default=7)
    asked = parser.parse_args()
    columns = []
    with tempfile.TemporaryDirectory() as folder:
        for entries in asked.entries:
            file = Path(folder) / f"{entries}.ledger"
            fill(file, entries=entries)
            columns.append(measure(file, repeats=asked.repeats))
    heads = "".join(f"{entries:>14}" for entries in asked.entries)
    print(f"{'milliseconds, entries:':<24}{heads}{'last/first':>12}")
    for name in columns[0]:
        cells = "".join(f"{column[name]:>14.1f}" for column in columns)
        print(f"{name:<24}{cells}{columns[-1][name] / columns[0][name]:>12.2f}")


if __name__ == "__main__":
    main()
