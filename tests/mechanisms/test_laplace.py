"""Laplace noise: the lesson's numbers, integers, and what composition makes of them."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom

from insular.accounting import LaplaceEvent, RepeatedEvent, spend, spend_delta
from insular.errors import InvalidArgumentError, UnsupportedEventError
from insular.mechanisms import (
    Count,
    DeclaredValue,
    DiscreteLaplace,
    DiscreteLaplaceLaw,
    Laplace,
    Mean,
    Noise,
    SecureNoise,
    SeededNoise,
    Sum,
)

COUNT = Count(relation="add_or_remove_one", unit="record")
COUNT_OF_FIXED = Count(relation="replace_one", unit="record")
PATIENTS = [True] * 100


def test_the_clinic() -> None:
    release = Laplace(epsilon=0.5).release(COUNT, PATIENTS)
    assert release.noise_scale == pytest.approx(2.0, rel=1e-12)
    assert release.expected_error == pytest.approx(2.0, rel=1e-12)
    assert (release.sensitivity, release.scale_unit) == (1.0, "records")
    assert (release.mechanism, release.query, release.noise) == ("laplace", "count", "laplace")
    assert release.noise_source == "secure"
    assert isinstance(release.value, int)


def test_a_count_is_rounded_so_it_is_100_as_often_as_the_interval_says() -> None:
    """0.2212 +- 0.0208: five standard deviations of 10,000 draws, false alarm below 1e-6."""
    noise = SeededNoise(11)
    for truth, expected in ((100, 0.2212), (101, 0.1532)):
        hits = sum(
            Laplace(epsilon=0.5).release(COUNT, [True] * truth, noise=noise).value == 100
            for _ in range(10_000)
        )
        assert hits / 10_000 == pytest.approx(expected, abs=5 * 0.00416)


@pytest.mark.parametrize("noise", [SeededNoise(3), SecureNoise()], ids=["seeded", "secure"])
def test_mean_magnitude_is_b(noise: Noise) -> None:
    """|noise| has mean and standard deviation b: false alarm of 5.5 deviations below 1e-7."""
    drawn = np.array(Laplace(epsilon=0.5).draw(COUNT, noise, 40_000)) / 2**31
    assert np.abs(drawn).mean() == pytest.approx(2.0, abs=5.5 * 2.0 / 200)
    assert drawn.mean() == pytest.approx(0.0, abs=5.5 * 2.0 * math.sqrt(2) / 200)


def test_average_age() -> None:
    """Ages clipped to 0..100, 1,000 respondents, epsilon 0.5; then 100 respondents."""
    found = {}
    for n in (1000, 100):
        mean = Mean(lower=0, upper=100, n_units=n, relation="replace_one", unit="record")
        release = Laplace(epsilon=0.5).release(mean, [40] * n)
        found[n] = (release.sensitivity, release.noise_scale, release.expected_error)
    assert found[1000] == pytest.approx((0.1, 0.2, 0.2), rel=1e-9)
    assert found[100] == pytest.approx((1.0, 2.0, 2.0), rel=1e-9)


def test_a_hundred_releases_of_the_count() -> None:
    noise = SeededNoise(8)
    releases = [Laplace(epsilon=0.5).release(COUNT, PATIENTS, noise=noise) for _ in range(100)]
    # mean of 100 draws: standard deviation b sqrt(2) / 10 = 0.283; five of them, and the rounding
    average = sum(float(str(release.value)) for release in releases) / 100
    assert average == pytest.approx(100, abs=5 * 0.285)
    (event,) = {release.event for release in releases}
    hundred = RepeatedEvent(event=event, count=100)
    assert spend(hundred, delta=0.0).epsilon == pytest.approx(50.0, rel=1e-9)
    assert spend(hundred, delta=1e-5).epsilon == pytest.approx(28.503, abs=0.005)


def test_discrete_noise_costs_more_in_composition_and_is_accounted_so() -> None:
    release = DiscreteLaplace(epsilon=0.5).release(COUNT_OF_FIXED, PATIENTS)
    assert release.noise == "discrete_laplace"
    assert release.expected_error == pytest.approx(1 / math.sinh(0.5))
    # its loss is 0.5 or -0.5, so that of a hundred is a binomial: the exact epsilon by bisection
    heads = np.arange(101)
    mass, losses = binom.pmf(heads, 100, 1 / (1 + math.exp(-0.5))), heads - 50.0
    exact = brentq(
        lambda e: float(mass @ np.maximum(0.0, -np.expm1(np.minimum(0.0, e - losses)))) - 1e-5,
        0.0,
        50.0,
    )
    assert exact == pytest.approx(31.173, abs=0.001)
    hundred = RepeatedEvent(event=release.event, count=100)
    assert spend(hundred, delta=0.0).epsilon == pytest.approx(50.0, rel=1e-9)
    assert exact <= spend(hundred, delta=1e-5, accountant="rdp").epsilon < 1.1 * exact
    # taken for Laplace noise it would be charged too little
    laplace = RepeatedEvent(event=Laplace(epsilon=0.5).event(COUNT_OF_FIXED), count=100)
    assert spend(laplace, delta=1e-5).epsilon < 0.92 * exact
    # the distribution itself: two neighbours' geometric noises, one release, by plain summation
    law = DiscreteLaplace(epsilon=0.5).law(COUNT_OF_FIXED)
    for epsilon in (0.0, 0.2, 0.4):
        gap = sum(
            max(
                0.0,
                law.interval_probability(k, k)
                - math.exp(epsilon) * law.interval_probability(k - 1, k - 1),
            )
            for k in range(-200, 201)
        )
        assert spend_delta(release.event, epsilon=epsilon).delta == pytest.approx(gap, rel=1e-6)


@pytest.mark.parametrize("n_steps", [20, 21, 400, 401])
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_a_grid_changes_delta_by_less_than_the_square_of_its_spacing(
    n_steps: int, epsilon: float
) -> None:
    """The grid of a release has 2^31 steps; these are coarse enough to see the difference."""
    law = DiscreteLaplaceLaw(scale=n_steps / epsilon)
    points = np.arange(-30 * n_steps, 31 * n_steps)
    mass, moved = (
        np.exp(-np.abs(points - shift) / law.scale) * law.interval_probability(0, 0)
        for shift in (0, n_steps)
    )
    smooth = LaplaceEvent(noise_multiplier=1 / epsilon, relation="replace_one", unit="record")
    for asked in np.linspace(0, epsilon, 37)[:-1]:
        gap = float(np.maximum(0.0, mass - np.exp(asked) * moved).sum())
        expected = spend_delta(smooth, epsilon=float(asked)).delta
        assert gap == pytest.approx(expected, abs=(epsilon / n_steps) ** 2)


@pytest.mark.parametrize("share", [0.5, 0.2, 0.01])
@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_a_movement_shared_by_two_numbers_costs_no_more_than_one_that_moves_alone(
    share: float, epsilon: float
) -> None:
    """A histogram under replace_one and a private mean move two numbers; L1 is what counts."""

    def loss(part: float, n_points: int = 400_001) -> tuple[np.ndarray, np.ndarray]:
        grid = np.linspace(-60, 60, n_points)
        return np.abs(grid - part) - np.abs(grid), np.exp(-np.abs(grid)) / 2 * (grid[1] - grid[0])

    first, weights = loss(share * epsilon, 4001)
    second, others = loss((1 - share) * epsilon, 4001)
    total = first[:, None] + second[None, :]
    mass = weights[:, None] * others[None, :]
    alone = LaplaceEvent(noise_multiplier=1 / epsilon, relation="replace_one", unit="record")
    for asked in np.linspace(0, epsilon, 7)[:-1]:
        shared = float((mass * np.maximum(0.0, -np.expm1(asked - total))).sum())
        assert shared <= spend_delta(alone, epsilon=float(asked)).delta + 1e-4


def test_secure_draws_keep_opendps_own_bound() -> None:
    """OpenDP's privacy map of the measurement that draws, at the query's sensitivity."""
    from opendp import measurements

    from insular.mechanisms.sources import _integers, _opendp

    _opendp()
    for query in (COUNT, Sum(lower=-1.0, upper=3.0, relation="replace_one", unit="owner")):
        laplace = Laplace(epsilon=0.5)
        measure = measurements.make_laplace(
            *_integers("l1_distance", "i64"), scale=laplace.scale_steps(query)
        )
        assert measure.map(query.steps_moved("l1")) == pytest.approx(0.5, rel=1e-12)


def test_a_value_that_someone_else_computed() -> None:
    query = DeclaredValue(declared_sensitivity=0.25, relation="add_or_remove_one", unit="owner")
    release = Laplace(epsilon=1.0).release(query, 12.5, noise=SeededNoise(0))
    assert release.sensitivity == pytest.approx(0.25, rel=1e-9)
    assert release.sensitivity >= 0.25
    assert release.unit == "owner"
    assert release.value == pytest.approx(12.5, abs=0.25 * 30)


def test_refusals() -> None:
    with pytest.raises(UnsupportedEventError, match="under replace_one only.*use Laplace"):
        DiscreteLaplace(epsilon=0.5).release(COUNT, PATIENTS)
    summed = Sum(lower=0.0, upper=1.0, relation="replace_one", unit="record")
    with pytest.raises(UnsupportedEventError, match="whole numbers, got a sum; use Laplace"):
        DiscreteLaplace(epsilon=0.5).release(summed, [1.0])
    with pytest.raises(InvalidArgumentError, match="at most 30, got epsilon=31"):
        DiscreteLaplace(epsilon=31.0)
    with pytest.raises(InvalidArgumentError, match="from 1e-06 to 10000, got epsilon=20000"):
        Laplace(epsilon=20000.0)
    with pytest.raises(InvalidArgumentError, match="query must be a Query, got list"):
        Laplace(epsilon=1.0).release(PATIENTS, PATIENTS)  # pyright: ignore[reportArgumentType]
