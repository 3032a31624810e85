import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import TypeCheckError

from insular.errors import InvalidArgumentError, RecordError
from insular.records import Corpus, Record
from insular.records.corpus import digest_of


def record(name="a", owner=None, text="secret words"):
    return Record(id=name, owner=owner or name, text=text)


def corpus(*records, unit="record"):
    return Corpus(name="c", unit=unit, records=records)


def test_importing_records_does_not_import_torch():
    code = "import insular.records, sys; assert not {'torch', 'pyarrow'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_repr_shows_no_text():
    shown = repr(record()) + repr(corpus(record()))
    assert "secret" not in shown
    assert "n_characters=12" in shown
    assert "id='a'" in shown


def test_counts_records_and_owners():
    made = corpus(record("a", "u", "x"), record("b", "u", "x"), record("c", "v", "y"), unit="owner")
    assert (made.n_records, made.n_owners, made.n_units) == (3, 2, 2)


def test_record_ids_are_unique():
    with pytest.raises(RecordError, match=r"id='a' twice; rename one\.$"):
        corpus(record("a"), record("a"))


def test_refuses_no_records():
    with pytest.raises(RecordError, match="at least one record"):
        corpus()


def test_under_unit_record_each_owner_equals_its_records_id():
    with pytest.raises(InvalidArgumentError, match="owner='u' for id='a'; use unit='owner'"):
        corpus(record("a", "u"))


def test_refuses_unknown_unit():
    # The type checker that the suite may run under refuses it first.
    refused = (InvalidArgumentError, TypeCheckError)
    with pytest.raises(refused, match="unit must be one of record, owner|parameter 'unit'"):
        corpus(record(), unit="user")


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=3), max_size=6).map(tuple))
def test_digest_tells_sequences_apart(parts):
    changed = ["".join(parts)] if len(parts) > 1 else [*parts, ""]
    assert digest_of(parts) == digest_of(list(parts))
    assert digest_of(parts) != digest_of(changed)


def test_digest_depends_on_ids_owners_texts_and_order():
    one, two = record("a", "u"), record("b", "u")
    digests = {
        corpus(*rows, unit="owner").digest
        for rows in [
            (one, two),
            (two, one),
            (one,),
            (record("x", "u"), two),
            (record("a", "v"), two),
            (record("a", "u", "other"), two),
        ]
    }
    assert len(digests) == 6
    assert all(len(digest) == 64 for digest in digests)
