"""Squared distances as epsilon, and back."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insular.accounting import pair_delta
from insular.errors import InvalidArgumentError
from insular.hidden.mechanisms.distance_epsilon import (
    exact_epsilon,
    mironov_epsilon,
    renyi_divergence,
    squared_distance_for_exact,
    squared_distance_for_mironov,
)

DELTA = 1e-6


def test_mironov_is_the_best_order_of_renyi_and_looser_than_the_truth():
    squared = 1.69
    orders = np.linspace(1.001, 400, 400_000)
    costs = renyi_divergence(squared, order=2.0) / 2 * orders + math.log(1 / DELTA) / (orders - 1)
    assert mironov_epsilon(squared, delta=DELTA) == pytest.approx(costs.min(), abs=1e-4)
    exact = exact_epsilon(squared, delta=DELTA)
    assert exact < mironov_epsilon(squared, delta=DELTA)
    assert pair_delta(1.3, exact) == pytest.approx(DELTA)


@settings(max_examples=50, deadline=None)
@given(st.floats(1e-3, 200), st.floats(1e-12, 0.4))
def test_conversions_invert_each_other(epsilon, delta):
    squared = squared_distance_for_mironov(epsilon, delta=delta)
    assert mironov_epsilon(squared, delta=delta) == pytest.approx(epsilon, rel=1e-9)
    exact = squared_distance_for_exact(epsilon, delta=delta)
    assert exact >= squared * (1 - 1e-9)
    assert exact_epsilon(exact, delta=delta) == pytest.approx(epsilon, rel=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: renyi_divergence(1.0, order=1.0), "order must be finite and > 1"),
        (lambda: mironov_epsilon(1.0, delta=0.0), "delta must be above 0 and below 1"),
        (lambda: exact_epsilon(1.0, delta=1.0), "delta must be above 0 and below 1"),
        (lambda: squared_distance_for_exact(0.0, delta=0.1), "epsilon must be finite and > 0"),
    ],
)
def test_what_has_no_epsilon_is_refused(call, message):
    with pytest.raises(InvalidArgumentError, match=message):
        call()
