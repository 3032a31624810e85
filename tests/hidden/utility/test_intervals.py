"""Intervals of means: by hand, coverage, and what is refused."""

import numpy as np
import pytest
from scipy.stats import binomtest

from insular.errors import InvalidArgumentError
from insular.hidden.utility.intervals import mean_interval


def test_the_normal_interval_by_hand() -> None:
    found = mean_interval(np.array([1.0, 2.0, 3.0]), method="normal")
    assert (found.mean, found.n) == (2.0, 3)
    assert found.standard_error == pytest.approx(1 / np.sqrt(3))
    assert found.low == pytest.approx(2 - 1.959964 / np.sqrt(3))
    assert found.high == pytest.approx(2 + 1.959964 / np.sqrt(3))


def test_the_binomial_interval_is_clopper_pearson() -> None:
    for count in (0, 3, 20):
        values = np.array([1.0] * count + [0.0] * (20 - count))
        found = mean_interval(values, method="binomial")
        exact = binomtest(count, 20).proportion_ci(0.95, method="exact")
        assert (found.low, found.high) == pytest.approx((exact.low, exact.high), abs=1e-12)


def test_equal_seeds_give_equal_intervals_that_hold_the_mean() -> None:
    values = np.random.default_rng(0).exponential(size=40)
    found = mean_interval(values, seed=1)
    assert found == mean_interval(values, seed=1)
    assert found != mean_interval(values, seed=2)
    assert found.low < found.mean < found.high
    assert found.overlaps(found)


def test_the_bootstrap_covers_about_as_often_as_it_says() -> None:
    """400 samples of 60 exponentials; 0.93 expected, 5 standard errors are 0.064."""
    draws = np.random.default_rng(3)
    found = [mean_interval(draws.exponential(size=60), seed=i, resamples=400) for i in range(400)]
    assert 0.86 <= np.mean([one.low <= 1.0 <= one.high for one in found]) <= 0.99


def test_values_without_a_mean_are_refused() -> None:
    for values in (np.array([1.0]), np.array([1.0, np.inf]), np.ones((2, 2))):
        with pytest.raises(InvalidArgumentError, match="at least 2 finite numbers"):
            mean_interval(values)
