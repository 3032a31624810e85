"""The chain: every edit, deletion, addition and reordering is found; a true ledger passes."""

import json

import pytest

from evidence.ledger_samples import A, raw, small_ledger
from insular.errors import InvalidArgumentError, LedgerError
from insular.evidence.ledger import Ledger, chain

ENTRIES = "insular_ledger_entries"


def bodies(run) -> dict[int, str]:
    return {row[0]: row[1] for row in run(f"SELECT number, body FROM {ENTRIES} ORDER BY number")}


def edit(run, number: int, *, rehash: bool, **changes) -> str:
    body = json.loads(bodies(run)[number]) | changes
    text = json.dumps(body, separators=(",", ":"))
    run(f"UPDATE {ENTRIES} SET body = %s WHERE number = %s", (text, number))
    if rehash:
        found = chain.digest(text)
        run(f"UPDATE {ENTRIES} SET digest = %s WHERE number = %s", (found, number))
    return chain.digest(text)


def rehash_all(run, *, head: bool) -> None:
    """Write the chain anew from the bodies, as a forger with the source code would."""
    previous, number = "", 0
    for number, _ in sorted(bodies(run).items()):
        previous = edit(run, number, rehash=True, previous=previous)
    if head:
        run("UPDATE insular_ledger SET digest = %s, n_entries = %s", (previous, number))


def cheaper(run) -> None:
    body = json.loads(bodies(run)[7])
    body["amount"]["epsilon"] = "0.1"
    text = json.dumps(body, separators=(",", ":"))
    run(f"UPDATE {ENTRIES} SET body = %s WHERE number = 7", (text,))


def swap(run) -> None:
    for old, new in ((4, 99), (5, 4), (99, 5)):
        run(f"UPDATE {ENTRIES} SET number = %s WHERE number = %s", (new, old))


def swap_bodies(run) -> None:
    four, five = bodies(run)[4], bodies(run)[5]
    for number, body in ((4, five), (5, four)):
        values = (body, chain.digest(body), number)
        run(f"UPDATE {ENTRIES} SET body = %s, digest = %s WHERE number = %s", values)


def forge(run) -> None:
    last = json.loads(bodies(run)[10])
    body = json.dumps(last | {"number": 11, "previous": "0" * 64}, separators=(",", ":"))
    values = (chain.digest(body), body)
    run(f"INSERT INTO {ENTRIES} VALUES (11, %s, 'four', %s)", values)


def forge_well(run) -> None:
    """An entry that the rules refuse, hashed and named by the head as if it were true."""
    body = json.loads(bodies(run)[10])
    body["amount"]["epsilon"] = "9.5"
    text = json.dumps(body, separators=(",", ":"))
    run(f"UPDATE {ENTRIES} SET body = %s WHERE number = 10", (text,))
    rehash_all(run, head=True)


def executing(*statements: str):
    def change(run) -> None:
        for statement in statements:
            run(statement)

    return change


TAMPERINGS = {
    "an amount": (cheaper, "entry 7: its text is not what its digest was taken of"),
    "a name, hashed again": (
        lambda run: edit(run, 9, rehash=True, note="other"),
        "entry 10: it does not follow the entry before it",
    ),
    "a time, all hashed again": (
        lambda run: (
            edit(run, 5, rehash=True, time_utc="2001-01-01T00:00:00.000000Z"),
            rehash_all(run, head=True),
        ),
        "entry 5: its time is before",
    ),
    "a digest": (
        executing(f"UPDATE {ENTRIES} SET digest = '{'0' * 64}' WHERE number = 3"),
        "entry 3: its text is not what",
    ),
    "the release column": (
        executing(f"UPDATE {ENTRIES} SET release = 'two' WHERE number = 3"),
        "entry 3: it was moved",
    ),
    "free text": (
        lambda run: run(
            f"UPDATE {ENTRIES} SET body = 'x', digest = '{chain.digest('x')}' WHERE number = 3"
        ),
        "entry 3: the text is not that of a ledger entry",
    ),
    "the first deleted": (executing(f"DELETE FROM {ENTRIES} WHERE number = 1"), "1 is missing"),
    "one deleted": (executing(f"DELETE FROM {ENTRIES} WHERE number = 6"), "entry 6 is missing"),
    "one deleted, the rest renumbered": (
        executing(
            f"DELETE FROM {ENTRIES} WHERE number = 6",
            f"UPDATE {ENTRIES} SET number = number + 100 WHERE number > 6",
            f"UPDATE {ENTRIES} SET number = number - 101 WHERE number > 6",
        ),
        "entry 6: it was moved",
    ),
    "the last deleted": (executing(f"DELETE FROM {ENTRIES} WHERE number = 10"), "head names entry"),
    "all deleted": (executing(f"DELETE FROM {ENTRIES}"), "head names entry 10"),
    "two swapped": (swap, "entry 4: it was moved"),
    "two bodies swapped": (swap_bodies, "entry 4: it was moved"),
    "one added": (forge, "entry 11: it does not follow"),
    "a charge over the cap, all hashed again": (forge_well, "entry 10: it exceeds a cap"),
    "a total": (
        executing("UPDATE insular_ledger_populations SET epsilon_spent = '0.1'"),
        "population support: its stored state",
    ),
    "a total that is no number": (
        executing("UPDATE insular_ledger_populations SET epsilon_spent = 'none'"),
        "a running total is not a decimal",
    ),
    "a cap": (
        executing("UPDATE insular_ledger_populations SET epsilon_cap = '30'"),
        "population support: its stored state",
    ),
    "a release's state": (
        executing("UPDATE insular_ledger_releases SET state = 'aborted' WHERE name = 'one'"),
        "release one: its stored state",
    ),
    "a release deleted": (
        executing("DELETE FROM insular_ledger_releases WHERE name = 'one'"),
        "release one: its stored state",
    ),
    "the identity": (executing("UPDATE insular_ledger SET ledger_id = 'x'"), "head's identity"),
    "the head": (executing("UPDATE insular_ledger SET n_entries = 9"), "the head names entry 9"),
}


@pytest.mark.parametrize("name", TAMPERINGS)
def test_every_tampering_is_found(where, name):
    tamper, words = TAMPERINGS[name]
    ledger = small_ledger(where)
    with raw(where) as run:
        tamper(run)
    found = ledger.verify()
    assert not found.intact
    assert any(words in fault for fault in found.faults), found.faults
    assert all("\n" not in fault for fault in found.faults)


def test_a_true_ledger_is_intact_with_every_head_it_ever_had(where):
    ledger = small_ledger(where)
    heads = [ledger.status().head]
    for number in range(5):
        heads.append(ledger.cover("one", artifacts=[f"{number:064x}"]).head)
    for head in heads:
        found = ledger.verify(head=head)
        assert found.intact and found.faults == () and found.checked_head == head
    assert found.n_entries == 15 and found.head == heads[-1]


def test_a_chain_that_was_cut_or_written_anew_is_found_by_a_kept_head(where):
    ledger = small_ledger(where)
    kept = ledger.status().head
    with raw(where) as run:  # the last entry never happened, and all totals agree
        digest = json.loads(bodies(run)[10])["previous"]
        time = json.loads(bodies(run)[9])["time_utc"]
        run(f"DELETE FROM {ENTRIES} WHERE number = 10")
        values = (digest, time)
        run("UPDATE insular_ledger SET n_entries = 9, digest = %s, last_time_utc = %s", values)
        run("UPDATE insular_ledger_populations SET epsilon_reserved = '0.5'")
        run("UPDATE insular_ledger_releases SET epsilon = '0.5' WHERE name = 'four'")
    assert ledger.verify().intact  # nothing inside the database can tell
    cut = ledger.verify(head=kept)
    assert not cut.intact and "the kept head, entry 10, is not in this chain" in cut.faults[0]
    with raw(where) as run:
        edit(run, 7, rehash=True, note="written anew")
        rehash_all(run, head=True)
    assert ledger.verify().intact
    kept_nine = f"9:{digest}"
    assert not ledger.verify(head=kept_nine).intact


@pytest.mark.parametrize("head", ["", "x", "1", "1:abc", f"0:{'a' * 64}", f"1:{'A' * 64}"])
def test_a_head_has_one_form(where, head):
    ledger = small_ledger(where)
    if not head:
        assert ledger.verify(head=head).checked_head == ""
        return
    with pytest.raises(InvalidArgumentError, match="head must be NUMBER:SHA256"):
        ledger.verify(head=head)


def test_an_entrys_text_is_read_back_exactly(where):
    for entry in small_ledger(where).history(last=1000):
        text = chain.written(entry)
        assert chain.read(text) == entry and chain.written(chain.read(text)) == text
        for other in (text + " ", text.replace(":", ": ", 1), text[:-1], "[]", "null", "{}"):
            with pytest.raises(LedgerError, match="not that of a ledger entry"):
                chain.read(other)


def test_the_chain_worked_by_hand(tmp_path):
    import hashlib

    ledger = small_ledger(tmp_path / "l.db")
    first, second = ledger.history(last=1000)[:2]
    assert first.previous == ""
    assert second.previous == hashlib.sha256(chain.written(first).encode()).hexdigest()
    assert second.amount == A("3.0", "3e-6")


def test_a_ledger_of_another_format_is_refused(where):
    ledger = small_ledger(where)
    with raw(where) as run:
        run("UPDATE insular_ledger SET format_version = 2")
    for ask in (ledger.status, ledger.verify, lambda: ledger.abort("four", reason="x")):
        with pytest.raises(LedgerError) as caught:
            ask()
        assert "has ledger format 2, and this insular reads 1" in str(caught.value)
    with raw(where) as run:
        run("UPDATE insular_ledger SET format_version = 1")
    assert Ledger(where).verify().intact
