"""Bounds on one record's influence, and what its owner is promised."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from insular.accounting import group_privacy, influence_bound, pair_delta, separable_bound
from insular.errors import InvalidArgumentError


def test_separable_bounds() -> None:
    assert separable_bound("add_or_remove_one", clip_norm=0.5) == 0.5
    assert separable_bound("replace_one", clip_norm=0.5) == 1.0
    assert separable_bound("replace_one") == influence_bound(0, relation="replace_one")


def test_influence_of_seven_altered_contributions_is_attained() -> None:
    assert influence_bound(7, relation="add_or_remove_one") == 15
    assert influence_bound(7, relation="replace_one", clip_norm=2.0) == 32
    before = np.array([-1.0] * 7)
    after = np.array([1.0] * 8)
    assert after.sum() - before.sum() == influence_bound(7, relation="add_or_remove_one")


def test_one_record_changes_nothing_and_k_multiply() -> None:
    assert group_privacy(0.7, 1e-6, n_records=1) == (0.7, 1e-6)
    epsilon, delta = group_privacy(0.5, 1e-6, n_records=3)
    assert epsilon == 1.5
    assert delta == pytest.approx(1e-6 * (1 + math.exp(0.5) + math.exp(1.0)))
    assert group_privacy(0.0, 1e-6, n_records=4) == (0.0, 4e-6)
    assert group_privacy(5.0, 1e-3, n_records=1000) == (5000.0, 1.0)


@given(
    mu=st.floats(0.01, 3),
    epsilon=st.floats(0, 5),
    k=st.integers(1, 20),
)
def test_group_privacy_is_never_below_the_truth(mu: float, epsilon: float, k: int) -> None:
    # k records move a Gaussian's mean k times as far
    grown, delta = group_privacy(epsilon, pair_delta(mu, epsilon), n_records=k)
    assert pair_delta(k * mu, grown) <= delta * (1 + 1e-9) + 1e-300


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan, True, "1", 10**400])
def test_bad_clip_norm(bad: object) -> None:
    with pytest.raises(InvalidArgumentError, match=r"clip_norm must be finite and > 0"):
        separable_bound("replace_one", clip_norm=bad)  # type: ignore[arg-type]


def test_bad_words_and_counts() -> None:
    with pytest.raises(InvalidArgumentError, match=r"relation must be one of add_or_remove_one"):
        separable_bound("swap")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"n_altered must be an integer >= 0"):
        influence_bound(-1, relation="replace_one")
    with pytest.raises(InvalidArgumentError, match=r"n_records must be an integer >= 1"):
        group_privacy(1.0, 1e-5, n_records=0)
