"""What mechanisms share that add noise to a query's numbers."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

from insular import _check
from insular.accounting import Mechanism, NoiseSource
from insular.errors import InvalidArgumentError
from insular.mechanisms.laws import NoiseLaw
from insular.mechanisms.queries import Norm, Query
from insular.mechanisms.results import Release
from insular.mechanisms.sources import SECURE, Noise, check_noise

EPSILON_RANGE = (1e-6, 1e4)
"""Below it noise drowns everything, above it nothing is hidden. Inside, the grid of 2^-31 changes
delta by less than (epsilon / 2^31)^2 against continuous noise: 1e-19 at epsilon 1."""


@dataclass(frozen=True, kw_only=True)
class AdditiveMechanism(ABC):
    """Adds noise whose size is set by the query's sensitivity.

    Guarantees:
        * The release's event costs ``epsilon`` (at the mechanism's delta), and no more.
        * Value and noise are whole numbers of steps when they are added; only the sum becomes a
          float.
    """

    epsilon: float
    """Cost of one release, in nats."""

    def __post_init__(self) -> None:
        """Refuse values outside their rule."""
        _check.positive_finite(epsilon=self.epsilon)
        low, high = EPSILON_RANGE
        if not low <= self.epsilon <= high:
            raise InvalidArgumentError(
                f"epsilon of one release must be from {low:g} to {high:g}, got "
                f"epsilon={self.epsilon!r}."
            )

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the mechanism."""

    @property
    @abstractmethod
    def kind(self) -> Literal["laplace", "discrete_laplace", "gaussian"]:
        """The distribution of its noise."""

    @property
    @abstractmethod
    def norm(self) -> Norm:
        """How its sensitivity is measured."""

    @property
    @abstractmethod
    def noise_multiplier(self) -> float:
        """Noise scale over sensitivity."""

    @abstractmethod
    def law(self, query: Query) -> NoiseLaw:
        """The distribution of the noise on each of the query's numbers.

        Args:
            query: What is asked.

        Returns:
            The law, in the query's ``scale_unit``; the grid of 2^-31 is not seen in it.
        """

    @abstractmethod
    def event(self, query: Query, noise_source: NoiseSource = "not_drawn") -> Mechanism:
        """What one release of a query costs, as data.

        Args:
            query: What is asked.
            noise_source: Where the noise comes from.

        Returns:
            The event.
        """

    @abstractmethod
    def draw(self, query: Query, noise: Noise, n_numbers: int) -> list[int]:
        """Noise for each number of a query, in steps.

        Args:
            query: What is asked.
            noise: Where to draw from.
            n_numbers: Numbers that the query has.

        Returns:
            The noise.
        """

    def scale_steps(self, query: Query) -> float:
        """Noise scale in steps, rounded up.

        Args:
            query: What is asked.

        Returns:
            The scale.
        """
        return math.nextafter(query.steps_moved(self.norm) * self.noise_multiplier, math.inf)

    def release(self, query: Query, values: Any, *, noise: Noise = SECURE) -> Release:
        """Answer a query about private data, once.

        Guarantees:
            * Each call draws fresh noise and costs its event again.
            * Arguments, data and sensitivity are checked before noise is drawn.

        Args:
            query: What is asked.
            values: The private data, one value for each unit.
            noise: Where to draw from.

        Returns:
            The noisy value and the event.

        Raises:
            InvalidArgumentError: If an argument or the data breaks its rule.
            MissingDependencyError: If secure noise is asked for without OpenDP.
            UnsupportedEventError: If no event is known for this mechanism and query.
        """
        if not isinstance(query, Query):
            raise InvalidArgumentError(f"query must be a Query, got {type(query).__name__}.")
        check_noise(noise)
        event = self.event(query, noise.source)
        law = self.law(query)
        true = query.steps(values)
        drawn = self.draw(query, noise, len(true))
        return Release(
            value=query.finish([a + b for a, b in zip(true, drawn, strict=True)]),
            event=event,
            mechanism=self.name,
            query=query.name,
            noise=self.kind,
            noise_scale=law.scale,
            scale_unit=query.scale_unit,
            sensitivity=query.sensitivity(self.norm),
            relation=query.relation,
            unit=query.unit,
            noise_source=noise.source,
            expected_error=law.mean_abs if query.error_known else None,
        )
