"""Who is in a step: one file of samplers, each of which states what it does in its facts."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import UInt64

from insular import _check
from insular.accounting.rates import check_sampling_prob, sampling_prob_of
from insular.errors import InvalidArgumentError
from insular.mechanisms.keystream import Keystream
from insular.training.results import SamplerFacts


@final
@dataclass(frozen=True, kw_only=True)
class Draw:
    """The units of one step: one logical sample, however many batches compute it."""

    units: tuple[int, ...]
    """Numbers of the units, ascending, each at most once; empty is a draw like any other."""
    slot: int | None = None
    """Part of the pass, for ``shuffled``."""


class Sampler(ABC):
    """Chooses units 0 to n - 1 for each step.

    Guarantees:
        * A draw depends on stream, step and start alone: no seed of torch or numpy, no earlier
          draw, no length of a loader.
        * No unit is in a draw twice.
    """

    @property
    @abstractmethod
    def facts(self) -> SamplerFacts:
        """What this sampler does, for the accountant."""

    @abstractmethod
    def draw(self, step: int, *, start: int = 1) -> Draw:
        """The units of one step.

        Args:
            step: Optimiser step, from 0.
            start: Number of this start of the run, from 1.

        Returns:
            The draw.
        """


@final
class PoissonSampler(Sampler):
    """Each unit enters by its own coin.

    Guarantees:
        * The probability is ``sampling_prob`` rounded down to a multiple of 2^-64: never above it.
        * An empty draw is a draw: nothing is skipped or drawn again.

    Args:
        n_units: Units to choose from: records, where ``records_per_unit`` is given.
        sampling_prob: From 0 to 1; ``sampling_prob_of`` gives it for an expected batch.
        stream: Where random words come from.
        public_n_units: The number to state in the facts, where the true one is private.
        records_per_unit: Most records of one owner, where records are drawn and owners protected.
            That no owner has more is for the caller to see to.
    """

    def __init__(
        self,
        n_units: int,
        *,
        sampling_prob: float,
        stream: Keystream,
        public_n_units: int | None = None,
        records_per_unit: int | None = None,
    ) -> None:
        _check.at_least(1, n_units=n_units)
        check_sampling_prob(sampling_prob)
        if public_n_units is not None:
            _check.at_least(1, public_n_units=public_n_units)
        if records_per_unit is not None:
            _check.at_least(1, records_per_unit=records_per_unit)
        self._n_units, self._stream = n_units, stream
        self._facts = SamplerFacts(
            kind="poisson",
            n_units=n_units if public_n_units is None else public_n_units,
            sampling_prob=float(sampling_prob),
            records_per_unit=records_per_unit,
        )

    @property
    def facts(self) -> SamplerFacts:
        """What this sampler does."""
        return self._facts

    def draw(self, step: int, *, start: int = 1) -> Draw:
        """As ``Sampler.draw``."""
        words = self._stream.words(self._n_units, purpose="poisson", step=step, start=start)
        return Draw(units=_numbers(_below(words, self._facts.sampling_prob or 0.0)))


@final
class TruncatedPoissonSampler(Sampler):
    """Poisson, and of a sample that is too large a random subset: a fixed largest batch.

    Guarantees:
        * As ``PoissonSampler`` where the sample fits.
        * Every subset of the largest size is equally likely, up to ties of 64-bit words, of
          probability below n^2 2^-65.

    Args:
        n_units: Units to choose from, truly: what a cut costs depends on it.
        sampling_prob: From 0 to 1, before the cut.
        max_batch_size: Units kept at most.
        stream: Where random words come from.
    """

    def __init__(
        self, n_units: int, *, sampling_prob: float, max_batch_size: int, stream: Keystream
    ) -> None:
        _check.at_least(1, n_units=n_units, max_batch_size=max_batch_size)
        check_sampling_prob(sampling_prob)
        if max_batch_size < sampling_prob * n_units * (1 - 1e-12):
            raise InvalidArgumentError(
                "max_batch_size must be at least the expected batch size, got "
                f"max_batch_size={max_batch_size} for {sampling_prob * n_units:g} of {n_units} "
                "units; most samples would be cut, and a cut costs as a replacement does."
            )
        self._stream = stream
        self._facts = SamplerFacts(
            kind="truncated_poisson",
            n_units=n_units,
            sampling_prob=float(sampling_prob),
            max_batch_size=max_batch_size,
        )

    @property
    def facts(self) -> SamplerFacts:
        """What this sampler does."""
        return self._facts

    def draw(self, step: int, *, start: int = 1) -> Draw:
        """As ``Sampler.draw``."""
        facts, n = self._facts, self._facts.n_units
        words = self._stream.words(2 * n, purpose="truncated_poisson", step=step, start=start)
        drawn = np.flatnonzero(_below(words[:n], facts.sampling_prob or 0.0))
        order = np.argsort(words[n:][drawn], kind="stable")
        kept = np.sort(drawn[order[: facts.max_batch_size]])
        return Draw(units=tuple(kept.tolist()))


@final
class ShuffledSampler(Sampler):
    """Passes over the units, each in a fresh random order, cut into slots of nearly equal size.

    Nothing is dropped: slots differ by one unit at most, and none holds more than ``batch_size``.
    Nothing is amplified either: the accountant counts how often a unit can have entered.

    Guarantees:
        * Each unit is in exactly one slot of a pass of one start.
        * Every order is equally likely, up to ties of 64-bit words, of probability below
          n^2 2^-65. The cost does not rest on it.

    A run that is started again shuffles again: a unit of a slot that has passed may come a second
    time in the same pass. ``sampled_events.entries_of`` counts it; a run that is resumed at the
    first step of a pass avoids it.

    Args:
        n_units: Units to choose from.
        batch_size: Units of a slot at most.
        stream: Where random words come from.
    """

    def __init__(self, n_units: int, *, batch_size: int, stream: Keystream) -> None:
        _check.at_least(1, batch_size=batch_size)
        sampling_prob_of(batch_size, n_units=n_units)
        self._stream = stream
        self._facts = SamplerFacts(
            kind="shuffled", n_units=n_units, slots=-(-n_units // batch_size)
        )
        self._pass: tuple[int, int] | None = None
        self._slots: list[tuple[int, ...]] = []

    @property
    def facts(self) -> SamplerFacts:
        """What this sampler does."""
        return self._facts

    def draw(self, step: int, *, start: int = 1) -> Draw:
        """As ``Sampler.draw``."""
        _check.at_least(0, step=step)
        _check.at_least(1, start=start)
        number, slot = divmod(step, self._facts.slots or 1)
        if self._pass != (number, start):
            n = self._facts.n_units
            words = self._stream.words(n, purpose="shuffled", step=number, start=start)
            order = np.argsort(words, kind="stable")
            parts = np.array_split(order, self._facts.slots or 1)
            self._slots = [tuple(sorted(part.tolist())) for part in parts]
            self._pass = (number, start)
        return Draw(units=self._slots[slot], slot=slot)


@final
class FullBatchSampler(Sampler):
    """Every unit in every step. No randomness.

    Args:
        n_units: All units.
        public_n_units: The number to state in the facts, where the true one is private.
    """

    def __init__(self, n_units: int, *, public_n_units: int | None = None) -> None:
        _check.at_least(1, n_units=n_units)
        if public_n_units is not None:
            _check.at_least(1, public_n_units=public_n_units)
        self._units = tuple(range(n_units))
        self._facts = SamplerFacts(
            kind="full_batch", n_units=n_units if public_n_units is None else public_n_units
        )

    @property
    def facts(self) -> SamplerFacts:
        """What this sampler does."""
        return self._facts

    def draw(self, step: int, *, start: int = 1) -> Draw:
        """As ``Sampler.draw``."""
        _check.at_least(0, step=step)
        _check.at_least(1, start=start)
        return Draw(units=self._units)


def _below(words: UInt64[np.ndarray, " word"], probability: float) -> np.ndarray:
    """One coin for each word, that falls with the probability rounded down to 2^-64."""
    threshold = int(probability * 2**64)  # exact: a power of two only moves the exponent
    if threshold >= 2**64:
        return np.ones(len(words), dtype=bool)
    return words < np.uint64(threshold)


def _numbers(chosen: np.ndarray) -> tuple[int, ...]:
    """Where the coins fell."""
    return tuple(np.flatnonzero(chosen).tolist())
