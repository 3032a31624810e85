"""The ledger: caps kept, charges composed, and each step refused where the rules say so."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from evidence.ledger_samples import A, declare, small_ledger
from insular.errors import BudgetExceededError, InvalidArgumentError, LedgerError
from insular.evidence.ledger import Amount, Ledger
from insular.evidence.ledger.amounts import ZERO


def test_a_third_release_is_refused_by_how_much(where):
    ledger = Ledger(where)
    declare(ledger)
    ledger.reserve("one", population="support", amount=A("1.2", "1e-6"))
    ledger.commit("one", amount=A("1.2", "1e-6"))
    ledger.reserve("two", population="support", amount=A("1.1", "1e-6"))
    before = ledger.status()
    with pytest.raises(BudgetExceededError) as caught:
        ledger.reserve("three", population="support", amount=A("0.9", "1e-6"))
    assert str(caught.value) == (
        "refused: population support would need epsilon 3.2 of 3.0: over by 0.2. "
        "Nothing was written."
    )
    assert ledger.status() == before
    assert before.populations[0].left == A("0.7", "1e-6")
    assert ledger.reserve("three", population="support", amount=A("0.7", "1e-6")).left == ZERO


def test_delta_has_a_cap_of_its_own(where):
    ledger = Ledger(where)
    declare(ledger)
    with pytest.raises(BudgetExceededError, match="would need delta 4e-6 of 3e-6: over by 1e-6"):
        ledger.reserve("one", population="support", amount=A("0.1", "4e-6"))


def test_a_crashed_run_stays_reserved_until_someone_resolves_it(where):
    ledger = Ledger(where)
    declare(ledger, cap=A("1.0", "0"))
    calls = []

    def mechanism():
        calls.append(1)
        raise RuntimeError("out of memory")

    for name in ("first", "second"):
        try:
            ledger.reserve(name, population="support", amount=A("0.6", "0"))
            mechanism()
        except BudgetExceededError:
            assert name == "second"
        except RuntimeError:
            assert name == "first"
    assert calls == [1]
    status = Ledger(where).status()
    assert status.populations[0].account.charged == A("0.6", "0")
    assert [one.name for one in status.open_releases] == ["first"]
    ledger.abort("first", reason="nothing left the machine")
    assert ledger.status().populations[0].left == A("1.0", "0")


def test_a_commit_frees_what_was_not_spent_and_never_spends_more(where):
    ledger = Ledger(where)
    declare(ledger)
    ledger.reserve("one", population="support", amount=A("1.0", "1e-6"))
    with pytest.raises(LedgerError) as caught:
        ledger.commit("one", amount=A("1.1", "1e-6"))
    assert "spent epsilon 1.1, delta 1e-6 but reserved epsilon 1.0" in str(caught.value)
    assert "extend its reservation" in str(caught.value)
    ledger.extend("one", amount=A("0.1", "0"))
    receipt = ledger.commit("one", amount=A("1.05", "1e-6"))
    assert receipt.left == A("1.95", "2e-6")
    account = ledger.status().populations[0].account
    assert (account.spent, account.reserved) == (A("1.05", "1e-6"), ZERO)


def test_an_extension_is_refused_at_the_cap(where):
    ledger = Ledger(where)
    declare(ledger)
    ledger.reserve("one", population="support", amount=A("2.9", "0"))
    with pytest.raises(BudgetExceededError, match=r"epsilon 3.1 of 3.0: over by 0.1"):
        ledger.extend("one", amount=A("0.2", "0"))
    assert ledger.status().open_releases[0].charge == A("2.9", "0")


def test_artifacts_of_one_transcript_cost_it_once(where):
    ledger = Ledger(where)
    declare(ledger)
    ledger.reserve("run", population="support", amount=A("1", "0"))
    ledger.commit("run", amount=A("1", "0"), artifacts=["sha256:" + "A" * 64, "b" * 64])
    ledger.cover("run", artifacts=["c" * 64])
    assert ledger.status().populations[0].account.spent == A("1", "0")
    covered = [entry.artifacts for entry in ledger.history(release="run")]
    assert covered == [(), ("a" * 64, "b" * 64), ("c" * 64,)]


def test_one_unit_and_one_relation_a_ledger(where):
    ledger = Ledger(where)
    declare(ledger)
    with pytest.raises(LedgerError, match="protects one owner under add_or_remove_one"):
        declare(ledger, "rows", unit="record")
    with pytest.raises(LedgerError, match="already declared"):
        declare(ledger)
    with pytest.raises(InvalidArgumentError, match="unit must be one of record, owner"):
        declare(ledger, "x", unit="user")


def test_a_partition_needs_add_or_remove(where):
    with pytest.raises(LedgerError, match="a partition needs relation add_or_remove_one"):
        declare(Ledger(where), relation="replace_one", partition="region")
    with pytest.raises(LedgerError, match="no ledger"):
        Ledger(where).status()


def test_each_step_needs_the_one_before(where):
    ledger = small_ledger(where)
    before = ledger.status()
    for change, words in (
        (lambda: ledger.reserve("one", population="support", amount=ZERO), "already in the ledger"),
        (lambda: ledger.reserve("x", population="sales", amount=ZERO), "sales is unknown; this "),
        (lambda: ledger.commit("one", amount=ZERO), "one is committed; only a reserved"),
        (lambda: ledger.commit("none", amount=ZERO), "none was never reserved"),
        (lambda: ledger.abort("three", reason="again"), "three is aborted"),
        (lambda: ledger.extend("two", amount=ZERO), "two is committed"),
        (lambda: ledger.cover("four", artifacts=["d" * 64]), "four is reserved; only a committed"),
    ):
        with pytest.raises(LedgerError) as caught:
            change()
        assert words in str(caught.value) and "\n" not in str(caught.value)
    for change, words in (
        (lambda: ledger.abort("four", reason=" "), "reason must say"),
        (lambda: ledger.cover("one", artifacts=[]), "at least one digest"),
        (lambda: ledger.commit("four", amount=ZERO, artifacts=["x"]), "SHA-256"),
        (lambda: ledger.commit("four", amount=ZERO, artifacts=["a" * 64] * 2), "once each"),
        (lambda: ledger.reserve("a b", population="support", amount=ZERO), "release must be"),
        (lambda: ledger.commit("four", amount=ZERO, note="two\nlines"), "one line"),
        (lambda: Ledger("mysql://x/y"), "got mysql://"),
        (lambda: Ledger(""), "path of a file"),
    ):
        with pytest.raises(InvalidArgumentError, match=words):
            change()
    assert ledger.status() == before


def test_a_clock_set_back_is_noticed_and_times_never_decrease(where):
    now = datetime(2026, 3, 1, 12, tzinfo=UTC)
    clock = {"now": now}
    ledger = Ledger(where, clock=lambda: clock["now"])
    declare(ledger)
    clock["now"] = now - timedelta(days=1)
    receipt = ledger.reserve("one", population="support", amount=A("1", "0"))
    assert receipt.clock_behind_s == 86_400
    assert receipt.entry.time_utc == now
    assert receipt.entry.clock_utc == now - timedelta(days=1)
    clock["now"] = now + timedelta(seconds=1)
    assert ledger.commit("one", amount=ZERO).clock_behind_s == 0
    times = [entry.time_utc for entry in ledger.history()]
    assert times == sorted(times)
    assert ledger.status().n_clock_behind == 1
    verification = ledger.verify()
    assert verification.intact and verification.n_clock_behind == 1


def test_times_are_utc_whatever_zone_the_clock_is_in(where):
    from datetime import timezone

    east = datetime(2026, 3, 1, 1, tzinfo=timezone(timedelta(hours=5)))
    receipt = declare(Ledger(where, clock=lambda: east))
    assert receipt.entry.time_utc.isoformat() == "2026-02-28T20:00:00+00:00"


def test_questions_change_nothing(where, tmp_path):
    ledger = small_ledger(where)
    file = tmp_path / "ledger.db"
    before = file.read_bytes() if file.exists() else b""
    first = (ledger.status(), ledger.history(last=1000), ledger.verify())
    assert (ledger.status(), ledger.history(last=1000), ledger.verify()) == first
    assert (file.read_bytes() if file.exists() else b"") == before


def test_history_is_the_last_entries_oldest_first(where):
    ledger = small_ledger(where)
    entries = ledger.history(last=1000)
    assert [entry.number for entry in entries] == list(range(1, 11))
    kinds = [entry.kind for entry in entries]
    assert kinds == ["create", "declare", *["reserve"] * 4, "commit", "commit", "abort", "extend"]
    assert ledger.history(last=3) == entries[-3:]
    assert [entry.kind for entry in ledger.history(release="four")] == ["reserve", "extend"]
    assert ledger.history(release="none") == ()


def test_units_and_relations_are_those_of_accounting():
    from insular import accounting
    from insular.accounting import events
    from insular.evidence.ledger import ledger

    assert ledger.UNITS == events.UNITS
    assert ledger.RELATIONS == accounting.RELATIONS


def test_results_read_as_json(where):
    import json

    from insular.evidence.ledger import as_json

    status = json.loads(as_json(small_ledger(where).status()))
    assert status["populations"][0]["account"]["spent"] == {"epsilon": "0.9", "delta": "0.0000010"}
    assert status["last_entry_utc"].endswith("Z")
    assert isinstance(Amount.of("1", "0").epsilon, Decimal)
