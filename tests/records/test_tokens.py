import pytest
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import TypeCheckError

from insular.errors import InvalidArgumentError, RecordError
from insular.records import Corpus, Record, tokenise

# The type checker that the suite may run under refuses an unknown choice first.
REFUSED = (InvalidArgumentError, TypeCheckError)


def encode(text):
    """One token a character."""
    return [ord(letter) for letter in text]


def corpus(*texts, owners=None):
    unit = "owner" if owners else "record"
    names = [f"c:{number}" for number in range(1, len(texts) + 1)]
    records = [
        Record(id=name, owner=owner, text=text)
        for name, owner, text in zip(names, owners or names, texts, strict=True)
    ]
    return Corpus(name="c", unit=unit, records=tuple(records))


NINE_SHORT_AND_A_LONG_ONE = corpus(*["short"] * 9, "x" * 4992 + "canary!!")


def test_long_record_is_an_error_by_default():
    with pytest.raises(RecordError) as caught:
        tokenise(NINE_SHORT_AND_A_LONG_ONE, encode, max_tokens=128)
    assert "at most 128 tokens, got more in corpus c: c:10 (5000); " in str(caught.value)
    assert "canary" not in str(caught.value)


def test_no_token_is_lost_without_being_counted():
    made = tokenise(NINE_SHORT_AND_A_LONG_ONE, encode, max_tokens=128, too_long="truncate")
    assert made.truncated_ids == ("c:10",)
    assert made.lost_tokens == 5000 - 128
    assert made.records[9].lost_tokens == 5000 - 128
    assert made.n_tokens == 9 * 5 + 128
    assert (made.unit, made.n_owners) == ("record", 10)


def test_windows_of_one_record_stay_one_privacy_unit():
    made = tokenise(NINE_SHORT_AND_A_LONG_ONE, encode, max_tokens=128, too_long="window")
    windows = [record for record in made.records if record.id.startswith("c:10")]
    assert len(windows) == 40
    assert {window.owner for window in windows} == {"c:10"}
    assert (made.unit, made.n_records, made.n_owners) == ("owner", 49, 10)
    assert (made.split_ids, made.lost_tokens) == (("c:10",), 0)
    assert (windows[0].id, windows[39].id) == ("c:10#0", "c:10#39")
    assert windows[39].tokens[-8:] == tuple(encode("canary!!"))


def test_windows_keep_the_owner():
    made = tokenise(
        corpus("abcdef", "xy", owners=["u", "u"]), encode, max_tokens=3, too_long="window"
    )
    assert [record.owner for record in made.records] == ["u", "u", "u"]


def test_unit_stays_record_where_nothing_is_split():
    made = tokenise(corpus("ab", "cd"), encode, max_tokens=2, too_long="window")
    assert (made.unit, made.split_ids) == ("record", ())
    assert [record.id for record in made.records] == ["c:1", "c:2"]


@given(st.integers(2, 40), st.integers(2, 9), st.integers(0, 5))
def test_windows_cover_the_record(length, max_tokens, less):
    min_tokens = max(2, max_tokens - less)
    text = "".join(chr(97 + position) for position in range(length))
    if length < min_tokens:
        return
    made = tokenise(
        corpus(text), encode, max_tokens=max_tokens, min_tokens=min_tokens, too_long="window"
    )
    position = 0
    for window in made.records:
        assert min_tokens <= len(window.tokens) <= max_tokens
        start = encode(text).index(window.tokens[0])
        assert start <= position
        assert list(window.tokens) == encode(text)[start : start + len(window.tokens)]
        position = start + len(window.tokens)
    assert position == length


def test_too_short_records_are_dropped_with_their_ids():
    made = tokenise(corpus("a", "ab", "b"), encode, max_tokens=8)
    assert made.too_short_ids == ("c:1", "c:3")
    assert [record.id for record in made.records] == ["c:2"]


def test_nothing_left_is_an_error():
    with pytest.raises(RecordError, match="all 2 are too short to have a next-token loss"):
        tokenise(corpus("a", "b"), encode, max_tokens=8)


def test_the_tokens_of_a_record_depend_on_its_text_alone():
    alone = tokenise(corpus("abc"), encode, max_tokens=8).records[0]
    assert tokenise(corpus("abc", "other"), encode, max_tokens=8).records[0] == alone


def test_window_id_that_is_taken_is_refused():
    taken = Corpus(
        name="c",
        unit="record",
        records=(
            Record(id="a", owner="a", text="abcd"),
            Record(id="a#0", owner="a#0", text="ab"),
        ),
    )
    with pytest.raises(InvalidArgumentError, match="must not look like window ids"):
        tokenise(taken, encode, max_tokens=2, too_long="window")


def test_digest_depends_on_tokens_and_owner():
    digests = {
        tokenise(made, encode, max_tokens=8).digest
        for made in (corpus("ab"), corpus("ac"), corpus("ab", owners=["u"]))
    }
    assert len(digests) == 3


def test_repr_shows_no_tokens():
    made = tokenise(corpus("zz"), encode, max_tokens=8)
    assert str(ord("z")) not in repr(made.records[0]) + repr(made).replace(made.digest, "")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_tokens": 8, "min_tokens": 1}, "min_tokens must be an integer >= 2"),
        ({"max_tokens": 1}, "max_tokens must be an integer >= 2"),
        (
            {"max_tokens": 8, "too_long": "drop"},
            "too_long must be one of error, truncate, window|parameter 'too_long'",
        ),
    ],
)
def test_refuses_bad_options(options, message):
    with pytest.raises(REFUSED, match=message):
        tokenise(corpus("ab"), encode, **options)
