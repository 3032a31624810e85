"""``insular ledger`` as a user meets it: exit codes, one clear line, JSON."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cli.in_process import Done, insular
from evidence.ledger_samples import raw, small_ledger

INIT = [
    "--population", "support", "--unit", "owner", "--relation", "add_or_remove_one",
    "--epsilon-cap", "3.0", "--delta-cap", "3e-6",
]  # fmt: skip


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INSULAR_LEDGER", str(tmp_path / "ledger.db"))
    return tmp_path / "ledger.db"


def ledger(*arguments: str) -> Done:
    return insular("ledger", *arguments)


def reserve(name: str, epsilon: str, *more: str) -> Done:
    wanted = ["--population", "support", "--epsilon", epsilon, "--delta", "1e-6"]
    return ledger("reserve", name, *wanted, *more)


def test_a_refusal_exits_1_and_says_by_how_much(file: Path) -> None:
    assert ledger("init", *INIT).code == 0
    assert reserve("one", "1.2").code == 0
    assert reserve("two", "1.1").code == 0
    done = reserve("three", "0.9")
    assert (done.code, done.stdout) == (1, "")
    assert done.stderr == (
        "insular: refused: population support would need epsilon 3.2 of 3.0: over by 0.2. "
        "Nothing was written.\n"
    )
    done = reserve("three", "0.9", "--json", "-")
    assert done.code == 1 and "over by 0.2" in json.loads(done.stdout)["refused"]
    assert reserve("three", "0.7").code == 0


def test_each_command_as_json(file: Path, tmp_path: Path) -> None:
    receipt = json.loads(ledger("init", *INIT, "--json", "-").stdout)
    assert receipt["entry"]["amount"] == {"epsilon": "3.0", "delta": "0.000003"}
    assert json.loads(reserve("one", "1.2", "--json", "-").stdout)["left"]["epsilon"] == "1.8"
    extended = ledger(
        "reserve", "one", "--extend", "--epsilon", "0.1", "--delta", "0", "--json", "-"
    )
    assert json.loads(extended.stdout)["entry"]["kind"] == "extend"
    committed = ledger("commit", "one", "--epsilon", "1.3", "--delta", "0", "--json", "-")
    assert json.loads(committed.stdout)["entry"]["amount"]["epsilon"] == "1.3"
    covered = ledger("commit", "one", "--artifact", "a" * 64, "--json", "-")
    assert json.loads(covered.stdout)["entry"]["artifacts"] == ["a" * 64]
    reserve("two", "0.5")
    aborted = ledger("abort", "two", "--reason", "crashed", "--json", str(tmp_path / "a.json"))
    assert aborted.stdout.startswith("Entry 8: two is aborted")
    assert json.loads((tmp_path / "a.json").read_text())["entry"]["note"] == "crashed"
    status = json.loads(ledger("status", "--json", "-").stdout)
    assert status["n_entries"] == 8 and status["n_open"] == 0
    history = json.loads(ledger("history", "--last", "2", "--json", "-").stdout)
    assert [entry["kind"] for entry in history] == ["reserve", "abort"]
    verification = json.loads(ledger("verify", "--json", "-").stdout)
    assert verification["intact"] and verification["head"] == status["head"]


def test_status_and_history_in_words(file: Path) -> None:
    small_ledger(file)
    status = ledger("status")
    assert status.code == 0 and status.stderr == ""
    lines = status.stdout.splitlines()
    assert lines[0] == "10 entries, for one owner under add_or_remove_one"
    assert lines[3].split() == ["support", "epsilon", "3.0", "0.9", "0.75", "1.65", "1.35"]
    assert lines[7].split() == ["four", "support", "(0.75,", "5e-7)", "6"]
    history = ledger("history", "--release", "three").stdout.splitlines()
    assert len(history) == 3 and history[2].endswith("crashed before its first step")
    assert all(len(line) <= 80 for line in lines if not line.startswith("Head"))


def test_status_without_populations_is_no_traceback(file: Path) -> None:
    small_ledger(file)
    with raw(str(file)) as run:
        run("DELETE FROM insular_ledger_populations")
    assert ledger("status").stdout.startswith("10 entries\n")
    assert "population support: its stored state" in ledger("verify").stdout


def test_verify_exits_1_at_a_fault(file: Path) -> None:
    book = small_ledger(file)
    head = book.status().head
    done = ledger("verify", "--head", head)
    assert (done.code, done.stdout) == (0, f"10 entries: intact. Head {head}\n")
    with raw(str(file)) as run:
        run("DELETE FROM insular_ledger_entries WHERE number = 5")
    done = ledger("verify")
    assert done.code == 1
    assert "entry 5 is missing: entry 6 follows." in done.stdout
    assert "9 entries: not as it was written." in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["status"], "`insular ledger init` makes one"),
        (["commit", "x"], "commit needs --epsilon and --delta"),
        (["commit", "x", "--epsilon", "1"], "commit needs --epsilon and --delta"),
        (["reserve", "x", "--epsilon", "1", "--delta", "0"], "reserve needs --population NAME"),
        (["reserve", "x", "--epsilon", "-1", "--delta", "0"], "epsilon must be a finite decimal"),
        (["reserve", "x", "--epsilon", "nan", "--delta", "0"], "epsilon must be a finite decimal"),
        (["abort", "x", "--reason", ""], "reason must say"),
        (["verify", "--head", "x"], "head must be NUMBER:SHA256"),
        (["history", "--last", "0"], "last must be an integer >= 1"),
        (["status", "--ledger", "mysql://x/y"], "got mysql://"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_exit_2(
    file: Path, arguments: list[str], words: str
) -> None:
    done = ledger(*arguments)
    assert (done.code, done.stdout) == (2, "")
    assert words in done.stderr and done.stderr.startswith("insular: ")
    assert done.stderr.count("\n") == 1
    assert not file.exists()


def test_a_clock_set_back_is_one_line_on_standard_error(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from datetime import UTC, datetime

    small_ledger(file, clock=lambda: datetime(2999, 1, 1, tzinfo=UTC))
    done = ledger("abort", "four", "--reason", "x")
    assert done.code == 0 and done.stdout.startswith("Entry 11")
    assert "this machine's clock is " in done.stderr and done.stderr.count("\n") == 1
    assert "1 entry was written under a clock set back" in ledger("verify").stdout
    assert "* the clock stood before" in ledger("history").stdout


def test_two_processes_cannot_both_have_the_rest(file: Path) -> None:
    ledger("init", *INIT)
    command = [
        sys.executable, "-m", "insular.cli.app", "ledger", "reserve", "NAME",
        "--population", "support", "--epsilon", "1.8", "--delta", "0",
    ]  # fmt: skip
    both = [
        subprocess.Popen([word.replace("NAME", name) for word in command], stderr=subprocess.PIPE)
        for name in ("a", "b")
    ]
    for process in both:
        process.communicate(timeout=120)
    assert sorted(process.returncode for process in both) == [0, 1]
