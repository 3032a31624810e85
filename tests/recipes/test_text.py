"""Which records an audit takes from a corpus."""

import pytest

from insular.errors import RecordError
from insular.recipes.audit.spec import AuditSpec
from insular.recipes.text import choose_records
from insular.records import Corpus, Record


def corpus(*lengths: int, owners: int = 10**6) -> Corpus:
    records = tuple(
        Record(id=f"r{i}", owner=f"o{i % owners}", text="x" * length)
        for i, length in enumerate(lengths)
    )
    return Corpus(name="made", unit="owner", records=records)


def encode(text: str) -> list[int]:
    return [1] * len(text)


SPEC = AuditSpec(batch=2, tokens=16)


def test_the_shortest_usable_records_are_the_base_and_no_spare_is_shorter() -> None:
    text = choose_records(corpus(12, 5, 9, 40, 16, 14), encode, SPEC)
    assert [record.id for record in text.base] == ["r2", "r0"]
    assert [len(record.tokens) for record in text.spares] == [16, 16]
    assert text.width == 12
    assert text.n_cut == 1


def test_records_below_half_are_taken_only_if_the_others_do_not_suffice() -> None:
    text = choose_records(corpus(12, 5, 6, 13), encode, SPEC)
    assert [len(record.tokens) for record in text.base] == [5, 6]


def test_new_owners_come_first() -> None:
    spec = AuditSpec(batch=2, tokens=8)
    chosen = choose_records(corpus(*[8] * 40, owners=4), encode, spec)
    assert {record.owner for record in (*chosen.base, *chosen.spares)} >= {"o0", "o1"}
    assert [record.id for record in chosen.base] == ["r0", "r1"]


def test_the_same_corpus_gives_the_same_records() -> None:
    made = corpus(9, 10, 11, 12, 13, 14, 15, 16)
    assert choose_records(made, encode, SPEC) == choose_records(made, encode, SPEC)


def test_too_few_or_too_short_records_are_refused() -> None:
    with pytest.raises(RecordError, match=r"--batch 2 must have 4 records .* got 3"):
        choose_records(corpus(9, 9, 9), encode, SPEC)
    with pytest.raises(RecordError, match="at least 4 tokens to be audited, got fewer in r0"):
        choose_records(corpus(2, 9, 9, 9), encode, SPEC)
