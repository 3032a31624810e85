"""What ran, as far as its privacy cost goes. An event is data: it computes nothing."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, final

from insular import _check
from insular.accounting.influence import RELATIONS, Relation
from insular.accounting.rates import check_sampling_prob
from insular.errors import AccountingError, InvalidArgumentError

Unit = Literal["record", "owner"]
"""Whose presence the guarantee hides."""

NoiseSource = Literal["not_drawn", "secure", "seeded"]
"""Where the noise came from; ``not_drawn`` in a plan."""

UNITS: tuple[Unit, ...] = ("record", "owner")
NOISE_SOURCES: tuple[NoiseSource, ...] = ("not_drawn", "secure", "seeded")


@final
@dataclass(frozen=True, kw_only=True)
class GaussianEvent:
    """A value of known L2 sensitivity, with Gaussian noise."""

    kind: Literal["gaussian"] = "gaussian"
    """Tag in evidence."""
    noise_multiplier: float
    """Noise standard deviation over the value's L2 sensitivity under ``relation``."""
    relation: Relation
    """Which data sets are neighbours."""
    unit: Unit
    """Whose presence is hidden."""
    noise_source: NoiseSource = "not_drawn"
    """Where the noise came from."""

    def __post_init__(self) -> None:
        """Refuse values outside their rule."""
        _check.non_negative_finite(noise_multiplier=self.noise_multiplier)
        _check_words(self)


@final
@dataclass(frozen=True, kw_only=True)
class LaplaceEvent:
    """A value of known L1 sensitivity, with Laplace noise."""

    kind: Literal["laplace"] = "laplace"
    """Tag in evidence."""
    noise_multiplier: float
    """Noise scale b over the value's L1 sensitivity under ``relation``: 1 / epsilon."""
    relation: Relation
    """Which data sets are neighbours."""
    unit: Unit
    """Whose presence is hidden."""
    noise_source: NoiseSource = "not_drawn"
    """Where the noise came from."""

    def __post_init__(self) -> None:
        """Refuse values outside their rule."""
        _check.non_negative_finite(noise_multiplier=self.noise_multiplier)
        _check_words(self)


@final
@dataclass(frozen=True, kw_only=True)
class RandomizedResponseEvent:
    """One answer of each unit, told truly with a known probability, else another one evenly."""

    kind: Literal["randomized_response"] = "randomized_response"
    """Tag in evidence."""
    truth_prob: float
    """Probability of the true answer."""
    n_answers: int = 2
    """Possible answers."""
    relation: Literal["replace_one"] = "replace_one"
    """A unit always answers; its neighbour answers otherwise."""
    unit: Unit
    """Whose answer is hidden."""
    noise_source: NoiseSource = "not_drawn"
    """Where the coin came from."""

    def __post_init__(self) -> None:
        """Refuse values outside their rule."""
        _check.probability(truth_prob=self.truth_prob)
        _check.at_least(2, n_answers=self.n_answers)
        if self.relation != "replace_one":
            raise InvalidArgumentError(
                "relation of a randomised response must be replace_one, "
                f"got relation={self.relation!r}: a unit that does not answer is seen."
            )
        _check_words(self)


@final
@dataclass(frozen=True, kw_only=True)
class PoissonGaussianEvent:
    """A sum of clipped contributions of a Poisson sample, with Gaussian noise: a DP-SGD step."""

    kind: Literal["poisson_gaussian"] = "poisson_gaussian"
    """Tag in evidence."""
    noise_multiplier: float
    """Noise standard deviation over the clip norm of one contribution, under either relation."""
    sampling_prob: float
    """Probability with which each unit enters, independently of all others."""
    relation: Relation
    """Which data sets are neighbours."""
    unit: Unit
    """Whose presence is hidden."""
    noise_source: NoiseSource = "not_drawn"
    """Where the noise came from."""

    def __post_init__(self) -> None:
        """Refuse values outside their rule."""
        _check.non_negative_finite(noise_multiplier=self.noise_multiplier)
        check_sampling_prob(self.sampling_prob)
        _check_words(self)


@final
@dataclass(frozen=True, kw_only=True)
class TruncatedPoissonGaussianEvent:
    """As ``PoissonGaussianEvent``, with a random subset kept where the sample is too large."""

    kind: Literal["truncated_poisson_gaussian"] = "truncated_poisson_gaussian"
    """Tag in evidence."""
    noise_multiplier: float
    """Noise standard deviation over the clip norm of one contribution."""
    sampling_prob: float
    """Probability with which each unit enters, before the cut."""
    max_batch_size: int
    """Units kept at most: a physical batch of fixed size."""
    n_units: int
    """Units in the data set; public."""
    relation: Relation
    """Which data sets are neighbours."""
    unit: Unit
    """Whose presence is hidden."""
    noise_source: NoiseSource = "not_drawn"
    """Where the noise came from."""

    def __post_init__(self) -> None:
        """Refuse values outside their rule."""
        _check.non_negative_finite(noise_multiplier=self.noise_multiplier)
        check_sampling_prob(self.sampling_prob)
        _check.at_least(1, max_batch_size=self.max_batch_size, n_units=self.n_units)
        _check_words(self)


@final
@dataclass(frozen=True, kw_only=True)
class GroupedPoissonGaussianEvent:
    """As ``PoissonGaussianEvent`` over records, where an owner of several of them is hidden."""

    kind: Literal["grouped_poisson_gaussian"] = "grouped_poisson_gaussian"
    """Tag in evidence."""
    noise_multiplier: float
    """Noise standard deviation over the clip norm of one record's contribution."""
    sampling_prob: float
    """Probability with which each record enters, independently of all others."""
    records_per_unit: int
    """Records that one owner has at most."""
    relation: Literal["add_or_remove_one"] = "add_or_remove_one"
    """An owner with all its records is there or not."""
    unit: Literal["owner"] = "owner"
    """Whose presence is hidden."""
    noise_source: NoiseSource = "not_drawn"
    """Where the noise came from."""

    def __post_init__(self) -> None:
        """Refuse values outside their rule."""
        _check.non_negative_finite(noise_multiplier=self.noise_multiplier)
        check_sampling_prob(self.sampling_prob)
        _check.at_least(1, records_per_unit=self.records_per_unit)
        _check.one_of(("add_or_remove_one",), relation=self.relation)
        _check.one_of(("owner",), unit=self.unit)
        _check_words(self)


@final
@dataclass(frozen=True, kw_only=True)
class RepeatedEvent:
    """One event that ran several times, each time with fresh randomness."""

    kind: Literal["repeated"] = "repeated"
    """Tag in evidence."""
    event: "Event"
    """What ran."""
    count: int
    """How often; 0 costs nothing."""

    def __post_init__(self) -> None:
        """Refuse a count that is not one."""
        _check.at_least(0, count=self.count)


@final
@dataclass(frozen=True, kw_only=True)
class ComposedEvent:
    """Events that ran on the same data, each free to depend on earlier results."""

    kind: Literal["composed"] = "composed"
    """Tag in evidence."""
    events: "tuple[Event, ...]"
    """In the order in which they ran."""


@final
@dataclass(frozen=True, kw_only=True)
class RepeatAndSelectEvent:
    """A random number of runs, of which the best is released: a private hyperparameter search."""

    kind: Literal["repeat_and_select"] = "repeat_and_select"
    """Tag in evidence."""
    event: "Event"
    """One run."""
    mean_runs: float
    """Mean of the random number of runs."""
    shape: float = math.inf
    """Its distribution: infinite for Poisson, 1 for geometric, 0 for logarithmic, any other for
    truncated negative binomial."""

    def __post_init__(self) -> None:
        """Refuse values outside their rule."""
        _check.positive_finite(mean_runs=self.mean_runs)
        if self.mean_runs < 1:
            raise InvalidArgumentError(
                f"mean_runs must be at least 1, got mean_runs={self.mean_runs!r}."
            )
        if self.shape != math.inf:
            _check.non_negative_finite(shape=self.shape)


Mechanism = (
    GaussianEvent
    | LaplaceEvent
    | RandomizedResponseEvent
    | PoissonGaussianEvent
    | TruncatedPoissonGaussianEvent
    | GroupedPoissonGaussianEvent
)
"""Events that release something themselves."""

Event = Mechanism | RepeatedEvent | ComposedEvent | RepeatAndSelectEvent
"""Every event."""


def parts_of(event: Event) -> Iterator[tuple[Mechanism | RepeatAndSelectEvent, int]]:
    """The mechanisms of an event, each with how often it ran; those that never ran left out.

    Args:
        event: Any event.

    Yields:
        A mechanism, or a repeat-and-select as a whole, and its count.

    Raises:
        AccountingError: If it is not an event.
    """
    if isinstance(event, RepeatedEvent):
        if event.count > 0:
            for part, count in parts_of(event.event):
                yield part, count * event.count
    elif isinstance(event, ComposedEvent):
        for inner in event.events:
            yield from parts_of(inner)
    elif isinstance(event, Mechanism | RepeatAndSelectEvent):
        yield event, 1
    else:
        raise AccountingError(
            f"an event must be one of insular's events, got {type(event).__name__}; an unknown "
            "mechanism has no known cost."
        )


def mechanisms_of(event: Event) -> tuple[Mechanism, ...]:
    """Every mechanism that ran, once each time that it is named.

    Args:
        event: Any event.

    Returns:
        The mechanisms, those inside repeat-and-select included.
    """
    found: list[Mechanism] = []
    for part, _ in parts_of(event):
        found += mechanisms_of(part.event) if isinstance(part, RepeatAndSelectEvent) else [part]
    return tuple(found)


def _check_words(event: Mechanism) -> None:
    """Refuse unknown words."""
    _check.one_of(RELATIONS, relation=event.relation)
    _check.one_of(UNITS, unit=event.unit)
    _check.one_of(NOISE_SOURCES, noise_source=event.noise_source)
