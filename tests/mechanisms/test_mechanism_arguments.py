"""Any argument: an answer, or one clear error."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insular.errors import InsularError
from insular.mechanisms import (
    AnalyticGaussian,
    ClassicalGaussian,
    Count,
    DeclaredValue,
    DiscreteLaplace,
    Histogram,
    Laplace,
    Mean,
    RandomizedResponse,
    Release,
    SeededNoise,
    Sum,
)

RELATION = st.sampled_from(["add_or_remove_one", "replace_one", "both", None, 3])
UNIT = st.sampled_from(["record", "owner", "token", 0])
NUMBER = st.one_of(
    st.floats(0.01, 0.99),
    st.floats(-1e3, 1e3),
    st.floats(),
    st.integers(-3, 10),
    st.sampled_from([10**300, -(10**300), 10**400, 1e-320, 0.0, 1.0, 1e200, -1e200, 1e308]),
    st.booleans(),
    st.none(),
    st.text(max_size=3),
)
NAMES = st.one_of(
    st.lists(st.sampled_from(["a", "b", "other", "", "c"]), max_size=4).map(tuple),
    st.lists(st.just("a")),
    st.none(),
    st.just((1, 2)),
    st.text(max_size=3),
)
DATA = st.one_of(
    st.lists(NUMBER, max_size=4),
    st.lists(st.floats(-1e300, 1e300), max_size=4),
    st.lists(st.booleans(), max_size=4),
    st.lists(st.sampled_from(["a", "b", "z"]), max_size=4),
    NUMBER,
)


@st.composite
def query(draw: st.DrawFn) -> tuple[Any, dict[str, Any]]:
    keys: dict[str, Any] = {"relation": draw(RELATION), "unit": draw(UNIT)}
    kind = draw(st.sampled_from([Count, Sum, Mean, Histogram, DeclaredValue]))
    if kind in (Sum, Mean):
        keys |= {"lower": draw(NUMBER), "upper": draw(NUMBER)}
    if kind is Mean:
        keys["n_units"] = draw(st.one_of(st.none(), st.integers(0, 4), NUMBER))
    if kind is Histogram:
        keys |= {"categories": draw(NAMES), "unseen": draw(st.sampled_from(["refuse", "other", 1]))}
    if kind is DeclaredValue:
        keys["declared_sensitivity"] = draw(NUMBER)
    return kind, keys


@settings(max_examples=400)
@given(
    asked=query(),
    kind=st.sampled_from([Laplace, DiscreteLaplace, ClassicalGaussian, AnalyticGaussian]),
    epsilon=NUMBER,
    delta=NUMBER,
    data=DATA,
)
def test_a_release_or_one_clear_error(
    asked: tuple[Any, dict[str, Any]], kind: Any, epsilon: Any, delta: Any, data: Any
) -> None:
    slack = {"delta": delta} if kind in (ClassicalGaussian, AnalyticGaussian) else {}
    try:
        mechanism = kind(epsilon=epsilon, **slack)
        release = mechanism.release(asked[0](**asked[1]), data, noise=SeededNoise(0))
    except InsularError as error:
        assert str(error)
        assert "\n" not in str(error)
    else:
        check(release)


@given(names=NAMES, prob=NUMBER, unit=UNIT, data=DATA, category=st.one_of(NUMBER, st.just("a")))
def test_answers_or_one_clear_error(
    names: Any, prob: Any, unit: Any, data: Any, category: Any
) -> None:
    try:
        mechanism = RandomizedResponse(categories=names, truth_prob=prob, unit=unit)
        assert mechanism.epsilon >= 0
        check(mechanism.release(data, noise=SeededNoise(0)))
        assert math.isfinite(mechanism.estimate(data, category=category).frequency)
    except InsularError as error:
        assert str(error)
        assert "\n" not in str(error)


@given(seed=NUMBER)
def test_seeds(seed: Any) -> None:
    try:
        SeededNoise(seed)
    except InsularError as error:
        assert "seed must be an integer >= 0" in str(error)


def check(release: Release) -> None:
    """A release holds finite numbers."""
    if isinstance(release.value, float):
        assert math.isfinite(release.value)
    assert 0 < release.noise_scale < math.inf
    assert 0 < release.sensitivity < math.inf


@pytest.mark.parametrize("extreme", [1e-6, 1e4])
@pytest.mark.parametrize("bound", [1e-200, 1e200])
def test_extremes_stay_finite(extreme: float, bound: float) -> None:
    query = Sum(lower=-bound, upper=bound, relation="add_or_remove_one", unit="record")
    for mechanism in (Laplace(epsilon=extreme), AnalyticGaussian(epsilon=extreme, delta=1e-300)):
        check(mechanism.release(query, [bound] * 5))
        check(mechanism.release(query, [bound] * 5, noise=SeededNoise(0)))
