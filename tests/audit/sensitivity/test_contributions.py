"""Clipped contributions against one record after another, in plain NumPy."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from insular.audit.sensitivity.contributions import Contributions, altered, largest_change, ratio_at


def slow_sum(rows: np.ndarray, radius: float, stabiliser: float) -> np.ndarray:
    total = np.zeros(rows.shape[1])
    for row in rows.astype(np.float64):
        norm = math.sqrt(sum(float(x) ** 2 for x in row))
        total += row * min(1.0, radius / (norm + stabiliser)) if norm else 0.0
    return total


@given(
    seed=st.integers(0, 2**16),
    radius=st.floats(1e-3, 1e3),
    stabiliser=st.sampled_from([0.0, 1e-6]),
)
def test_sums_and_ratios_are_those_of_one_record_after_another(seed, radius, stabiliser):
    rng = np.random.default_rng(seed)
    base = rng.normal(size=(3, 5)).astype(np.float32)
    other = np.concatenate([base, rng.normal(size=(1, 5)).astype(np.float32)])
    other[0] *= -1
    one = Contributions(torch.from_numpy(base), stabiliser=stabiliser)
    two = Contributions(torch.from_numpy(other), stabiliser=stabiliser)
    before, after = slow_sum(base, radius, stabiliser), slow_sum(other, radius, stabiliser)
    assert one.sum_at(radius).numpy() == pytest.approx(before, abs=1e-9 * radius)
    assert ratio_at(one, two, radius) == pytest.approx(
        np.linalg.norm(after - before) / radius, rel=1e-9
    )
    assert altered(one, two) == (0,)
    change = np.linalg.norm(
        slow_sum(other[:1], radius, stabiliser) - slow_sum(base[:1], radius, stabiliser)
    )
    assert largest_change(one, two, radius) == pytest.approx(change / radius, rel=1e-9)


def test_a_gradient_that_is_not_finite_gives_an_infinite_ratio():
    good = Contributions(torch.ones(2, 3), stabiliser=0.0)
    bad = Contributions(torch.tensor([[1.0, math.nan, 0.0]]), stabiliser=0.0)
    assert ratio_at(good, bad, 1.0) == math.inf
    assert largest_change(good, bad, 1.0) == math.inf


def test_a_gradient_of_zeros_contributes_nothing():
    zeros = Contributions(torch.zeros(2, 3), stabiliser=0.0)
    assert zeros.sum_at(1.0).tolist() == [0, 0, 0]
