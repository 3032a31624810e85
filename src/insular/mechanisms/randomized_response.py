"""Randomised response: each unit reports its answer truly with a known probability."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from insular import _check
from insular.accounting import NoiseSource, RandomizedResponseEvent, Unit
from insular.errors import InvalidArgumentError
from insular.mechanisms._values import listed, refuse_value
from insular.mechanisms.counts import check_categories
from insular.mechanisms.results import FrequencyEstimate, Release
from insular.mechanisms.sources import SECURE, Noise, check_noise


@final
@dataclass(frozen=True, kw_only=True)
class RandomizedResponse:
    """One of k answers, reported truly with probability p, else another one evenly.

    ``epsilon = ln(p (k - 1) / (1 - p))``, delta 0. Who answers is public; the neighbour answers
    otherwise. Each unit answers once, so the answers of all units cost what one does.

    Source:
        Warner (1965), "Randomized response: a survey technique for eliminating evasive answer
        bias"; Kairouz, Oh and Viswanath (2016), for k answers.
    """

    categories: tuple[str, ...]
    """The possible answers; public."""
    truth_prob: float
    """Probability p of the true answer, at least 1 / k and below 1."""
    unit: Unit
    """Whose answer is hidden."""

    def __post_init__(self) -> None:
        """Refuse values outside their rule."""
        check_categories(self.categories, least=2)
        _check.probability(truth_prob=self.truth_prob)
        if not 1 / len(self.categories) <= self.truth_prob < 1:
            raise InvalidArgumentError(
                f"truth_prob must be at least 1 over {len(self.categories)} answers and below 1, "
                f"got truth_prob={self.truth_prob!r}."
            )
        self.event()  # checks the unit

    @property
    def name(self) -> str:
        """``randomized response``."""
        return "randomized response"

    @property
    def epsilon(self) -> float:
        """Cost of one answer, in nats."""
        return max(0.0, math.log(self.truth_prob) - math.log(self._other_prob))

    def event(self, noise_source: NoiseSource = "not_drawn") -> RandomizedResponseEvent:
        """What the answers cost, as data.

        Args:
            noise_source: Where the coins come from.

        Returns:
            The event.
        """
        return RandomizedResponseEvent(
            truth_prob=self.truth_prob,
            n_answers=len(self.categories),
            unit=self.unit,
            noise_source=noise_source,
        )

    def release(self, answers: Sequence[str], *, noise: Noise = SECURE) -> Release:
        """Report every unit's answer.

        Args:
            answers: The true answer of each unit.
            noise: Where to draw from.

        Returns:
            The reported answers, in the same order, and the event.

        Raises:
            InvalidArgumentError: If an answer is not one of the categories.
        """
        check_noise(noise)
        indices = {name: index for index, name in enumerate(self.categories)}
        true = [indices[answer] for answer in self._checked(answers)]
        reported = noise.answers(true, self.truth_prob, len(self.categories))
        return Release(
            value=tuple(self.categories[index] for index in reported),
            event=self.event(noise.source),
            mechanism=self.name,
            query="answers",
            noise="answers",
            noise_scale=1 - self.truth_prob,
            scale_unit="probability of another answer",
            sensitivity=1.0,
            relation="replace_one",
            unit=self.unit,
            noise_source=noise.source,
            expected_error=None,
        )

    def estimate(self, reports: Sequence[str], *, category: str) -> FrequencyEstimate:
        """How frequent an answer is in the population, from reports alone; it costs nothing.

        ``(share - q) / (p - q)``, with p the probability of the true answer and q of each other.

        Guarantees:
            * Unbiased, and so is the square of its standard error.

        Args:
            reports: Reported answers, at least two.
            category: The answer to estimate.

        Returns:
            The estimate.

        Raises:
            InvalidArgumentError: If the reports tell nothing.
        """
        _check.one_of(self.categories, category=category)
        items = self._checked(reports)
        if len(items) < 2:
            raise InvalidArgumentError(f"reports must be at least 2, got {len(items)}.")
        gap = self.truth_prob - self._other_prob
        if gap <= 1e-12:
            raise InvalidArgumentError(
                "truth_prob must be above 1 over the number of answers for an estimate, got "
                f"truth_prob={self.truth_prob!r}: the reports are pure noise."
            )
        share = items.count(category) / len(items)
        return FrequencyEstimate(
            frequency=(share - self._other_prob) / gap,
            standard_error=math.sqrt(share * (1 - share) / (len(items) - 1)) / gap,
            n_reports=len(items),
        )

    @property
    def _other_prob(self) -> float:
        """Probability of each answer that is not true."""
        return (1 - self.truth_prob) / (len(self.categories) - 1)

    def _checked(self, answers: Sequence[str]) -> list[str]:
        """Answers, each one of the categories."""
        items = listed(answers)
        for position, item in enumerate(items):
            if not isinstance(item, str) or item not in self.categories:
                refuse_value(position, "one of the categories")
        return items
