"""What of an event costs something, and what needs no composition to be known."""

import math
from collections import Counter
from dataclasses import replace

from insular.accounting.events import (
    Event,
    GaussianEvent,
    GroupedPoissonGaussianEvent,
    LaplaceEvent,
    Mechanism,
    PoissonGaussianEvent,
    RandomizedResponseEvent,
    RepeatAndSelectEvent,
    TruncatedPoissonGaussianEvent,
    parts_of,
)
from insular.errors import UnsupportedEventError

NOISE_RANGE = (1e-2, 1e6)
"""Outside it a sampled step is counted as unsampled, which never costs less."""


def counted(event: Event) -> Counter[Mechanism]:
    """Mechanisms that cost something, equal ones together.

    Args:
        event: Any event.

    Returns:
        How often each mechanism ran. Where the noise came from is left out.

    Raises:
        UnsupportedEventError: For a repeat-and-select, which is not a composition.
    """
    counts: Counter[Mechanism] = Counter()
    for part, count in parts_of(event):
        if isinstance(part, RepeatAndSelectEvent):
            raise UnsupportedEventError(
                "this accountant has no rule for repeat_and_select; use accountant='rdp'."
            )
        if not _free(part):
            counts[replace(part, noise_source="not_drawn")] += count
    return counts


def unprotected(counts: Counter[Mechanism]) -> bool:
    """Whether a mechanism that ran shows its input.

    Args:
        counts: Mechanisms with their counts.

    Returns:
        True if one has no noise.
    """
    return any(
        math.isinf(largest_loss(part))
        if isinstance(part, RandomizedResponseEvent)
        else part.noise_multiplier == 0
        for part in counts
    )


def gaussian_mu(counts: Counter[Mechanism]) -> float | None:
    """The distance that one Gaussian would need to cost the same, where all are Gaussian.

    Args:
        counts: Mechanisms with their counts.

    Returns:
        ``sqrt(sum count mu^2)``, 0 for none; None where one is not an unsampled Gaussian.
    """
    total = 0.0
    for part, count in counts.items():
        mu = _unsampled_mu(part)
        if mu is None:
            return None
        total = math.hypot(total, math.sqrt(count) * mu)
    return total


def pure_epsilon(counts: Counter[Mechanism]) -> float:
    """Epsilon at delta 0: the sum of the largest losses.

    Args:
        counts: Mechanisms with their counts.

    Returns:
        Epsilon in nats, infinite where one loss has no bound.
    """
    return sum(count * largest_loss(part) for part, count in counts.items())


def sampled_at_all(counts: Counter[Mechanism]) -> float:
    """A bound on delta at epsilon 0: the expected number of steps that a unit enters.

    Args:
        counts: Mechanisms with their counts.

    Returns:
        ``sum count q``, infinite where a mechanism is not Poisson-sampled.
    """
    return sum(count * _entry_prob(part) for part, count in counts.items())


def largest_loss(part: Mechanism) -> float:
    """The largest privacy loss that one mechanism can cause, infinite if it has no bound.

    Args:
        part: A mechanism.

    Returns:
        The loss in nats.
    """
    match part:
        case LaplaceEvent():
            return 1 / part.noise_multiplier
        case RandomizedResponseEvent():
            other = (1 - part.truth_prob) / (part.n_answers - 1)
            if part.truth_prob == 0 or other == 0:
                return math.inf
            loss = abs(math.log(part.truth_prob) - math.log(other))
            return loss if loss > 1e-15 else 0.0
        case _:
            return math.inf


def _free(part: Mechanism) -> bool:
    """Whether a mechanism releases nothing about anyone."""
    match part:
        case (
            PoissonGaussianEvent() | TruncatedPoissonGaussianEvent() | GroupedPoissonGaussianEvent()
        ):
            return part.sampling_prob == 0
        case RandomizedResponseEvent():
            return largest_loss(part) == 0
        case _:
            return False


def _entry_prob(part: Mechanism) -> float:
    """Probability that a unit enters at all; infinite where a mechanism is not Poisson-sampled."""
    match part:
        case PoissonGaussianEvent():
            return part.sampling_prob
        case GroupedPoissonGaussianEvent():
            return min(1.0, part.records_per_unit * part.sampling_prob)
        case _:
            return math.inf


def _unsampled_mu(part: Mechanism) -> float | None:
    """Distance over noise of a Gaussian that every unit enters; None for another mechanism."""
    match part:
        case GaussianEvent():
            return 1 / part.noise_multiplier
        case PoissonGaussianEvent():
            low, high = NOISE_RANGE
            if part.sampling_prob < 1 and low <= part.noise_multiplier <= high:
                return None
            reach = 1.0 if part.relation == "add_or_remove_one" else 2.0
            return reach / part.noise_multiplier
        case GroupedPoissonGaussianEvent():
            low, high = NOISE_RANGE
            noise = part.noise_multiplier / part.records_per_unit
            if part.sampling_prob < 1 and low <= noise and part.noise_multiplier <= high:
                return None
            return 1 / noise
        case _:
            return None
