"""A difference of the files alone: planted ones are found, a random split is not."""

import random

import pytest

from insular.audit.membership.shift import distribution_shift
from insular.errors import InvalidArgumentError
from insular.records import Record


def record(name: str, text: str) -> Record:
    return Record(id=name, owner=name, text=text)


def texts(prefix: str, n: int, *, seed: int, first: int = 0, words: int = 15) -> list[Record]:
    rng = random.Random(seed)
    return [
        record(f"{prefix}{i}", " ".join(f"word{first + rng.randrange(60)}" for _ in range(words)))
        for i in range(n)
    ]


def test_a_random_split_has_no_shift() -> None:
    """8 splits at 0.05, half of it on this side: more than 2 alarms have probability 0.001."""
    alarms = 0
    for seed in range(8):
        found = distribution_shift(texts("m", 60, seed=seed), texts("n", 60, seed=100 + seed))
        alarms += found.found
    assert alarms <= 2


def test_other_words_are_found() -> None:
    found = distribution_shift(texts("m", 60, seed=1), texts("n", 60, seed=2, first=30))
    assert found.found and found.auc.area > 0.9


def test_other_lengths_are_found() -> None:
    found = distribution_shift(texts("m", 80, seed=1), texts("n", 80, seed=2, words=30))
    assert found.found and found.auc.area > 0.9


def test_dates_are_found() -> None:
    """Members of one year and non-members of the next: what many published attacks learnt."""
    rng = random.Random(5)
    rows = {
        year: [
            record(
                f"{year}-{i}",
                " ".join(f"word{rng.randrange(60)}" for _ in range(12)) + f" in {year}",
            )
            for i in range(60)
        ]
        for year in ("2023", "2024")
    }
    assert distribution_shift(rows["2023"], rows["2024"]).auc.area > 0.9


def test_members_that_repeat_a_text_are_not_learnt_by_heart() -> None:
    members = texts("m", 12, seed=3)
    copies = [record(f"{one.id}-{i}", one.text) for one in members for i in range(6)]
    assert not distribution_shift(copies, texts("n", 72, seed=4)).auc.lower > 0.7


def test_the_order_of_the_records_does_not_matter() -> None:
    members, others = texts("m", 30, seed=1), texts("n", 40, seed=2)
    found = distribution_shift(members, others)
    assert distribution_shift(members[::-1], others[::-1]).auc.area == found.auc.area
    assert (found.auc.n_members, found.auc.n_non_members) == (30, 40)


def test_few_records_are_refused_and_the_fewest_are_not() -> None:
    with pytest.raises(InvalidArgumentError, match="members must hold at least 4 records, got 3"):
        distribution_shift(texts("m", 3, seed=1), texts("n", 9, seed=2))
    assert not distribution_shift(texts("m", 4, seed=1), texts("n", 4, seed=2)).found
