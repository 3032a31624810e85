"""Releases drawn from a pair of clipped sums: real steps, real rounding, an exact projection."""

import numpy as np
import pytest
import torch
from torch import nn

from insular.audit.release.draws import (
    ROWS,
    TILE,
    ReleasedStep,
    Releaser,
    clipped_sums,
    draw_exact_scalar,
    shard_seed,
)
from insular.audit.sensitivity.saved_gradients import pack_rows
from insular.audit.statistics.scores import tradeoff_bound
from insular.errors import InvalidArgumentError

N = TILE + 1003
"""Coordinates: one whole tile and an odd rest."""


def step(
    ratio: float = 1.3, *, n: int = N, noise: float = 1.0, divisor: float = 7.0, start: float = 0.04
) -> ReleasedStep:
    """A step whose two sums lie ``ratio`` clip norms apart."""
    rng = np.random.default_rng(3)
    base = 0.01 * rng.standard_normal(n)
    moved = rng.standard_normal(n)
    moved *= 0.25 * ratio / np.linalg.norm(moved)
    return ReleasedStep(
        start=rng.uniform(-start, start, n).astype(np.float32),
        sums=(base.astype(np.float32), (base + moved).astype(np.float32)),
        clip_norm=0.25,
        noise_multiplier=noise,
        expected_batch_size=divisor,
        learning_rate=0.01,
    )


def test_a_release_is_that_of_opacus_and_torchs_sgd_to_the_last_bit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    optimizer = pytest.importorskip("opacus.optimizers.optimizer")
    mine = step(noise=1.3)
    sizes = [2048, 1024, 1000, N - 4072]
    noise = torch.empty(N).normal_(0, mine.noise_std, generator=torch.Generator().manual_seed(1))
    for with_record in (False, True):
        parts = [nn.Parameter(t.clone()) for t in torch.from_numpy(mine.start).split(sizes)]
        private = optimizer.DPOptimizer(
            torch.optim.SGD(parts, lr=mine.learning_rate),
            noise_multiplier=mine.noise_multiplier,
            max_grad_norm=mine.clip_norm,
            expected_batch_size=int(mine.expected_batch_size),
        )
        given = iter(noise.split(sizes))
        monkeypatch.setattr(optimizer, "_generate_noise", lambda **_: next(given))  # noqa: B023
        sums = torch.from_numpy(mine.sums[with_record]).split(sizes)
        for part, one in zip(parts, sums, strict=True):
            part.grad_sample, part.summed_grad = torch.zeros(1, len(one)), one.clone()
        private.add_noise()
        private.scale_grad()
        private.original_optimizer.step()
        released = Releaser(mine).adapter(noise.numpy(), with_record=with_record)
        assert np.array_equal(released, torch.cat(parts).detach().numpy())


def test_the_noise_of_a_draw_has_the_named_spread_on_every_coordinate() -> None:
    mine = step(n=40, divisor=1.0, start=0.0)
    generator = torch.Generator().manual_seed(5)
    noise = torch.empty(ROWS, 40).normal_(0, mine.noise_std, generator=generator)
    releaser = Releaser(mine)
    by_hand = [releaser.statistic(releaser.adapter(row.numpy(), with_record=True)) for row in noise]
    assert releaser.draw(ROWS, with_record=True, seed=5) == pytest.approx(by_hand, abs=1e-9)


def test_the_projection_is_the_definitions() -> None:
    mine = step()
    releaser = Releaser(mine)
    noise = np.random.default_rng(0).normal(0, mine.noise_std, N).astype(np.float32)
    for with_record in (False, True):
        released = releaser.adapter(noise, with_record=with_record)
        assert released.dtype == np.float32
        displacement = released.astype(np.float64) - mine.start.astype(np.float64)
        back = -displacement * mine.expected_batch_size / mine.learning_rate
        unit = mine.difference / np.linalg.norm(mine.difference)
        middle = (mine.sums[0].astype(np.float64) + mine.sums[1]) / 2
        expected = float((back - middle) @ unit) / mine.noise_std
        assert releaser.statistic(released) == pytest.approx(expected, abs=1e-9)
        # and, but for float32, what the noise says in real numbers
        sign = 1 if with_record else -1
        ideal = float(noise.astype(np.float64) @ unit) / mine.noise_std + sign * mine.mu / 2
        assert releaser.statistic(released) == pytest.approx(ideal, abs=1e-3)


def test_equal_seeds_give_equal_draws_and_few_are_the_first_of_many() -> None:
    releaser = Releaser(step(n=500))
    many = releaser.draw(3 * ROWS, with_record=False, seed=11)
    assert np.array_equal(releaser.draw(ROWS + 5, with_record=False, seed=11), many[: ROWS + 5])
    assert not np.array_equal(releaser.draw(ROWS, with_record=False, seed=12), many[:ROWS])


@pytest.mark.parametrize("noise", [1.0, 2.5])
def test_draws_are_two_unit_gaussians_mu_apart(noise: float) -> None:
    mine = step(1.3, n=700, noise=noise)
    assert mine.mu == pytest.approx(1.3 / noise, rel=1e-6)
    releaser = Releaser(mine)
    for with_record, sign in ((False, -1), (True, 1)):
        drawn = releaser.draw(20_000, with_record=with_record, seed=2)
        assert drawn.mean() == pytest.approx(sign * mine.mu / 2, abs=5 / 20_000**0.5)
        assert drawn.std() == pytest.approx(1, abs=0.03)


def test_an_inflated_pair_is_refuted_and_a_clean_one_is_not() -> None:
    for ratio, refuted in ((1.33, True), (1.0, False)):
        releaser = Releaser(step(ratio, n=300))
        draws = [releaser.draw(6000, with_record=side, seed=side + 1) for side in (False, True)]
        assert tradeoff_bound(*draws, claim=1.0).falsifies(1.0) is refuted


def test_the_exact_scalar_is_the_ideal_release() -> None:
    for with_record, sign in ((False, -1), (True, 1)):
        drawn = draw_exact_scalar(1.2, 50_000, with_record=with_record, seed=4)
        assert drawn.mean() == pytest.approx(sign * 0.6, abs=0.02)
        assert drawn.std() == pytest.approx(1, abs=0.02)
        again = draw_exact_scalar(1.2, 50_000, with_record=with_record, seed=4)
        assert np.array_equal(drawn, again)


def test_clipped_sums_are_those_of_the_saved_gradients() -> None:
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((4, 30)).astype(np.float32)
    rows[:, 10:20] = 0
    saved = pack_rows({"base": rows[:3], "with": rows})
    for radius, stabiliser in ((0.5, 0.0), (100.0, 0.0), (0.5, 1e-2)):
        norms = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
        clipped = rows * np.minimum(1, radius / (norms + stabiliser))
        for n, one in zip(
            (3, 4), clipped_sums(saved, radius=radius, stabiliser=stabiliser), strict=True
        ):
            assert one.dtype == np.float32
            assert one == pytest.approx(clipped[:n].sum(axis=0), rel=1e-6, abs=1e-7)


def test_no_two_shards_share_a_seed() -> None:
    seeds = {
        shard_seed(seed, stack=stack, with_record=side, shard=shard)
        for seed in (0, 1)
        for stack in ("llm-int8", "record-owned")
        for side in (False, True)
        for shard in range(20)
    }
    assert len(seeds) == 160
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_bad_steps_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="noise_multiplier must be finite and > 0"):
        step(noise=0.0)
    with pytest.raises(InvalidArgumentError, match="must differ for a release to tell them apart"):
        Releaser(step(0.0))
    good = step(n=40)
    for bad in (good.start.astype(np.float64), good.start[:39]):
        with pytest.raises(InvalidArgumentError, match="float32 vectors of one length, got float"):
            ReleasedStep(
                start=bad,
                sums=good.sums,
                clip_norm=1.0,
                noise_multiplier=1.0,
                expected_batch_size=1.0,
                learning_rate=0.1,
            )
    with pytest.raises(InvalidArgumentError, match="n must be an integer >= 1, got n=0"):
        Releaser(good).draw(0, with_record=True, seed=0)
