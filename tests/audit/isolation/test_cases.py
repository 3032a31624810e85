"""The planned batches change one thing at a time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.rigs import quiet_records, record
from insular.audit.isolation.cases import Case, plan_cases
from insular.audit.spec import AXES
from insular.errors import InvalidArgumentError

LENGTHS = st.lists(st.integers(1, 12), min_size=2, max_size=6)


def plan(lengths: list[int], extra: int = 4) -> tuple[Case, ...]:
    base, spares = quiet_records(0, lengths=lengths, n_spares=len(lengths))
    return plan_cases(base, spares, width=max(lengths), extra_padding_tokens=extra)


def lengths_of(case: Case) -> list[int]:
    return [len(one.tokens) for one in case.records]


def on(axis: str, cases: tuple[Case, ...]) -> list[Case]:
    return [case for case in cases if case.axis == axis]


@given(LENGTHS)
def test_a_content_case_keeps_every_records_length(lengths):
    for case in on("content", plan(lengths)):
        assert lengths_of(case) == lengths
        assert case.width == max(lengths)


@given(LENGTHS)
def test_a_length_case_keeps_the_batchs_padded_shape_and_brings_in_a_shorter_record(lengths):
    for case in on("length", plan(lengths)):
        (position,) = set(range(len(lengths))) - {before for before, _ in case.kept}
        assert case.width == max(lengths)
        assert len(case.records) == len(lengths)
        assert lengths_of(case)[position] < lengths[position]


@given(LENGTHS)
def test_each_base_record_is_replaced_once_on_the_content_axis_and_each_other_watches(lengths):
    cases = on("content", plan(lengths))
    assert [case.changed for case in cases] == [(f"base-{i}",) for i in range(len(lengths))]
    for position, case in enumerate(cases):
        assert case.kept == tuple((i, i) for i in range(len(lengths)) if i != position)
        assert case.brought_in[0].startswith(f"spare-{position}")


@given(LENGTHS)
def test_kept_records_are_the_same_objects_at_the_named_positions(lengths):
    base, spares = quiet_records(0, lengths=lengths, n_spares=len(lengths))
    cases = plan_cases(base, spares, width=max(lengths), extra_padding_tokens=4)
    assert len({case.name for case in cases}) == len(cases)
    for case in cases:
        assert all(case.records[after] is base[before] for before, after in case.kept)


def test_the_plan_of_four_records_in_full():
    cases = plan([10, 8, 12, 9])
    assert [case.name for case in cases] == [
        *(f"content-{i}" for i in range(4)),
        "length-0",
        "length-2",
        "length-3",
        "order-reversed",
        "presence-0",
        "presence-2",
        "presence-3",
        *(f"shape-alone-{i}" for i in range(4)),
        "shape-first-half",
        "shape-second-half",
        "shape-padded",
    ]
    assert {case.axis for case in cases} == set(AXES)
    by_name = {case.name: case for case in cases}
    assert by_name["order-reversed"].kept == ((0, 3), (1, 2), (2, 1), (3, 0))
    assert by_name["presence-0"].kept == ((1, 0), (2, 1), (3, 2))
    assert by_name["shape-alone-1"].width == 8
    assert by_name["shape-second-half"].kept == ((2, 0), (3, 1))
    assert by_name["shape-padded"].width == 16
    bounds = {case.axis: case.bound for case in cases}
    assert bounds == {"content": 2, "length": 2, "order": None, "presence": 1, "shape": None}


def test_a_shortened_spare_says_so_in_its_id():
    assert plan([10, 12])[0].brought_in == ("spare-0[:10]",)
    assert plan([10, 12])[1].brought_in == ("spare-1",)


def test_two_records_have_no_halves():
    assert not [case for case in plan([4, 4]) if "half" in case.name]


@pytest.mark.parametrize(
    ("n_base", "n_spares", "message"),
    [
        (1, 4, r"must have at least 2 records, got 1; give more text"),
        (3, 2, r"must have a spare record for each of 3, got 2; give more text"),
    ],
)
def test_too_few_records_are_refused(n_base, n_spares, message):
    base, spares = quiet_records(0, lengths=[5] * n_base, n_spares=n_spares)
    with pytest.raises(InvalidArgumentError, match=message):
        plan_cases(base, spares, width=5, extra_padding_tokens=1)


def test_a_spare_that_is_too_short_is_named():
    base, _ = quiet_records(0, lengths=[5, 5])
    spares = (record("stub", 3, 4), record("full", 3, 4, 5, 6, 7))
    with pytest.raises(InvalidArgumentError, match="at least 5 tokens, got 2 in stub; give longer"):
        plan_cases(base, spares, width=5, extra_padding_tokens=1)
