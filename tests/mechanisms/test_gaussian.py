"""Gaussian noise: both calibrations against the exact divergence."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from insular.accounting import pair_delta, spend
from insular.errors import InvalidArgumentError
from insular.mechanisms import (
    AnalyticGaussian,
    ClassicalGaussian,
    Count,
    Histogram,
    Mean,
    Noise,
    SecureNoise,
    SeededNoise,
    Sum,
)

COUNT = Count(relation="add_or_remove_one", unit="record")


def test_classical_formula() -> None:
    mechanism = ClassicalGaussian(epsilon=0.5, delta=1e-5)
    assert mechanism.noise_multiplier == pytest.approx(9.689611, abs=1e-6)
    release = mechanism.release(COUNT, [True] * 3)
    assert release.noise_scale == pytest.approx(9.689611, abs=1e-6)
    assert release.expected_error == pytest.approx(9.689611 * math.sqrt(2 / math.pi), rel=1e-6)


@given(epsilon=st.floats(1e-6, 0.999), log_delta=st.floats(-12, -1e-3))
def test_the_classical_calibration_is_private_and_never_the_smaller(
    epsilon: float, log_delta: float
) -> None:
    delta = 10**log_delta
    classical = ClassicalGaussian(epsilon=epsilon, delta=delta).noise_multiplier
    assert pair_delta(1 / classical, epsilon) <= delta
    analytic = AnalyticGaussian(epsilon=epsilon, delta=delta).noise_multiplier
    assert analytic <= classical * (1 + 1e-9)


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(4.3772, 1e-5), (3.1387, 1e-3), (4.8866, 1e-6)],
)
def test_analytic_calibration_finds_the_unit_pair(epsilon: float, delta: float) -> None:
    """Epsilon of two Gaussians one standard deviation apart, as printed to four digits."""
    found = AnalyticGaussian(epsilon=epsilon, delta=delta).noise_multiplier
    assert found == pytest.approx(1.0, abs=5e-5)


@given(log_epsilon=st.floats(-6, 4), log_delta=st.floats(-300, -1e-3))
def test_the_analytic_calibration_is_exact(log_epsilon: float, log_delta: float) -> None:
    mechanism = AnalyticGaussian(
        epsilon=min(max(10**log_epsilon, 1e-6), 1e4), delta=max(10**log_delta, 1e-300)
    )
    found = mechanism.noise_multiplier
    assert pair_delta(1 / found, mechanism.epsilon) <= mechanism.delta
    assert 1e-4 < found < 1e9
    assert pair_delta(1 / (found * (1 - 1e-9)), mechanism.epsilon) > mechanism.delta
    cost = spend(mechanism.event(COUNT), delta=mechanism.delta)
    assert cost.epsilon <= mechanism.epsilon * (1 + 1e-9)


@pytest.mark.parametrize("noise", [SeededNoise(3), SecureNoise()], ids=["seeded", "secure"])
def test_standard_deviation(noise: Noise) -> None:
    """The variance of 20,000 draws has a relative deviation of 1 %: false alarm below 1e-7."""
    mechanism = AnalyticGaussian(epsilon=1.0, delta=1e-5)
    drawn = np.array(mechanism.draw(COUNT, noise, 20_000)) / 2**31
    assert drawn.var() == pytest.approx(mechanism.noise_multiplier**2, rel=0.055)


def test_noise_of_several_numbers_follows_their_l2_distance() -> None:
    mechanism = AnalyticGaussian(epsilon=1.0, delta=1e-5)
    one = mechanism.release(COUNT, [True])
    for query, data in (
        (Histogram(categories=("a",), unseen="other", relation="replace_one", unit="record"), []),
        (Mean(lower=0, upper=1, relation="add_or_remove_one", unit="record"), []),
    ):
        release = mechanism.release(query, data)
        assert release.sensitivity == pytest.approx(math.sqrt(2), rel=1e-9)
        assert release.noise_scale == pytest.approx(math.sqrt(2) * one.noise_scale, rel=1e-9)
        assert release.event == one.event or query.relation == "replace_one"
    summed = Sum(lower=-2.0, upper=4.0, relation="replace_one", unit="record")
    assert mechanism.release(summed, []).noise_scale == pytest.approx(6 * one.noise_scale)


@pytest.mark.parametrize("epsilon", [1, 1.0, 8.0])
def test_the_classical_formula_is_refused_where_it_is_not_proven(epsilon: float) -> None:
    with pytest.raises(InvalidArgumentError, match="must be below 1, got .*AnalyticGaussian"):
        ClassicalGaussian(epsilon=epsilon, delta=1e-5)


@pytest.mark.parametrize("delta", [0.0, 1.0, 0, 1, 1e-310])
def test_delta_is_needed(delta: float) -> None:
    with pytest.raises(InvalidArgumentError, match="delta of Gaussian noise.*use Laplace"):
        AnalyticGaussian(epsilon=1.0, delta=delta)
