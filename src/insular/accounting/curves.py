"""The privacy curve of one step: delta at every epsilon, in each direction between neighbours."""

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, final

from insular.accounting.counts import gaussian_mu, largest_loss
from insular.accounting.events import (
    GroupedPoissonGaussianEvent,
    LaplaceEvent,
    Mechanism,
    RandomizedResponseEvent,
    TruncatedPoissonGaussianEvent,
)
from insular.accounting.grouped import grouped_curves

if TYPE_CHECKING:
    import numpy as np
    from dp_accounting.pld.privacy_loss_mechanism import MonotonePrivacyLoss

    Array = np.ndarray

_LEAST_PROB = 1e-12
"""A smaller sampling probability counts as this one, which never costs less."""


class Curve(Protocol):
    """Hockey-stick divergences of a pair of output distributions that dominates all neighbours."""

    def bounds(self) -> tuple[float, float]:
        """Losses between which all but a negligible mass lies."""
        ...

    def delta(self, epsilons: "Array") -> "Array":
        """The divergence at each epsilon, which may be negative."""
        ...


@final
@dataclass(frozen=True, kw_only=True)
class NoiseCurve:
    """Additive noise, sampled or not, by dp_accounting."""

    loss: "MonotonePrivacyLoss"
    """dp_accounting's privacy loss."""

    def bounds(self) -> tuple[float, float]:
        """As ``Curve.bounds``."""
        found = self.loss.connect_dots_bounds()
        return float(found.epsilon_lower or 0.0), float(found.epsilon_upper or 0.0)

    def delta(self, epsilons: "Array") -> "Array":
        """As ``Curve.delta``."""
        import numpy as np

        return np.asarray(self.loss.get_delta_for_epsilon(epsilons))  # pyright: ignore[reportArgumentType]


@final
@dataclass(frozen=True, kw_only=True)
class ResponseCurve:
    """A randomised response."""

    losses: tuple[float, ...]
    """Privacy losses of its outputs."""
    probabilities: tuple[float, ...]
    """Their probabilities."""

    def bounds(self) -> tuple[float, float]:
        """As ``Curve.bounds``."""
        return min(self.losses), max(self.losses)

    def delta(self, epsilons: "Array") -> "Array":
        """As ``Curve.delta``."""
        import numpy as np

        gaps = np.minimum(np.asarray(epsilons)[..., None] - np.array(self.losses), 0.0)
        return -np.expm1(gaps) @ np.array(self.probabilities)


@final
@dataclass(frozen=True, kw_only=True)
class MixedCurve:
    """A public choice between two pairs; the choice is seen by the adversary."""

    share: float
    """Probability of the first."""
    first: Curve
    """Chosen with probability ``share``."""
    second: Curve
    """Chosen otherwise."""

    def bounds(self) -> tuple[float, float]:
        """As ``Curve.bounds``."""
        (a, b), (c, d) = self.first.bounds(), self.second.bounds()
        return min(a, c), max(b, d)

    def delta(self, epsilons: "Array") -> "Array":
        """As ``Curve.delta``."""
        return self.share * self.first.delta(epsilons) + (1 - self.share) * self.second.delta(
            epsilons
        )


def curves_of(part: Mechanism, tail: float) -> tuple[Curve, ...]:
    """The curves of one mechanism.

    Args:
        part: A mechanism with noise.
        tail: Probability that may be counted as an infinite loss.

    Returns:
        One curve, or one to remove a unit and one to add it.
    """
    from dp_accounting.pld.privacy_loss_mechanism import LaplacePrivacyLoss

    match part:
        case LaplaceEvent():
            return (NoiseCurve(loss=LaplacePrivacyLoss(part.noise_multiplier)),)
        case RandomizedResponseEvent():
            return (_response(part),)
        case TruncatedPoissonGaussianEvent():
            return _truncated(part, tail)
        case GroupedPoissonGaussianEvent() if gaussian_mu(Counter({part: 1})) is None:
            return grouped_curves(
                part.noise_multiplier,
                sampling_prob=max(part.sampling_prob, _LEAST_PROB),
                n_records=part.records_per_unit,
                tail=tail,
            )
        case _:
            mu = gaussian_mu(Counter({part: 1}))
            if mu is not None:
                return (_gaussian(1 / mu, 1.0, "remove", tail),)
            return _sampled(part.sampling_prob, part.noise_multiplier, part.relation, tail)  # pyright: ignore[reportAttributeAccessIssue]


def _response(part: RandomizedResponseEvent) -> ResponseCurve:
    """The curve of a randomised response."""
    true = part.truth_prob
    other = (1 - true) / (part.n_answers - 1)
    loss = math.copysign(largest_loss(part), true - other)
    rest = max(0.0, 1 - true - other)
    return ResponseCurve(losses=(loss, -loss, 0.0), probabilities=(true, other, rest))


def _gaussian(noise: float, prob: float, direction: str, tail: float) -> NoiseCurve:
    """dp_accounting's curve of a Poisson-sampled Gaussian."""
    from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss

    # an infinite loss needs the unit to be sampled, so the noise may be cut that much earlier
    cut = min(tail / prob, 1e-5)
    loss = GaussianPrivacyLoss(
        noise,
        sampling_prob=prob,
        adjacency_type=AdjacencyType[direction.upper()],
        log_mass_truncation_bound=max(math.log(cut), -690.0),
    )
    return NoiseCurve(loss=loss)


def _sampled(prob: float, noise: float, relation: str, tail: float) -> tuple[Curve, ...]:
    """The curves of a Poisson-sampled Gaussian whose contributions are at most 1 long."""
    prob = max(prob, _LEAST_PROB)
    directions = ("replace",) if relation == "replace_one" else ("remove", "add")
    return tuple(_gaussian(noise, prob, direction, tail) for direction in directions)


def _truncated(part: TruncatedPoissonGaussianEvent, tail: float) -> tuple[Curve, ...]:
    """With the probability of a cut, an outsider's place changes too: a replacement."""
    from scipy.stats import binom

    noise, prob = part.noise_multiplier, part.sampling_prob
    whole = _sampled(prob, noise, part.relation, tail)
    size, units = part.max_batch_size, part.n_units
    cut = float(binom.sf(size - 1, units - 1, prob))
    inside = min(1.0, float(binom.sf(size, units, prob)) * size / cut / units) if cut > 0 else 0.0
    if inside == 0:
        return whole
    (replaced,) = _sampled(inside, noise / 2, "replace_one", tail)
    return tuple(MixedCurve(share=cut, first=replaced, second=one) for one in whole)
