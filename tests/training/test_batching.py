"""Physical batches: every record once, owners together, within the token limit, in one order."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insular.errors import InvalidArgumentError
from insular.records.tokens import TokenisedRecord
from insular.training.batching import (
    MIN_TOKENS,
    Batching,
    PhysicalBatch,
    Units,
    padded_width,
    physical_batches,
)


def record(name: str, length: int, owner: str = "") -> TokenisedRecord:
    return TokenisedRecord(id=name, owner=owner or name, tokens=tuple(range(1, length + 1)))


def units_of(lengths: list[list[int]]) -> Units:
    return [
        tuple(record(f"o{u}/r{i}", n, f"o{u}") for i, n in enumerate(unit))
        for u, unit in enumerate(lengths)
    ]


def batches(units: Units, *, max_tokens: int = 64, **settings: object) -> list[PhysicalBatch]:
    batching = Batching(max_tokens=max_tokens, pad_token_id=0, **settings)
    return list(physical_batches(units, batching=batching))


def order(found: list[PhysicalBatch]) -> list[str]:
    return [name for batch in found for name in batch.tokens.record_ids]


LENGTHS = st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=4), min_size=0, max_size=12)


@given(lengths=LENGTHS, max_tokens=st.integers(40, 400), seats=st.sampled_from([0, 1]))
@settings(max_examples=150, deadline=None)
def test_each_record_comes_once_and_within_the_limit(
    lengths: list[list[int]], max_tokens: int, seats: int
) -> None:
    units = units_of(lengths)
    flat = [r for unit in units for r in unit]
    found = batches(units, max_tokens=max_tokens, seats=seats)
    assert sorted(order(found)) == sorted(r.id for r in flat)
    for batch in found:
        rows, width = batch.tokens.shape
        assert rows * width <= max_tokens
        assert {min(padded_width(len(flat[row].tokens)), max_tokens) for row in batch.rows} == {
            width
        }
        assert seats == 0 or rows == 1
        for i, (unit, row) in enumerate(zip(batch.units, batch.rows, strict=True)):
            assert flat[row].id == batch.tokens.record_ids[i]
            assert flat[row] in units[unit]


@given(lengths=LENGTHS, max_tokens=st.integers(40, 200))
@settings(max_examples=100, deadline=None)
def test_at_most_one_unit_is_open_at_any_time(lengths: list[list[int]], max_tokens: int) -> None:
    owners = [
        unit for batch in batches(units_of(lengths), max_tokens=max_tokens) for unit in batch.units
    ]
    runs = [unit for i, unit in enumerate(owners) if i == 0 or owners[i - 1] != unit]
    assert len(runs) == len(set(runs)) == len(lengths)


@given(lengths=LENGTHS, seed=st.integers(0, 99), sizes=st.lists(st.integers(40, 400), min_size=2))
@settings(max_examples=100, deadline=None)
def test_neither_the_draw_s_order_nor_max_tokens_moves_the_order(
    lengths: list[list[int]], seed: int, sizes: list[int]
) -> None:
    units = list(units_of(lengths))
    first = order(batches(units, max_tokens=40))
    for size in sizes:
        random.Random(seed).shuffle(units)
        mixed = [tuple(random.Random(seed).sample(unit, len(unit))) for unit in units]
        assert order(batches(mixed, max_tokens=size)) == first


def test_records_of_like_length_share_a_batch_so_that_little_is_padding() -> None:
    lengths = [[n] for n in (8, 32, 9, 31, 10, 30)]
    found = batches(units_of(lengths), max_tokens=96)
    assert [batch.tokens.shape for batch in found] == [(3, 32), (3, 16)]


def test_a_record_s_width_does_not_depend_on_the_others() -> None:
    for company in ([[17]], [[17], [2], [64]], [[17], [17, 30, 5]]):
        for batch in batches(units_of(company), max_tokens=512):
            assert "o0/r0" not in batch.tokens.record_ids or batch.tokens.shape[1] == 32


def test_padding_is_at_most_15_tokens_or_a_quarter() -> None:
    known = {1: 16, 2: 16, 16: 16, 17: 32, 128: 128, 129: 160, 256: 256, 257: 320, 2048: 2048}
    assert {n: padded_width(n) for n in known} == known
    assert all(0 <= padded_width(n) - n <= max(15, n // 4) for n in range(1, 5000))


def test_the_longest_record_that_fits_is_padded_to_the_limit() -> None:
    assert batches(units_of([[17]]), max_tokens=20)[0].tokens.shape == (1, 20)


def test_a_batch_is_made_when_it_is_asked_for() -> None:
    units = units_of([[30], [20], [10]])
    stream = physical_batches(units, batching=Batching(max_tokens=30, pad_token_id=0))
    assert next(stream).tokens.record_ids == ("o0/r0",)
    assert next(stream).tokens.record_ids == ("o1/r0",)


def test_no_unit_is_no_batch() -> None:
    assert batches([]) == []


@given(
    present=st.sets(st.integers(0, 29), max_size=20),
    added=st.integers(0, 29),
    seats=st.integers(2, 5),
)
@settings(max_examples=150, deadline=None)
def test_adding_a_record_changes_the_company_of_its_seats_only(
    present: set[int], added: int, seats: int
) -> None:
    names = [f"r{i}" for i in range(30)]
    places = {name: i for i, name in enumerate(names)}
    lengths = random.Random(1).choices(range(2, 40), k=30)

    def company(who: set[int]) -> dict[str, tuple[int, frozenset[str]]]:
        units = [(record(names[i], lengths[i]),) for i in sorted(who)]
        found = batches(units, max_tokens=80, seats=seats, places=places)
        for batch in found:
            assert len({places[name] // seats for name in batch.tokens.record_ids}) == 1
        return {
            name: (batch.tokens.shape[1], frozenset(batch.tokens.record_ids))
            for batch in found
            for name in batch.tokens.record_ids
        }

    without, other = company(present - {added}), company(present | {added})
    moved = [name for name in without if without[name] != other[name]]
    assert len(moved) <= seats - 1
    assert all(places[name] // seats == added // seats for name in moved)


def test_a_record_that_does_not_fit_is_named_with_the_limit() -> None:
    with pytest.raises(
        InvalidArgumentError,
        match=r"max_tokens must hold the longest record, got max_tokens=16 for id='o1/r0' with 17",
    ):
        batches(units_of([[16], [17]]), max_tokens=16)


@pytest.mark.parametrize(
    ("units", "message"),
    [
        ([()], "each unit must have at least one record"),
        ([(record("a", 9),), (record("a", 9),)], "must be drawn once, got a second one of unit"),
        ([(record("a", 9), record("a", 9))], "must be drawn once"),
    ],
)
def test_a_unit_that_is_empty_or_comes_twice_is_refused(units: Units, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        batches(units)


def test_seats_need_places_and_single_records() -> None:
    with pytest.raises(InvalidArgumentError, match=r"places must hold every record when seats=4"):
        batches(units_of([[9]]), seats=4)
    places = {"o0/r0": 0, "o0/r1": 1}
    with pytest.raises(
        InvalidArgumentError, match=r"seats must be 0 or 1 where a unit has several"
    ):
        batches(units_of([[9, 9]]), seats=4, places=places)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"max_tokens": MIN_TOKENS - 1}, r"max_tokens must be an integer >= 8, got max_tokens=7"),
        ({"seats": -1}, r"seats must be an integer >= 0, got seats=-1"),
        ({"pad_token_id": -1}, r"pad_token_id must be an integer >= 0"),
    ],
)
def test_settings_are_checked(setting: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        Batching(**{"max_tokens": 64, "pad_token_id": 0} | setting)
