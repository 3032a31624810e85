"""The least noise that keeps a promise."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, final

from insular import _check
from insular.accounting.accountants import spend
from insular.accounting.events import (
    Event,
    PoissonGaussianEvent,
    RepeatedEvent,
    Unit,
    check_sampling_prob,
)
from insular.accounting.influence import Relation
from insular.accounting.pair import check_delta
from insular.accounting.results import ACCOUNTANTS, Accountant
from insular.accounting.tradeoff import advantage, true_positive_rate
from insular.errors import AccountingError, InvalidArgumentError


class NoisyRun(Protocol):
    """A run whose mechanism depends on one noise multiplier."""

    def event(self, noise_multiplier: float) -> Event:
        """The run with this noise."""
        ...


Target = Literal["epsilon", "advantage", "true_positive_rate"]
"""What a promise is about."""

_RANGE = (1e-2, 1e6)
"""Noise multipliers between which a target must lie."""


@final
@dataclass(frozen=True, kw_only=True)
class Run:
    """Equal Poisson-sampled Gaussian steps whose noise is to be found."""

    sampling_prob: float
    """Probability with which each unit enters a step."""
    steps: int
    """Steps of the run."""
    relation: Relation
    """Which data sets are neighbours."""
    unit: Unit
    """Whose presence is hidden."""

    def __post_init__(self) -> None:
        """Refuse a run that needs no noise."""
        check_sampling_prob(self.sampling_prob)
        _check.positive_finite(sampling_prob=self.sampling_prob)
        _check.at_least(1, steps=self.steps)

    def event(self, noise_multiplier: float) -> RepeatedEvent:
        """The run with this noise.

        Args:
            noise_multiplier: Noise standard deviation over the clip norm.

        Returns:
            The event.
        """
        step = PoissonGaussianEvent(
            noise_multiplier=noise_multiplier,
            sampling_prob=self.sampling_prob,
            relation=self.relation,
            unit=self.unit,
        )
        return RepeatedEvent(event=step, count=self.steps)


@final
@dataclass(frozen=True, kw_only=True)
class CalibratedNoise:
    """The noise that was found, on the safe side."""

    noise_multiplier: float
    """Noise standard deviation over the clip norm."""
    too_little: float
    """A noise multiplier just below that breaks the promise."""
    target: Target
    """What the promise is about."""
    promised: float
    """Its value."""
    achieved: float
    """What the noise gives by the same accountant: at most ``promised``."""
    accountant: Accountant
    """Who computed."""
    event: Event
    """The run with this noise."""


def noise_for_epsilon(
    run: NoisyRun, *, epsilon: float, delta: float, accountant: Accountant = "pld"
) -> CalibratedNoise:
    """The least noise multiplier with which a run spends at most ``epsilon`` at ``delta``.

    Guarantees:
        * On the safe side: ``spend`` on the returned event is at most ``epsilon``.
        * Tight: within 0.01, and within 0.1%, of a noise that spends more.

    Args:
        run: The run: a ``Run``, or whatever gives its event.
        epsilon: Target, in nats, above 0.
        delta: Above 0, below 1.
        accountant: Who computes; one that gives a guarantee.

    Returns:
        The noise.

    Raises:
        InvalidArgumentError: If the accountant gives only an estimate.
        AccountingError: If the target is out of reach; it says what is in reach.
    """
    _check.positive_finite(epsilon=epsilon, delta=delta)
    check_delta(delta)
    _check.one_of(ACCOUNTANTS, accountant=accountant)
    if accountant == "gdp-clt":
        raise InvalidArgumentError(
            "accountant must give a guarantee to calibrate noise, got accountant='gdp-clt', an "
            "estimate that can be below the truth; use accountant='pld'."
        )

    def cost(noise: float) -> float:
        return spend(run.event(noise), delta=delta, accountant=accountant).epsilon

    return _search(run, cost, target="epsilon", promised=epsilon, accountant=accountant)


def noise_for_advantage(run: NoisyRun, *, target_advantage: float) -> CalibratedNoise:
    """The least noise multiplier that bounds every attacker's advantage.

    Guarantees:
        * As ``noise_for_epsilon``, with ``advantage``.

    Args:
        run: The run: a ``Run``, or whatever gives its event.
        target_advantage: Highest true minus false positive rate, above 0, below 1.

    Returns:
        The noise.

    Raises:
        AccountingError: If the target is out of reach; it says what is in reach.
    """
    _check.probability(target_advantage=target_advantage)
    return _search(
        run,
        lambda noise: advantage(run.event(noise)),
        target="advantage",
        promised=target_advantage,
        accountant="pld",
    )


def noise_for_true_positive_rate(
    run: NoisyRun, *, target_true_positive_rate: float, false_positive_rate: float
) -> CalibratedNoise:
    """The least noise multiplier that bounds every attacker's true positive rate.

    Guarantees:
        * As ``noise_for_epsilon``, with ``true_positive_rate``.

    Args:
        run: The run: a ``Run``, or whatever gives its event.
        target_true_positive_rate: Highest rate at which a member is recognised.
        false_positive_rate: Rate at which others are mistaken for a member.

    Returns:
        The noise.

    Raises:
        AccountingError: If the target is out of reach; it says what is in reach.
    """
    _check.probability(
        target_true_positive_rate=target_true_positive_rate,
        false_positive_rate=false_positive_rate,
    )
    return _search(
        run,
        lambda n: true_positive_rate(run.event(n), false_positive_rate=false_positive_rate),
        target="true_positive_rate",
        promised=target_true_positive_rate,
        accountant="pld",
    )


def _search(
    run: NoisyRun,
    cost: Callable[[float], float],
    *,
    target: Target,
    promised: float,
    accountant: Accountant,
) -> CalibratedNoise:
    """Bracket, then close in by interpolation in logarithms, ending on the safe side."""
    low, high = _bracket(cost, target, promised)
    while high[0] - low[0] > _width(high[0]):
        middle = _guess(low, high, promised)
        found = (middle, cost(middle))
        if found[1] > promised:
            low = found
        else:
            high = found
    return CalibratedNoise(
        noise_multiplier=high[0],
        too_little=low[0],
        target=target,
        promised=float(promised),
        achieved=high[1],
        accountant=accountant,
        event=run.event(high[0]),
    )


def _bracket(
    cost: Callable[[float], float], target: Target, promised: float
) -> tuple[tuple[float, float], tuple[float, float]]:
    """A noise that breaks the promise and one that keeps it, with what each costs."""
    at = (1.0, cost(1.0))
    factor = 2.0 if at[1] > promised else 0.5
    while True:
        noise = at[0] * factor
        if not _RANGE[0] <= noise <= _RANGE[1]:
            word = "below" if factor > 1 else "at or above"
            edge = "largest" if factor > 1 else "smallest"
            raise AccountingError(
                f"{target} must be reachable, got {target}={promised!r}: it is {word} {at[1]:.6g}, "
                f"which the {edge} noise multiplier that is tried, {at[0]:.6g}, gives."
            )
        beyond = (noise, cost(noise))
        if (beyond[1] > promised) != (at[1] > promised):
            return (beyond, at) if beyond[0] < at[0] else (at, beyond)
        at, factor = beyond, factor**2 if factor in (2.0, 0.5) else factor


def _width(noise: float) -> float:
    """How close the two ends must come."""
    return max(min(1e-3 * noise, 0.009), 1e-4 * noise)


def _guess(low: tuple[float, float], high: tuple[float, float], promised: float) -> float:
    """A noise between the two, a little beside the crossing so that the other end follows."""
    width = _width(high[0])
    (x, a), (y, b) = low, high
    if not (math.isfinite(a) and b > 0) or y / x > 2.1:
        return math.sqrt(x * y)
    share = math.log(a / promised) / math.log(a / b) if a > b else 0.5
    crossing = x * (y / x) ** share
    beside = crossing + 0.4 * width if y - crossing > 0.8 * width else crossing - 0.4 * width
    return min(max(beside, x + 0.2 * width), y - 0.2 * width)
