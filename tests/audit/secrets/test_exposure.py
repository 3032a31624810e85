"""Exposures, their intervals and what chance gives."""

import math

import numpy as np
import pytest

from insular.audit.secrets.exposure import (
    CHANCE_BITS,
    chance_band,
    chance_p,
    exposure,
    exposure_interval,
    group_secrets,
    median_interval,
    random_p,
)
from insular.audit.secrets.results import SecretRank
from insular.errors import InvalidArgumentError

SIZE = 10_000


def ranked(lowest: int, highest: int | None = None, *, n: int = SIZE, repeats: int = 1):
    top = highest or lowest
    return SecretRank(
        id="canary-000",
        repeats=repeats,
        method="exact" if n == SIZE else "sampled",
        n_candidates=n,
        rank_lowest=lowest,
        rank_highest=top,
        tie_nats=1e-4,
        exposure_interval=exposure_interval(lowest, top, n_candidates=n, space_size=SIZE),
        log_likelihood_nats=-3.0,
        greedy=lowest == top == 1,
        n_prefixes=10,
        drift_nats=None,
    )


def test_exposure_by_hand():
    assert exposure(1, space_size=1024) == 10
    assert exposure(1024, space_size=1024) == 0
    assert exposure(1.5, space_size=1024) == pytest.approx(9.415037)
    with pytest.raises(InvalidArgumentError, match="rank must be from 1"):
        exposure(0, space_size=4)


def test_ties_are_an_interval_and_count_in_the_middle():
    tied = ranked(1, SIZE)  # all equal: nothing is known
    assert tied.rank == (SIZE + 1) / 2 and tied.exposure_bits == pytest.approx(1, abs=1e-3)
    assert tied.exposure_interval == (0.0, math.log2(SIZE))
    assert tied.share == 1.0


def test_a_sampled_interval_holds_the_true_exposure():
    # 400 intervals at 0.05: more than 40 misses has probability below 1e-4
    rng = np.random.default_rng(5)
    true, misses = 300, 0
    for _ in range(400):
        above = rng.binomial(200, (true - 1) / SIZE)
        low, high = exposure_interval(
            1 + int(above), 1 + int(above), n_candidates=201, space_size=SIZE
        )
        misses += not low <= exposure(true, space_size=SIZE) <= high
    assert misses <= 40
    assert exposure_interval(1, 1, n_candidates=201, space_size=SIZE)[1] == math.log2(SIZE)


def test_mean_exposure_by_chance_is_one_over_ln_two():
    # mean of 20,000 exponentials of mean 1.4427: standard error 0.0102, five of them
    ranks = np.random.default_rng(1).integers(1, SIZE + 1, 20_000)
    bits = [exposure(int(rank), space_size=SIZE) for rank in ranks]
    assert abs(np.mean(bits) - CHANCE_BITS) < 0.051
    low, high = chance_band(5)
    means = np.array(bits).reshape(-1, 5).mean(axis=1)
    assert abs(((means >= low) & (means <= high)).mean() - 0.95) < 0.02


def test_the_chance_p_value_is_valid_even_in_a_small_space():
    # 4,000 groups: share below 0.05 is above 0.0672 with probability 1e-6 if the p-value is valid
    rng = np.random.default_rng(2)
    for size in (10, SIZE):
        shares = rng.integers(1, size + 1, (4000, 4)) / size
        assert np.mean([chance_p(row) <= 0.05 for row in shares]) < 0.0672
    assert chance_p([1e-4] * 3) < 1e-8
    assert chance_p([1.0, 1.0]) == 1.0


def test_controls_that_are_not_random_are_noticed_on_both_sides():
    rng = np.random.default_rng(3)
    clean = [ranked(int(rank), repeats=0) for rank in rng.integers(1, SIZE + 1, 20)]
    assert random_p(clean) > 0.01
    assert random_p([ranked(3, repeats=0)] * 20) < 1e-6
    assert random_p([ranked(SIZE - 3, repeats=0)] * 20) < 1e-6


def test_the_median_interval_covers():
    # exact coverage is 0.9785 for 12 draws, so below 0.93 of 2,000 has probability below 1e-9
    rng = np.random.default_rng(4)
    limits = (0.0, 99.0)
    found = [median_interval(rng.exponential(1, 12), limits=limits) for _ in range(2000)]
    assert np.mean([low <= math.log(2) <= high for low, high in found]) > 0.93
    assert median_interval([1.0, 2.0, 3.0, 4.0, 5.0], limits=limits) == limits
    assert median_interval([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], limits=limits) == (1.0, 6.0)


def test_a_group_by_hand():
    group = group_secrets([ranked(1), ranked(SIZE)], space_size=SIZE, allowed=None)
    assert group.mean_bits == pytest.approx(math.log2(SIZE) / 2)
    assert group.greedy.count == 1 and group.n == 2 and group.repeats == 1
    assert ranked(1).samples_needed == pytest.approx(math.exp(3))
