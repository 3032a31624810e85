"""Queries: sensitivities against brute force, clamping, empty data, and what errors say."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from insular.accounting import Relation
from insular.errors import InvalidArgumentError
from insular.mechanisms import (
    Count,
    DeclaredValue,
    Histogram,
    Laplace,
    Mean,
    Query,
    SeededNoise,
    Sum,
)
from insular.mechanisms.queries import Norm

ADD: dict[str, Any] = {"relation": "add_or_remove_one", "unit": "record"}
REPLACE: dict[str, Any] = {"relation": "replace_one", "unit": "record"}
QUERIES = [
    (Count(**ADD), [True, False]),
    (Count(**REPLACE), [True, False]),
    (Sum(lower=-2.0, upper=3.0, **ADD), [-9.0, -2.0, 0.3, 9.0]),
    (Sum(lower=-2.0, upper=3.0, **REPLACE), [-9.0, -2.0, 0.3, 9.0]),
    (Sum(lower=1e9, upper=1e9 + 1, **REPLACE), [0.0, 1e9 + 0.5, 2e9]),
    (Sum(lower=0.1, upper=0.7, **ADD), [0.0, 0.3, 1.0]),
    (Mean(lower=0.1, upper=0.7, n_units=3, **REPLACE), [0.0, 0.3, 1.0]),
    (Mean(lower=0.1, upper=0.7, **ADD), [0.0, 0.3, 1.0]),
    (Histogram(categories=("a", "b"), unseen="other", **ADD), ["a", "b", "c"]),
    (Histogram(categories=("a", "b"), unseen="other", **REPLACE), ["a", "b", "c"]),
]


def neighbors(relation: Relation, domain: list[Any], size: int) -> list[tuple[list, list]]:
    """All pairs of neighbours of a small size over a small domain."""
    found = []
    for data in itertools.product(domain, repeat=size):
        if relation == "replace_one":
            found += [(list(data), [x, *data[1:]]) for x in domain]
        else:
            found.append((list(data), list(data[1:])))
    return found


@pytest.mark.parametrize(("query", "domain"), QUERIES, ids=lambda x: getattr(x, "name", ""))
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_steps_moved_is_attained_and_never_exceeded(
    query: Query, domain: list[Any], norm: Norm
) -> None:
    furthest = 0.0
    for one, other in neighbors(query.relation, domain, 3):
        moves = [a - b for a, b in zip(query.steps(one), query.steps(other), strict=True)]
        distance = sum(map(abs, moves)) if norm == "l1" else math.hypot(*moves)
        furthest = max(furthest, distance)
    assert furthest <= query.steps_moved(norm)
    assert furthest == pytest.approx(query.steps_moved(norm), rel=1e-9)


@given(
    values=st.lists(st.floats(-1e6, 1e6), max_size=20),
    extra=st.floats(allow_nan=False, allow_infinity=False),
    lower=st.floats(-1e3, 1e3),
    width=st.floats(1e-3, 1e3),
)
def test_no_rounding_moves_a_sum_further(
    values: list[float], extra: float, lower: float, width: float
) -> None:
    """Floating-point addition in another order would; whole steps do not."""
    query = Sum(lower=lower, upper=lower + width, **ADD)
    moved = query.steps([*values, extra])[0] - query.steps(values)[0]
    assert abs(moved) <= query.steps_moved("l1")
    assert query.steps([extra, *values]) == query.steps([*values, extra])
    assert query.sensitivity() == pytest.approx(max(abs(lower), abs(lower + width)), rel=1e-8)


def test_sensitivities_by_hand() -> None:
    assert Count(**ADD).sensitivity() == Count(**REPLACE).sensitivity() == 1.0
    assert Sum(lower=-2, upper=3, **ADD).sensitivity() == pytest.approx(3.0)
    assert Sum(lower=-2, upper=3, **REPLACE).sensitivity() == pytest.approx(5.0)
    ages = Mean(lower=0, upper=100, n_units=1000, **REPLACE)
    assert ages.sensitivity() == pytest.approx(0.1)
    histogram = Histogram(categories=("a", "b"), unseen="refuse", **REPLACE)
    assert histogram.sensitivity("l1") == 2.0
    assert histogram.sensitivity("l2") == pytest.approx(math.sqrt(2), rel=1e-9)
    assert Histogram(categories=("a",), unseen="refuse", **ADD).sensitivity("l2") == 1.0


def test_without_noise_a_query_tells_the_truth() -> None:
    summed = Sum(lower=0.0, upper=10.0, **ADD)
    assert summed.finish(summed.steps([1.5, 2.25, 99.0, -5.0])) == pytest.approx(13.75, abs=1e-7)
    public = Mean(lower=0, upper=100, n_units=4, **REPLACE)
    assert public.finish(public.steps([10, 20, 30, 1000])) == pytest.approx(40.0, abs=1e-6)
    private = Mean(lower=0, upper=100, **ADD)
    assert private.finish(private.steps([10, 20, 30, 1000])) == pytest.approx(40.0, abs=1e-6)
    histogram = Histogram(categories=("x", "y"), unseen="other", **ADD)
    assert histogram.finish(histogram.steps(["y", "q", "y"])) == {"x": 0, "y": 2, "other": 1}
    declared = DeclaredValue(declared_sensitivity=0.1, **ADD)
    assert declared.finish(declared.steps(-7.25)) == pytest.approx(-7.25, abs=1e-9)


def test_arrays_are_data_too() -> None:
    summed = Sum(lower=0.0, upper=10.0, **ADD)
    expected = summed.steps([1.0, 2.0])
    for values in (
        np.array([1.0, 2.0]),
        np.array([1, 2], dtype=np.int16),
        (1, 2),
        [np.int64(1), 2],
    ):
        assert summed.steps(values) == expected
    assert Count(**ADD).steps(np.array([True, False])) == Count(**ADD).steps([True])


def test_empty_data_is_answered_like_any_other() -> None:
    noise = SeededNoise(6)
    laplace = Laplace(epsilon=1.0)
    assert isinstance(laplace.release(Count(**ADD), [], noise=noise).value, int)
    assert laplace.release(Sum(lower=0.0, upper=1.0, **ADD), [], noise=noise).value != 0
    found = [
        laplace.release(Mean(lower=0, upper=100, **ADD), [], noise=noise).value for _ in range(50)
    ]
    assert all(isinstance(x, float) and 0 <= x <= 100 for x in found)
    assert len(set(found)) > 10
    value = laplace.release(
        Histogram(categories=("a", "b"), unseen="other", **ADD), [], noise=noise
    ).value
    assert isinstance(value, dict)
    assert list(value) == ["a", "b", "other"]


def test_a_private_mean_with_many_units_is_close() -> None:
    """Noise of scale 4 on a sum of 10,000 half ranges: 1 of 100 is 50 deviations away."""
    query = Mean(lower=0, upper=100, **ADD)
    release = Laplace(epsilon=0.5).release(query, [40.0] * 10_000, noise=SeededNoise(2))
    assert release.value == pytest.approx(40.0, abs=1.0)
    assert release.expected_error is None
    assert release.scale_unit == "half ranges of the sum and records of the count"


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, "41 years", None, True, 10**400])
def test_a_bad_number_is_named_by_position_and_never_shown(bad: Any) -> None:
    for query in (
        Sum(lower=0.0, upper=1.0, **ADD),
        Mean(lower=0.0, upper=1.0, **ADD),
        Mean(lower=0.0, upper=1.0, n_units=3, **REPLACE),
    ):
        with pytest.raises(InvalidArgumentError) as caught:
            Laplace(epsilon=1.0).release(query, [0.5, 0.5, bad])
        assert "position 2 (counted from 0)" in str(caught.value)
        assert "41" not in str(caught.value)
        assert "nan" not in str(caught.value)
        assert len(str(caught.value)) < 200


def test_a_bad_flag_or_category_is_named_by_position() -> None:
    with pytest.raises(InvalidArgumentError, match="each be True or False; the one at position 1"):
        Count(**ADD).steps([True, 1])
    strict = Histogram(categories=("flu", "cold"), unseen="refuse", **ADD)
    for bad in ("plague", 3, None, ["flu"]):
        with pytest.raises(InvalidArgumentError, match="position 1") as caught:
            strict.steps(["flu", bad])
        assert "plague" not in str(caught.value)
    with pytest.raises(InvalidArgumentError, match="one finite number"):
        DeclaredValue(declared_sensitivity=1.0, **ADD).steps([1.0])


@pytest.mark.parametrize("values", ["abc", {1: 2}, 3.0, None, (x for x in ()), {True}])
def test_data_is_a_sequence(values: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="values must be a list, a tuple or"):
        Count(**ADD).steps(values)


@pytest.mark.parametrize("bound", [None, "auto", math.nan, math.inf, 1e201, 10**300, True])
def test_bounds_are_stated(bound: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="bounds are public: state them from"):
        Sum(lower=0.0, upper=bound, **ADD)
    with pytest.raises(InvalidArgumentError, match="lower must be a number"):
        Mean(lower=bound, upper=1.0, **ADD)


def test_what_is_public_follows_from_the_relation() -> None:
    with pytest.raises(InvalidArgumentError, match="n_units must be stated under replace_one"):
        Mean(lower=0, upper=1, **REPLACE)
    with pytest.raises(InvalidArgumentError, match="None under add_or_remove_one, where it is"):
        Mean(lower=0, upper=1, n_units=5, **ADD)
    with pytest.raises(InvalidArgumentError, match="got n_units=5 and 2 values"):
        Mean(lower=0, upper=1, n_units=5, **REPLACE).steps([0, 1])
    with pytest.raises(InvalidArgumentError, match="n_units must be an integer >= 1"):
        Mean(lower=0, upper=1, n_units=0, **REPLACE)
    with pytest.raises(InvalidArgumentError, match="lower must be below upper"):
        Sum(lower=1.0, upper=1.0, **ADD)
    with pytest.raises(InvalidArgumentError, match="must not hold 'other'"):
        Histogram(categories=("other",), unseen="other", **ADD)
    with pytest.raises(InvalidArgumentError, match="unseen must be one of refuse, other"):
        Histogram(categories=("a",), unseen="drop", **ADD)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidArgumentError, match="relation must be one of"):
        Count(relation="swap", unit="record")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidArgumentError, match="unit must be one of"):
        Count(relation="replace_one", unit="token")  # pyright: ignore[reportArgumentType]
