"""What goes wrong around a ledger: one clear line, and nothing lost."""

import os
import resource
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from evidence.conftest import free_port
from evidence.ledger_samples import declare, raw, small_ledger
from evidence.test_files import small_disk
from insular.errors import (
    InvalidArgumentError,
    LedgerError,
    LedgerUnavailableError,
    MissingDependencyError,
)
from insular.evidence.ledger import Ledger
from insular.evidence.ledger.places import place_of


def refusal(call, kind=LedgerUnavailableError) -> str:
    with pytest.raises(kind) as caught:
        call()
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400
    return str(caught.value)


def fill(ledger: Ledger) -> int:
    """Append until it is refused; the number of acknowledged entries."""
    n = 0
    try:
        while n < 100_000:
            ledger.cover("one", artifacts=[f"{n:064x}"])
            n += 1
    except LedgerUnavailableError as error:
        assert "disk is full" in str(error) and "Nothing was written" in str(error)
        return n
    raise AssertionError("the disk never filled")


def test_a_full_disk_loses_nothing(tmp_path):
    with small_disk(tmp_path) as disk:
        subprocess.run(["mount", "-o", "remount,size=160k", str(disk)], check=True)
        file = disk / "ledger.db"
        ledger = small_ledger(file)
        before = ledger.status().n_entries
        n = fill(ledger)
        found = ledger.verify()
        assert found.intact and found.n_entries == before + n
        assert os.listdir(disk) == ["ledger.db"]
        subprocess.run(["mount", "-o", "remount,size=320k", str(disk)], check=True)
        ledger.abort("four", reason="there is room again")
        assert ledger.verify().intact


def test_a_file_that_may_not_grow_loses_nothing(tmp_path):
    ledger = small_ledger(tmp_path / "ledger.db")
    before = ledger.status().n_entries
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(tmp_path / "ledger.db"), hard))
    try:
        n = fill(ledger)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    found = ledger.verify()
    assert found.intact and found.n_entries == before + n


def test_a_read_only_file_answers_and_refuses_entries(tmp_path):
    with small_disk(tmp_path) as disk:
        subprocess.run(["mount", "-o", "remount,size=1m", str(disk)], check=True)
        ledger = small_ledger(disk / "ledger.db")
        before = ledger.status()
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        line = refusal(lambda: ledger.abort("four", reason="x"))
        assert line == (
            f"cannot use ledger {disk / 'ledger.db'}: it is read-only. Nothing was written. "
            "Make it writable for this user."
        )
        assert ledger.status() == before and ledger.verify().intact
        assert "cannot be opened" in refusal(lambda: declare(Ledger(disk / "new.db")))


def test_a_locked_ledger_says_so_and_works_again(where):
    ledger = small_ledger(where, wait_s=0.1)
    lock = "BEGIN IMMEDIATE" if "://" not in where else "SELECT 1 FROM insular_ledger FOR UPDATE"
    with raw(where) as run:
        run(lock)
        line = refusal(lambda: ledger.abort("four", reason="x"))
        assert "another process holds it. Nothing was written. Try again." in line
        assert ledger.status().n_open == 1
    ledger.abort("four", reason="x")


def test_a_foreign_database_is_never_touched(tmp_path):
    file = tmp_path / "other.db"
    with raw(str(file)) as run:
        run("CREATE TABLE customers (name TEXT)")
    before = file.read_bytes()
    assert "no ledger in it" in refusal(Ledger(file).status, LedgerError)
    assert "no ledger in it" in refusal(lambda: Ledger(file).abort("a", reason="x"), LedgerError)
    assert "of something else" in refusal(lambda: declare(Ledger(file)), LedgerError)
    assert file.read_bytes() == before


def test_a_file_that_is_no_database_is_never_touched(tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("not a database, but long enough to have a header\n" * 50)
    before = file.read_bytes()
    assert "not a SQLite file" in refusal(Ledger(file).status)
    assert "not a SQLite file" in refusal(lambda: declare(Ledger(file)))
    assert file.read_bytes() == before


def test_a_question_never_makes_a_file(tmp_path):
    file = tmp_path / "none.db"
    for ask in (Ledger(file).status, Ledger(file).verify, Ledger(file).history):
        assert "`insular ledger init` makes one" in refusal(ask, LedgerError)
    line = refusal(lambda: Ledger(file).abort("a", reason="x"), LedgerError)
    assert line == f"there is no ledger at {file}; `insular ledger init` makes one."
    assert os.listdir(tmp_path) == []
    assert "cannot be opened" in refusal(lambda: declare(Ledger(tmp_path / "no" / "l.db")))
    assert "cannot be opened" in refusal(Ledger(tmp_path).status)


def test_a_damaged_file_is_one_line(tmp_path):
    file = tmp_path / "ledger.db"
    ledger = small_ledger(file)
    content = bytearray(file.read_bytes())
    content[4096:] = os.urandom(len(content) - 4096)
    file.write_bytes(content)
    assert "Restore a copy" in refusal(ledger.verify)


def test_other_tables_under_the_ledgers_names_are_one_line(where):
    with raw(where) as run:
        run("CREATE TABLE insular_ledger (x INTEGER)")
    line = refusal(Ledger(where).status, LedgerError)
    assert "not those of this version's ledger" in line


def test_a_killed_writer_leaves_no_half_entry(tmp_path):
    file = tmp_path / "ledger.db"
    before = small_ledger(file).status()
    code = (
        "import os, sys\n"
        "from insular.evidence.ledger import Amount, Ledger, writing\n"
        "append = writing.Writer.append\n"
        "def killed(self, *args, **more):\n"
        "    append(self, *args, **more)\n"
        "    os.kill(os.getpid(), 9)\n"
        "writing.Writer.append = killed\n"
        "Ledger(sys.argv[1]).reserve('x', population='support', amount=Amount.of('1', '0'))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(file)], timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert Ledger(file).status() == before and Ledger(file).verify().intact


def test_an_address_without_a_server_is_one_line_without_its_password():
    pytest.importorskip("psycopg", reason="psycopg is not installed (extra: postgresql)")
    ledger = Ledger(f"postgresql://me:hunter2@127.0.0.1:{free_port()}/x", wait_s=2)
    line = refusal(ledger.status)
    assert "127.0.0.1" in line and "hunter2" not in line and "me:***@" in line
    line = refusal(Ledger("postgresql://me:hunter2@[::1/x").status, InvalidArgumentError)
    assert "hunter2" not in line


@pytest.mark.parametrize("password", ["hunter2", "hun@hunter2", "hunter2/hunter2", "hunter2?x"])
def test_a_password_is_never_shown(password):
    shown = place_of(f"postgresql://me:{password}@host/db?password=hunter2").shown
    assert "hunter2" not in shown and shown.startswith("postgresql://me:***@")


def test_a_missing_driver_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    line = refusal(Ledger("postgresql://me@host/db").status, MissingDependencyError)
    assert "pip install 'insular[postgresql]'" in line


def test_a_database_without_a_ledger_is_one_line(postgresql_server):
    from evidence.conftest import fresh_database

    where = fresh_database(postgresql_server)
    assert "no ledger in it" in refusal(Ledger(where).status, LedgerError)
    assert "no ledger in it" in refusal(lambda: Ledger(where).abort("a", reason="x"), LedgerError)


def test_a_server_that_is_read_only_or_refuses_rights_is_one_line(postgresql_server):
    from evidence.conftest import fresh_database

    where = fresh_database(postgresql_server)
    small_ledger(where)
    with raw(where) as run:
        run("CREATE ROLE reader LOGIN")
        run("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    reader = Ledger(where.replace("insular@", "reader@"))
    assert reader.verify().intact
    assert "may not do that" in refusal(lambda: reader.abort("four", reason="x"))
    name = where.rpartition("/")[2]
    with raw(where) as run:
        run(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    assert "it is read-only" in refusal(lambda: Ledger(where).abort("four", reason="x"))
    assert Ledger(where).status().n_open == 1


def test_status_imports_neither_torch_nor_sqlalchemy(tmp_path):
    file = tmp_path / "ledger.db"
    small_ledger(file)
    code = (
        "import sys\n"
        "from insular.evidence.ledger import Ledger\n"
        "Ledger(sys.argv[1]).status(), Ledger(sys.argv[1]).verify()\n"
        "sys.exit(any(m in sys.modules for m in ('torch', 'sqlalchemy', 'rich')))\n"
    )
    assert subprocess.run([sys.executable, "-c", code, str(file)], timeout=60).returncode == 0


def test_no_question_and_no_spend_reads_all_entries_or_releases(tmp_path):
    file = tmp_path / "ledger.db"
    small_ledger(file)
    plans: list[str] = []

    class Explained(sqlite3.Connection):
        def execute(self, sql, arguments=(), /):
            if sql.startswith(("SELECT", "UPDATE")):
                plans.extend(
                    row[3] for row in super().execute(f"EXPLAIN QUERY PLAN {sql}", arguments)
                )
            return super().execute(sql, arguments)

    from insular.evidence.ledger import queries

    connection = sqlite3.connect(file, factory=Explained)
    queries.read_head(connection.execute, ledger="x")
    queries.read_accounts(connection.execute)
    queries.read_release(connection.execute, "one")
    queries.read_open(connection.execute, limit=20)
    queries.read_last(connection.execute, limit=20)
    queries.read_last(connection.execute, limit=20, release="one")
    connection.execute("UPDATE insular_ledger_releases SET state = 'x' WHERE name = ?", ("one",))
    connection.close()
    big = [p for p in plans if "insular_ledger_entries" in p or "insular_ledger_releases" in p]
    assert len(big) == 5
    whole = [plan for plan in big if plan.startswith("SCAN")]
    assert whole == ["SCAN insular_ledger_entries"]  # by number backwards, up to the limit


def test_paths_with_odd_characters_are_paths(tmp_path):
    file = Path(tmp_path) / "a b?mode=memory#%41.db"
    small_ledger(file)
    assert [path.name for path in tmp_path.iterdir()] == [file.name]
    assert Ledger(file).verify().intact
