"""Releases of one DP-SGD step, drawn again and again from a pair of clipped sums.

Forward, backward and clipping are not run again: their sums come from an audit's saved gradients.
What is repeated is everything after them: noise, divisor, optimiser, the float32 adapter.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
import torch

from insular import _check
from insular.audit.sensitivity.contributions import Contributions
from insular.audit.sensitivity.saved_gradients import unpack_rows
from insular.errors import InvalidArgumentError

ROWS, TILE = 64, 4096
"""Releases, and coordinates of each, that go through noise, divisor, step and projection while they
are in the cache."""

Array = np.ndarray


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class ReleasedStep:
    """One step of DP-SGD from a fixed adapter, on either of two neighbouring batches."""

    start: Array
    """The adapter before the step, float32, one number a coordinate."""
    sums: tuple[Array, Array]
    """Clipped sums without the record and with it, float32."""
    clip_norm: float
    """Bound C, in gradient units."""
    noise_multiplier: float
    """Noise standard deviation over C."""
    expected_batch_size: float
    """Divisor of the noisy sum."""
    learning_rate: float
    """Of the SGD step."""

    def __post_init__(self) -> None:
        """Refuse numbers that break their rule, and sums that do not fit the adapter."""
        _check.positive_finite(
            clip_norm=self.clip_norm,
            noise_multiplier=self.noise_multiplier,
            expected_batch_size=self.expected_batch_size,
            learning_rate=self.learning_rate,
        )
        for array in (self.start, *self.sums):
            if array.dtype != np.float32 or array.shape != self.start.shape or array.ndim != 1:
                raise InvalidArgumentError(
                    "start and sums must be float32 vectors of one length, got "
                    f"{', '.join(f'{a.dtype} {a.shape}' for a in (self.start, *self.sums))}."
                )

    @property
    def noise_std(self) -> float:
        """Absolute standard deviation of the noise on each coordinate."""
        return self.noise_multiplier * self.clip_norm

    @property
    def difference(self) -> Array:
        """The clipped sum with the record minus the one without it, float64."""
        return self.sums[1].astype(np.float64) - self.sums[0].astype(np.float64)

    @property
    def mu(self) -> float:
        """Distance of the two sums over the standard deviation of the noise."""
        return float(np.linalg.norm(self.difference)) / self.noise_std


def clipped_sums(
    arrays: Mapping[str, Array], *, radius: float, stabiliser: float
) -> tuple[Array, Array]:
    """The clipped sums of a saved pair of batches, as the float32 numbers that get the noise.

    Args:
        arrays: ``base`` and ``with``, as the sensitivity audit saved them.
        radius: Clip norm, in gradient units.
        stabiliser: What the stack's clipping adds to each norm.

    Returns:
        Both sums, float32, added up in float64.
    """

    def summed(name: str) -> Array:
        gradients = torch.from_numpy(unpack_rows(arrays, name))
        return Contributions(gradients, stabiliser=stabiliser).sum_at(radius).float().numpy()

    return summed("base"), summed("with")


@final
class Releaser:
    """Draws released adapters, and the one number of each that tells the neighbours apart best.

    Args:
        step: The step.

    Raises:
        InvalidArgumentError: If the two sums are the same, so that nothing tells them apart.
    """

    def __init__(self, step: ReleasedStep) -> None:
        difference = step.difference
        distance = float(np.linalg.norm(difference))
        if not distance:
            raise InvalidArgumentError(
                "sums must differ for a release to tell them apart, got a distance of 0."
            )
        self._step = step
        self._start = torch.from_numpy(step.start)
        self._sums = tuple(torch.from_numpy(one) for one in step.sums)
        self._direction = torch.from_numpy(difference / distance)
        # what the projection of an adapter is at the start, and half-way between the neighbours
        self._origin = float(self._start.double() @ self._direction)
        middle = (step.sums[0].astype(np.float64) + step.sums[1].astype(np.float64)) / 2
        self._middle = float(torch.from_numpy(middle) @ self._direction) / step.noise_std
        self._scale = -step.expected_batch_size / (step.learning_rate * step.noise_std)
        n = len(step.start)
        self._spans = [slice(at, min(at + TILE, n)) for at in range(0, n, TILE)]
        self._block = torch.empty(ROWS * TILE)
        self._wide = torch.empty(ROWS * TILE, dtype=torch.float64)

    def adapter(self, noise: Array, *, with_record: bool) -> Array:
        """The released adapter for given noise, by the same operations as a draw.

        Args:
            noise: One number a coordinate, float32, already of standard deviation ``noise_std``.
            with_record: Which neighbour.

        Returns:
            The adapter, float32.
        """
        released = torch.from_numpy(noise).clone()[None]
        for span in self._spans:
            self._release(released[:, span], span, with_record=with_record)
        return released[0].numpy()

    def statistic(self, adapter: Array) -> float:
        """The projection of one released adapter.

        N(-mu/2, 1) without the record and N(mu/2, 1) with it, as far as float32 lets it be.

        Args:
            adapter: What was released, float32.

        Returns:
            The displacement along the mean difference, in standard deviations, from half-way.
        """
        total = float(torch.from_numpy(adapter).double() @ self._direction)
        return (total - self._origin) * self._scale - self._middle

    def draw(
        self,
        n: int,
        *,
        with_record: bool,
        seed: int,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Array:
        """Draw releases of one neighbour and project each.

        Every coordinate gets noise, whether the two sums differ there or not. The adapter is
        rounded to float32 by the operations of Opacus and torch's SGD; the projection is float64.

        Guarantees:
            * Equal seeds give equal numbers, and the first of many are those of few.
            * ``statistic(adapter(noise))`` is the same up to the order of a float64 sum.

        Args:
            n: Releases.
            with_record: Which neighbour.
            seed: Of torch's generator, which is fast and not a secure one.
            progress: Called with the number of releases so far, now and then.

        Returns:
            The statistic of each release, float64.
        """
        _check.at_least(1, n=n)
        _check.at_least(0, seed=seed)
        generator = torch.Generator().manual_seed(seed)
        blocks = []
        for done in range(0, n, ROWS):
            blocks.append(self._draw_block(generator, with_record=with_record))
            if done % 1024 == 0:
                progress(done)
        totals = torch.cat(blocks)[:n].numpy()
        return (totals - self._origin) * self._scale - self._middle

    def _draw_block(self, generator: torch.Generator, *, with_record: bool) -> torch.Tensor:
        """Projections of so many released adapters, each coordinate of them in turn."""
        totals = torch.zeros(ROWS, dtype=torch.float64)
        for span in self._spans:
            shape = (ROWS, span.stop - span.start)
            block = self._block[: shape[0] * shape[1]].view(shape)
            wide = self._wide[: shape[0] * shape[1]].view(shape)
            block.normal_(0.0, self._step.noise_std, generator=generator)
            self._release(block, span, with_record=with_record)
            totals.addmv_(wide.copy_(block), self._direction[span])
        return totals

    def _release(self, block: torch.Tensor, span: slice, *, with_record: bool) -> None:
        """Turn rows of noise into the same coordinates of released adapters, in place."""
        block.add_(self._sums[with_record][span]).div_(self._step.expected_batch_size)
        torch.add(self._start[span], block, alpha=-self._step.learning_rate, out=block)


def draw_exact_scalar(mu: float, n: int, *, with_record: bool, seed: int) -> Array:
    """The statistic of an ideal release, without its other coordinates: N(-mu/2, 1) or N(mu/2, 1).

    It audits the mechanism that is meant, in real numbers, and says nothing of the code.

    Args:
        mu: Distance of the two sums over the standard deviation of the noise.
        n: Draws.
        with_record: Which neighbour.
        seed: Of numpy's generator.

    Returns:
        The draws.
    """
    _check.non_negative_finite(mu=mu)
    _check.at_least(1, n=n)
    shift = mu / 2 if with_record else -mu / 2
    return np.random.default_rng(seed).standard_normal(n) + shift


def shard_seed(seed: int, *, stack: str, with_record: bool, shard: int) -> int:
    """The seed of one shard, which no other stack, neighbour or shard shares.

    Args:
        seed: Of the run.
        stack: Name of the stack.
        with_record: Which neighbour.
        shard: Its position.

    Returns:
        From 0 to 2^63 - 1.
    """
    text = f"{seed} {stack} {int(with_record)} {shard}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) >> 1
