"""Divergence of two Gaussians: printed numbers, inverse, tails."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from insular.accounting import implied_epsilon, pair_delta, pair_epsilon
from insular.errors import InvalidArgumentError


@pytest.mark.parametrize(
    ("mu", "delta", "epsilon", "digits"),
    [
        (1.0, 1e-5, 4.3772, 4),
        (1.065257905, 1e-5, 4.7103, 4),
        (14.998, 1e-5, 175.56, 2),
        (1.0, 1e-3, 3.1387, 4),
        (1.0, 1e-6, 4.8866, 4),
        (1.065257905, 1e-3, 3.3945, 4),
        (1.065257905, 1e-6, 5.2519, 4),
        (20.0, 1e-5, 284.3918, 3),
        (100.0, 1e-5, 5425.51, 2),
        (math.sqrt(7) / 1.5, 1e-5, 8.572627, 6),
        (math.sqrt(3) / 10, 0.06, 0.0201681, 6),
        (math.sqrt(3) / 10, 0.03, 0.1065484, 6),
    ],
)
def test_printed_numbers(mu: float, delta: float, epsilon: float, digits: int) -> None:
    assert pair_epsilon(mu, delta) == pytest.approx(epsilon, abs=0.6 * 10**-digits)


@pytest.mark.parametrize(("mu", "epsilon"), [(0.1, 0.05), (0.8, 1.0), (1.0, 0.0), (3.0, 9.0)])
def test_against_the_definition(mu: float, epsilon: float) -> None:
    def above(x: float) -> float:
        return max(0.0, norm.pdf(x, mu) - math.exp(epsilon) * norm.pdf(x))

    start = epsilon / mu + mu / 2
    assert pair_delta(mu, epsilon) == pytest.approx(quad(above, start, start + 30)[0], rel=1e-8)


@given(log_mu=st.floats(-8, 4), log_delta=st.floats(-300, -0.001))
def test_the_inverse_inverts_to_the_last_digits(log_mu: float, log_delta: float) -> None:
    mu, delta = 10**log_mu, 10**log_delta
    epsilon = pair_epsilon(mu, delta)
    assert epsilon >= 0
    if epsilon == 0:
        assert pair_delta(mu, 0.0) <= delta * (1 + 1e-9)
    else:
        # epsilon / mu - mu / 2 loses digits to cancellation as mu grows
        assert pair_delta(mu, epsilon) == pytest.approx(delta, rel=1e-8 + 1e-13 * mu**2)


@given(mu=st.floats(0, 1e300), a=st.floats(0, 1e300), b=st.floats(0, 1e300))
def test_from_zero_to_one_and_decreasing(mu: float, a: float, b: float) -> None:
    low, high = pair_delta(mu, min(a, b)), pair_delta(mu, max(a, b))
    assert 0 <= high <= low * (1 + 1e-9) <= 1 + 1e-9


def test_edges() -> None:
    assert pair_delta(0.0, 0.0) == 0.0
    assert pair_epsilon(0.0, 0.0) == 0.0
    assert pair_epsilon(1.0, 0.0) == math.inf
    assert [pair_epsilon(math.sqrt(3) / 10, d) for d in (0.9, 0.5, 0.1, 0.07)] == [0, 0, 0, 0]
    assert pair_delta(1e-8, 0.0) == pytest.approx(1e-8 / math.sqrt(2 * math.pi), rel=1e-9)


def test_epsilon_implied_by_a_ratio() -> None:
    assert implied_epsilon(1.0, noise_multiplier=1.0, delta=1e-5) == pytest.approx(4.3772, abs=1e-4)
    assert implied_epsilon(14.998, noise_multiplier=1.0, delta=1e-5) == pytest.approx(
        175.56, abs=0.01
    )
    replaced = implied_epsilon(7.0, noise_multiplier=1.0, delta=1e-5, relation="replace_one")
    assert replaced == pair_epsilon(14.0, 1e-5)
    assert implied_epsilon(0.1, noise_multiplier=0.0, delta=1e-5) == math.inf
    assert implied_epsilon(0.0, noise_multiplier=0.0, delta=1e-5) == 0.0


@pytest.mark.parametrize("bad", [-1.0, math.inf, math.nan, None, "1", True])
def test_bad_arguments(bad: object) -> None:
    with pytest.raises(InvalidArgumentError, match=r"mu must be finite and >= 0"):
        pair_delta(bad, 1.0)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"epsilon must be finite and >= 0"):
        pair_delta(1.0, bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [1.0, 1, -1e-9, 2, math.nan, math.inf])
def test_bad_delta(bad: float) -> None:
    with pytest.raises(InvalidArgumentError, match=r"delta must be"):
        pair_epsilon(1.0, bad)


def test_a_ratio_beyond_floats_is_one_clear_error() -> None:
    with pytest.raises(InvalidArgumentError, match=r"ratio over noise_multiplier must fit"):
        implied_epsilon(1e300, noise_multiplier=1e-300, delta=1e-5)
