"""Copies among non-members: planted ones are found, different texts are not."""

import random

import pytest

from insular.audit.membership.duplicates import near_duplicates, repeated_texts
from insular.errors import InvalidArgumentError
from insular.records import Record


def record(name: str, text: str) -> Record:
    return Record(id=name, owner=name, text=text)


def texts(prefix: str, n: int, *, seed: int, words: int = 20) -> list[Record]:
    rng = random.Random(seed)
    return [
        record(f"{prefix}{i}", " ".join(f"w{rng.randrange(400)}" for _ in range(words)))
        for i in range(n)
    ]


def slow(a: str, b: str, size: int = 5) -> float:
    """Jaccard's similarity of shingles, as it is defined."""
    sets = []
    for text in (a, b):
        words = text.lower().split()
        count = max(1, len(words) - size + 1)
        sets.append({tuple(words[i : i + size]) for i in range(count)})
    return len(sets[0] & sets[1]) / len(sets[0] | sets[1])


def test_copies_up_to_white_space_and_case_are_found() -> None:
    """Case aud-07: 30 members with doubled spaces and a trailing newline."""
    members = texts("m", 100, seed=1)
    copies = [
        record(f"c{i}", m.text.replace(" ", "  ").upper() + "\n") for i, m in enumerate(members)
    ]
    found = near_duplicates(members, [*texts("n", 70, seed=2), *copies[:30]], threshold=0.5)
    assert len(found) == 30
    assert {(one.non_member, one.seen) for one in found} == {(f"c{i}", f"m{i}") for i in range(30)}
    assert {one.similarity for one in found} == {1.0}


def test_similarity_is_what_it_is_defined_to_be() -> None:
    members = texts("m", 40, seed=3)
    others = []
    for i, member in enumerate(members):
        words = member.text.split()
        words[i % 20] = "changed"
        others.append(record(f"o{i}", " ".join(words)))
    found = near_duplicates(members, others, threshold=0.01)
    assert len(found) == 40
    for i, one in enumerate(found):
        assert one.similarity == pytest.approx(slow(members[i].text, others[i].text))


def test_the_threshold_decides() -> None:
    member = record("m", " ".join(f"w{i}" for i in range(20)))
    other = record("o", member.text.replace("w10 ", "x "))
    assert slow(member.text, other.text) == pytest.approx(11 / 21)
    assert near_duplicates([member], [other], threshold=0.52)
    assert not near_duplicates([member], [other], threshold=0.53)


def test_the_order_of_the_records_does_not_matter() -> None:
    members, others = texts("m", 300, seed=4), texts("n", 300, seed=5)
    others[7] = record("n7", members[299].text)
    found = near_duplicates(members, others, threshold=0.5)
    turned = near_duplicates(members[::-1], others[::-1], threshold=0.5)
    assert found == turned and [one.non_member for one in found] == ["n7"]


def test_short_texts_and_empty_files() -> None:
    assert near_duplicates([record("a", "Yes.")], [record("b", "yes .")], threshold=1.0)
    assert not near_duplicates([record("a", "yes")], [record("b", "no")], threshold=0.1)
    assert near_duplicates([], [record("b", "no")], threshold=0.1) == ()
    assert near_duplicates([record("a", "...")], [record("b", "...")], threshold=0.9)


def test_repeated_texts_are_counted() -> None:
    rows = [record("a", "One two"), record("b", "one  TWO\n"), record("c", "three")]
    assert repeated_texts(rows) == 1


def test_a_threshold_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="threshold must be finite and > 0"):
        near_duplicates([record("a", "x")], [record("b", "x")], threshold=0.0)
