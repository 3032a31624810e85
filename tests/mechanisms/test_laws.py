"""Distributions of noise in closed form, against scipy and against sums."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import dlaplace, laplace, norm

from insular.errors import InsularError, InvalidArgumentError
from insular.mechanisms import DiscreteLaplaceLaw, GaussianLaw, LaplaceLaw, NoiseLaw

LAWS = (LaplaceLaw, DiscreteLaplaceLaw, GaussianLaw)


def test_the_clinic() -> None:
    """The count is 100, its neighbour's 101, the release falls in [99.5, 100.5]."""
    law = LaplaceLaw(scale=2.0)
    here, there = law.interval_probability(-0.5, 0.5), law.interval_probability(-1.5, -0.5)
    assert round(here, 4) == 0.2212
    assert round(there, 4) == 0.1532
    assert round(here / there, 3) == 1.444
    assert here / there <= math.exp(0.5)
    # far out in one tail the bound is attained
    far = law.interval_probability(-math.inf, -5.0) / law.interval_probability(-math.inf, -6.0)
    assert far == pytest.approx(math.exp(0.5), rel=1e-12)


@given(scale=st.floats(0.1, 100), x=st.floats(-300, 300), y=st.floats(-300, 300))
def test_against_scipy(scale: float, x: float, y: float) -> None:
    low, high = min(x, y), max(x, y)
    for law, oracle in ((LaplaceLaw, laplace(scale=scale)), (GaussianLaw, norm(scale=scale))):
        found = law(scale=scale)
        assert found.cdf(x) == pytest.approx(oracle.cdf(x), rel=1e-9, abs=1e-300)
        assert found.interval_probability(low, high) == pytest.approx(
            oracle.cdf(high) - oracle.cdf(low), abs=1e-12
        )
    discrete = DiscreteLaplaceLaw(scale=scale)
    oracle = dlaplace(1 / scale)
    assert discrete.cdf(x) == pytest.approx(oracle.cdf(math.floor(x)), rel=1e-9)
    assert discrete.interval_probability(low, high) == pytest.approx(
        oracle.cdf(math.floor(high)) - oracle.cdf(math.ceil(low) - 1), abs=1e-12
    )


@pytest.mark.parametrize("law", LAWS)
def test_probabilities_keep_their_digits_far_out_in_a_tail(law: type[NoiseLaw]) -> None:
    found = law(scale=1.0)
    for low, high in ((20.0, 21.0), (-21.0, -20.0)):
        assert 0 < found.interval_probability(low, high) < 1e-8
    assert found.interval_probability(20, 21) == found.interval_probability(-21, -20)
    assert found.interval_probability(-math.inf, math.inf) == 1.0
    assert found.cdf(math.inf) == 1.0
    assert found.cdf(-math.inf) == 0.0


def test_mean_magnitude() -> None:
    assert LaplaceLaw(scale=2.0).mean_abs == 2.0
    assert GaussianLaw(scale=2.0).mean_abs == pytest.approx(1.5957691, abs=1e-7)
    law = DiscreteLaplaceLaw(scale=2.0)
    summed = sum(2 * k * law.interval_probability(k, k) for k in range(1, 200))
    assert law.mean_abs == pytest.approx(summed, rel=1e-12)
    assert law.mean_abs == pytest.approx(1 / math.sinh(0.5), rel=1e-12)


ANYTHING = st.one_of(
    st.floats(), st.integers(), st.just(10**300), st.just(10**400), st.booleans(), st.none()
)


@given(law=st.sampled_from(LAWS), scale=ANYTHING, x=ANYTHING, y=ANYTHING)
def test_every_argument_has_an_answer_or_one_clear_error(
    law: type[NoiseLaw], scale: float, x: float, y: float
) -> None:
    try:
        found = law(scale=scale)
        assert 0 <= found.cdf(x) <= 1
        assert 0 <= found.interval_probability(x, y) <= 1
    except InsularError as error:
        assert "\n" not in str(error)


def test_refusals() -> None:
    with pytest.raises(InvalidArgumentError, match="scale must be finite and > 0, got scale=0"):
        LaplaceLaw(scale=0.0)
    with pytest.raises(InvalidArgumentError, match="an end of an interval must be a number"):
        LaplaceLaw(scale=1.0).cdf(math.nan)
    with pytest.raises(InvalidArgumentError, match="low must be at most high"):
        LaplaceLaw(scale=1.0).interval_probability(1.0, 0.0)
