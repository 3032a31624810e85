"""What a mechanism released, with what makes it valid."""

from dataclasses import dataclass
from typing import Literal, final

from insular.accounting import Event, NoiseSource, Relation, Unit

NoiseKind = Literal["laplace", "discrete_laplace", "gaussian", "answers"]
"""The distribution that was added; ``answers`` where whole answers were changed instead."""

Value = float | int | dict[str, int] | tuple[str, ...]
"""A number, a histogram, or one answer per unit."""


@final
@dataclass(frozen=True, kw_only=True)
class Release:
    """One noisy value, and the event that pays for it."""

    value: Value
    """What may be published. Anything computed from it is as private."""
    event: Event
    """What ran: add it to the others before the cost is asked for."""
    mechanism: str
    """Name of the mechanism."""
    query: str
    """Name of the statistic."""
    noise: NoiseKind
    """The distribution of the noise."""
    noise_scale: float
    """b of a Laplace, standard deviation of a Gaussian, in ``scale_unit``; for ``answers`` the
    probability of another answer."""
    scale_unit: str
    """What noise scale, sensitivity and expected error are counted in."""
    sensitivity: float
    """The furthest that the quantity moves between neighbours: L1 distance for Laplace noise, L2
    for Gaussian noise; 1 answer for ``answers``."""
    relation: Relation
    """Which data sets are neighbours."""
    unit: Unit
    """Whose presence is hidden."""
    noise_source: NoiseSource
    """Where the noise came from."""
    expected_error: float | None
    """Mean absolute noise of one number, before a count is rounded to a whole one; None where it
    depends on the data, or the value is no number."""


@final
@dataclass(frozen=True, kw_only=True)
class FrequencyEstimate:
    """How many gave an answer, as far as randomised reports tell."""

    frequency: float
    """Unbiased, so it may fall below 0 or above 1."""
    standard_error: float
    """Of ``frequency`` as an estimate for the population that the units were drawn from: both
    their draw and their coins."""
    n_reports: int
    """Reports that it rests on."""
