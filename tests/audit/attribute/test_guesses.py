"""Paired guessers: exact tests by hand, coverage, the most common value."""

import numpy as np
import pytest

from insular.audit.attribute.guesses import compare_guessers, mcnemar_p, most_common
from insular.errors import InvalidArgumentError


def test_mcnemar_by_hand():
    assert mcnemar_p(5, 0) == pytest.approx(1 / 32)
    assert mcnemar_p(0, 0) == 1.0
    assert mcnemar_p(3, 1) == pytest.approx(5 / 16)
    assert mcnemar_p(0, 5) == 1.0


def test_a_comparison_by_hand():
    found = compare_guessers(
        [True] * 6 + [False] * 4, [True] * 2 + [False] * 7 + [True], baseline="population"
    )
    assert (found.only_attack, found.only_baseline) == (4, 1)
    assert found.difference == pytest.approx(0.3)
    assert found.accuracy.count == 3 and found.p_value == pytest.approx(6 / 32)
    low, high = found.difference_interval
    assert low < 0.3 < high
    with pytest.raises(InvalidArgumentError, match="the same records"):
        compare_guessers([True], [], baseline="population")


def test_equal_guessers_are_seldom_told_apart_and_the_interval_covers():
    # 1,500 comparisons: 0.05 is exceeded by more than 0.075 with probability below 1e-4
    rng = np.random.default_rng(0)
    better = covered = 0
    for _ in range(1500):
        a, b = rng.random((2, 60)) < 0.4
        found = compare_guessers(a.tolist(), b.tolist(), baseline="base model")
        better += found.p_value <= 0.05
        covered += found.difference_interval[0] <= 0 <= found.difference_interval[1]
    assert better / 1500 < 0.075 and covered / 1500 > 0.95


def test_the_most_common_value_is_the_first_of_equal_ones():
    assert most_common(["b", "a", "b"], order=("a", "b")) == "b"
    assert most_common(["b", "a"], order=("a", "b")) == "a"
    assert most_common([], order=("a", "b")) == "a"
