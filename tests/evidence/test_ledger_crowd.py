"""Many processes, each killed at a random moment: caps hold, nothing acknowledged is lost."""

import json
import subprocess
import sys
from pathlib import Path

from evidence.ledger_crowd import CAPS, overspent
from evidence.ledger_samples import A, declare
from insular.evidence.ledger import Ledger, changes

TESTS = Path(__file__).parents[1]


def test_a_crowd_that_is_killed_keeps_the_caps_and_every_acknowledged_entry(where):
    rounds = "1" if "://" in where else "3"
    done = subprocess.run(
        [
            sys.executable, "-m", "evidence.ledger_crowd", where,
            "--processes", "4", "--seconds", "1.5", "--rounds", rounds,
        ],
        cwd=TESTS,
        capture_output=True,
        text=True,
        timeout=300,
    )  # fmt: skip
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, (results[-1:], done.stderr[-2000:])
    assert len(results) == int(rounds)
    assert [result["killed"] for result in results] == [4] * int(rounds)
    assert results[-1]["acknowledged"] > 20 and results[-1]["entries"] > 20


def test_a_ledger_that_refuses_nothing_is_seen_by_the_crowds_sum(tmp_path, monkeypatch):
    ledger = Ledger(tmp_path / "ledger.db")
    for name, (epsilon, delta, partition) in CAPS.items():
        declare(ledger, name, cap=A(epsilon, delta), partition=partition)
    ledger.reserve("a", population="everyone", amount=A("2", "0"))
    ledger.reserve("b", population="eu", amount=A("1", "0"))
    ledger.reserve("c", population="us", amount=A("0.5", "0"))
    assert overspent(ledger.history()) == [] and ledger.verify().intact
    monkeypatch.setattr(changes, "_refuse_overspend", lambda *_, **__: None)
    ledger.reserve("d", population="us", amount=A("1e-12", "0"))
    assert overspent(ledger.history()) == ["entry 8: us"]
    assert "entry 8: it exceeds a cap" in ledger.verify().faults[0]
