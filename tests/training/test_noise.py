"""Noise: the right size, independent, in whole steps of a public grid whatever the sum's bits."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from insular.errors import InvalidArgumentError
from insular.mechanisms.keystream import SecureStream, SeededStream
from insular.training.noise import GaussianNoise, NoiseDraw, grid_of, rounding_excess

N = 4096


def correlation(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.corrcoef(one, other)[0, 1])


def seeded(seed: int = 0) -> GaussianNoise:
    return GaussianNoise(SeededStream(seed))


def test_the_law_is_the_normal_one() -> None:
    """Seeded; a true sampler fails with probability below 1e-6 (one test) plus four 6-sd tails."""
    draw = seeded(11).draw(400_001, noise_std=0.3, step=0)
    values = draw.values / 0.3
    n = len(values)
    assert stats.kstest(values, "norm").pvalue > 1e-6
    assert abs(values.mean()) * math.sqrt(n) < 6
    assert abs(values.var() - 1) * math.sqrt(n / 2) < 6
    assert abs(stats.skew(values)) * math.sqrt(n / 6) < 6
    assert abs(stats.kurtosis(values)) * math.sqrt(n / 24) < 6
    assert draw.rms == pytest.approx(float(np.sqrt((draw.values**2).mean())))
    assert draw.std == 0.3


def test_every_coordinate_has_its_standard_deviation_and_none_knows_another() -> None:
    """2,000 draws of 60 coordinates; bounds of six standard deviations: false alarm below 4e-6."""
    noise = GaussianNoise(SecureStream())
    rows = np.stack([noise.draw(60, noise_std=2.5, step=t).values for t in range(2000)])
    assert np.abs(rows.std(axis=0) / 2.5 - 1).max() < 6 / math.sqrt(2 * 2000)
    across = np.corrcoef(rows.T) - np.eye(60)
    assert np.abs(across).max() < 6 / math.sqrt(2000)
    squares = np.corrcoef((rows**2).T) - np.eye(60)  # Box-Muller's pairs share a radius
    assert np.abs(squares).max() < 7 / math.sqrt(2000)
    along = [correlation(rows[:-1, i], rows[1:, i]) for i in range(60)]
    assert np.abs(along).max() < 6 / math.sqrt(1999)


@pytest.mark.parametrize("stream", ["secure", "seeded"])
def test_user_code_that_seeds_each_epoch_replays_no_noise(stream: str) -> None:
    """|correlation| below 0.08 on 4,096 coordinates: 5.1 sd; nine pairs, false alarm 3e-6."""
    noise = GaussianNoise(SecureStream() if stream == "secure" else SeededStream(123))
    epochs = []
    for epoch in range(2):
        torch.manual_seed(123)
        np.random.seed(123)
        epochs.append([noise.draw(N, noise_std=1.0, step=3 * epoch + k).values for k in range(3)])
    for one in epochs[0]:
        for other in epochs[1]:
            assert abs(correlation(one, other)) < 0.08


def test_a_restart_replays_no_noise() -> None:
    first = GaussianNoise(SecureStream()).draw(N, noise_std=1.0, step=3)
    again = GaussianNoise(SecureStream()).draw(N, noise_std=1.0, step=3, start=2)
    assert abs(correlation(first.values, again.values)) < 0.08
    one, other = (seeded(5).draw(N, noise_std=1.0, step=3, start=s).values for s in (1, 2))
    assert abs(correlation(one, other)) < 0.08


def test_a_seeded_run_that_is_resumed_draws_what_the_unbroken_one_would() -> None:
    whole = seeded(9)
    draws = [whole.draw(100, noise_std=1.0, step=t) for t in range(5)]
    assert np.array_equal(seeded(9).draw(100, noise_std=1.0, step=4).values, draws[4].values)
    assert whole.source == "seeded"


def test_a_secure_stream_refuses_to_hide_two_releases_with_one_noise() -> None:
    noise = GaussianNoise(SecureStream())
    noise.draw(10, noise_std=1.0, step=0)
    with pytest.raises(InvalidArgumentError, match="new to a SecureStream"):
        noise.draw(10, noise_std=1.0, step=0)


def test_noise_of_a_sum_whatever_the_reduction_of_the_loss() -> None:
    """Zero gradients, B = 16, C = 1, multiplier 1.5: the update has std 0.09375, within 2%.

    The standard error is 0.22%: nine standard deviations.
    """
    noise = GaussianNoise(SecureStream())
    draw = noise.draw(100_000, noise_std=1.5 * 1.0, step=0)
    update = noise.add(torch.zeros(100_000), draw) / 16
    assert float(update.std()) == pytest.approx(0.09375, rel=0.02)


FLOATS = st.floats(-1e3, 1e3, width=32)


@settings(max_examples=200, deadline=None)
@given(
    clipped=st.lists(FLOATS, min_size=1, max_size=20),
    noise_std=st.floats(1e-2, 1e6),
    step=st.integers(0, 100),
)
def test_every_noisy_coordinate_is_a_whole_multiple_of_the_grid(
    clipped: list[float], noise_std: float, step: int
) -> None:
    noise = seeded(1)
    draw = noise.draw(len(clipped), noise_std=noise_std, step=step)
    assert math.frexp(draw.grid)[0] == 0.5
    assert noise_std / 2**31 < draw.grid <= noise_std / 2**30
    steps = [int(value / draw.grid) for value in draw.values.tolist()]
    assert [k * draw.grid for k in steps] == draw.values.tolist()
    # the same in exact integers: whole steps of the sum, plus whole steps of noise, then one cast
    exact = [round(x / draw.grid) + k for x, k in zip(clipped, steps, strict=True)]
    expected = torch.tensor([k * draw.grid for k in exact], dtype=torch.float64).float()
    found = noise.add(torch.tensor(clipped), draw)
    assert torch.equal(found, expected)
    assert found.dtype == torch.float32


def test_sums_with_different_low_bits_reach_the_same_outputs() -> None:
    """What the attack reads: without the grid, the set of outputs depends on the sum's bits."""
    noise = seeded(2)
    draw = noise.draw(1000, noise_std=1.0, step=0)
    tiny = torch.full((1000,), float(np.float32(draw.grid * 0.3)))
    assert torch.equal(noise.add(torch.zeros(1000), draw), noise.add(tiny, draw))


def test_rounding_raises_the_sensitivity_by_no_more_than_it_says() -> None:
    grid = grid_of(1.0)
    generator = np.random.default_rng(0)
    one = generator.normal(size=5000)
    other = one + generator.normal(size=5000) / math.sqrt(5000)
    apart = np.linalg.norm(one - other)
    moved = np.linalg.norm(np.rint(one / grid) * grid - np.rint(other / grid) * grid)
    assert abs(moved - apart) <= rounding_excess(1.0, n_params=5000)
    assert rounding_excess(1.0, n_params=460_800) == pytest.approx(6.322e-7, rel=1e-3)


def test_the_given_sum_is_left_as_it_was_and_odd_sizes_work() -> None:
    noise = seeded(3)
    clipped = torch.arange(7.0)
    draw = noise.draw(7, noise_std=1e-3, step=0)
    noisy = noise.add(clipped, draw)
    assert torch.equal(clipped, torch.arange(7.0))
    assert torch.allclose(noisy.double() - clipped, torch.from_numpy(draw.values), atol=1e-6)
    assert len(noise.draw(1, noise_std=1.0, step=1).values) == 1


def test_the_tail_reaches_as_far_as_the_words_do() -> None:
    from insular.mechanisms.normals import standard_normals

    words = np.zeros((3, 1), dtype=np.uint64)
    farthest = standard_normals(words)
    assert farthest[0] == pytest.approx(math.sqrt(2 * 129 * math.log(2)))
    words[:2] = np.iinfo(np.uint64).max
    assert np.abs(standard_normals(words)).max() < 1e-7


def test_bad_arguments() -> None:
    noise = seeded(0)
    draw = noise.draw(3, noise_std=1.0, step=0)
    for bad in (math.nan, math.inf, -math.inf, 1e30):
        with pytest.raises(InvalidArgumentError, match=r"finite and below 2\^53 steps"):
            noise.add(torch.tensor([0.0, bad, 0.0]), draw)
    with pytest.raises(InvalidArgumentError, match=r"one coordinate for each.*\(2,\) and \(3,\)"):
        noise.add(torch.zeros(2), draw)
    for bad in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(InvalidArgumentError, match="noise_std must be finite and > 0"):
            noise.draw(3, noise_std=bad, step=0)
    with pytest.raises(InvalidArgumentError, match=r"noise_std must be from 1e-30 to 1e\+30"):
        noise.draw(3, noise_std=1e-40, step=0)
    with pytest.raises(InvalidArgumentError, match="n_params must be an integer >= 1"):
        noise.draw(0, noise_std=1.0, step=0)
    assert isinstance(draw, NoiseDraw)
