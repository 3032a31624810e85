"""Exact bounds on rates, corrections for several tests, and epsilon from two rates."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from insular.audit.statistics.rates import (
    bonferroni,
    clopper_pearson,
    epsilon_from_rates,
    largest_epsilon,
    lower_rate,
    rate_of,
    upper_rate,
)
from insular.errors import InvalidArgumentError


@pytest.mark.parametrize(
    ("count", "n", "significance", "expected"),
    [
        (0, 1000, 1e-7, (0, 0.0166707224)),
        (1000, 1000, 0.05, (0.9963179161, 1)),
        (0, 1, 0.05, (0, 0.975)),
        (3, 10, 0.05, (0.0667395112, 0.6524528501)),
    ],
)
def test_worked_two_sided_intervals(count, n, significance, expected):
    found = clopper_pearson(count, n, significance=significance)
    assert found == pytest.approx(expected, abs=1e-8)


def test_one_sided_bounds_leave_the_other_side_open():
    found = clopper_pearson(0, 1000, significance=0.05, sides="upper")
    assert found == pytest.approx((0, 0.0029912495), abs=1e-8)
    low, high = clopper_pearson(3, 10, significance=0.05, sides="lower")
    assert high == 1
    assert binom.sf(2, 10, low) == pytest.approx(0.05, rel=1e-9)


@given(n=st.integers(1, 5000), share=st.floats(0, 1), exponent=st.floats(-12, -0.5))
@settings(max_examples=200, deadline=None)
def test_each_bound_is_where_the_tail_has_the_significance(n, share, exponent):
    count, significance = round(share * n), 10**exponent
    low, _ = clopper_pearson(count, n, significance=significance, sides="lower")
    _, high = clopper_pearson(count, n, significance=significance, sides="upper")
    assert 0 <= low <= count / n <= high <= 1
    if count:
        assert binom.sf(count - 1, n, low) == pytest.approx(significance, rel=1e-6)
    if count < n and high < 1 - 1e-12:  # closer to 1 a float cannot say how close
        assert binom.cdf(count, n, high) == pytest.approx(significance, rel=1e-2)


def test_the_interval_misses_the_truth_no_more_often_than_it_says():
    for n, p in ((1, 0.3), (7, 0.01), (30, 0.5), (200, 0.97)):
        counts = range(n + 1)
        missed = sum(
            binom.pmf(k, n, p)
            for k in counts
            for low, high in [clopper_pearson(k, n, significance=0.1)]
            if not low <= p <= high
        )
        assert missed <= 0.1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 0), "n must be an integer >= 1, got n=0"),
        ((11, 10), "count must be at most n, got count=11 and n=10"),
        ((-1, 10), "count must be an integer >= 0, got count=-1"),
        ((2.5, 10), "count must be an integer >= 0, got count=2.5"),
    ],
)
def test_counts_that_are_none_are_refused(arguments, message):
    with pytest.raises(InvalidArgumentError, match=message):
        clopper_pearson(*arguments, significance=0.05)


@pytest.mark.parametrize("significance", [0, 1, -0.1, math.nan])
def test_a_significance_that_proves_nothing_is_refused(significance):
    with pytest.raises(InvalidArgumentError, match="significance must be"):
        clopper_pearson(1, 2, significance=significance)


def test_the_correction_for_several_tests():
    assert bonferroni(0.05, 4) == 0.0125


def test_the_published_counts_give_the_published_bounds():
    each = 0.05 / 6
    p, q = rate_of(1043, 500_000, significance=each), rate_of(23, 500_000, significance=each)
    assert p.lower == pytest.approx(1.935e-3, abs=5e-7)
    assert q.upper == pytest.approx(7.456e-5, abs=5e-9)
    found = [epsilon_from_rates(p.lower, q.upper, delta=d) for d in (1e-3, 1e-5, 1e-6)]
    assert found == pytest.approx([2.53, 3.25, 3.26], abs=0.005)


def test_a_number_of_draws_has_a_largest_epsilon():
    assert largest_epsilon(1000, significance=0.025, delta=1e-5) == pytest.approx(5.600577)
    assert largest_epsilon(100, significance=0.025, delta=1e-5) == pytest.approx(3.281336)


def test_whole_arrays_of_counts_agree_with_single_ones():
    counts = np.arange(0, 41)
    for i, (low, high) in enumerate(
        zip(lower_rate(counts, 40, 0.01), upper_rate(counts, 40, 0.01), strict=True)
    ):
        assert (low, high) == clopper_pearson(i, 40, significance=0.02)
