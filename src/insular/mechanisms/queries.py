"""A statistic as a query: what is noised, in whole steps, and how far one unit moves it.

Data has one value for each unit: with ``unit="owner"``, reduce an owner's records to one value
first. A query holds public facts only. Each number that will be noised is kept as a whole number of
steps of 2^-31, so sums are exact and a sensitivity holds to the last bit, whatever the order of the
data (Casacuberta et al. 2022, "Widespread underestimation of sensitivity in differentially private
libraries and how to fix it").

An error about the data names a position, never a value. It is meant for whoever holds the data;
publishing it is a release without noise.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, final

from insular import _check
from insular.accounting import RELATIONS, Relation, Unit
from insular.accounting.events import UNITS
from insular.errors import InvalidArgumentError
from insular.mechanisms._values import finite_number
from insular.mechanisms.results import Value

Norm = Literal["l1", "l2"]
"""How the movement of several numbers is measured: L1 for Laplace noise, L2 for Gaussian noise."""

ONE = 2**31
"""Steps in 1."""
LARGEST = 1e200
"""Bounds and sensitivities lie between its inverse and it, so that no sum overflows."""


@dataclass(frozen=True, kw_only=True)
class Query(ABC):
    """What is asked of the data, and how far one unit moves the answer.

    Guarantees:
        * ``steps_moved`` is an upper bound for every pair of neighbours, and attained (a declared
          value aside).
        * Asking changes nothing, neither the query nor the data.
    """

    relation: Relation
    """Which data sets are neighbours."""
    unit: Unit
    """Whose presence is hidden."""

    def __post_init__(self) -> None:
        """Refuse values outside their rule."""
        _check.one_of(RELATIONS, relation=self.relation)
        _check.one_of(UNITS, unit=self.unit)

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the statistic."""

    @property
    @abstractmethod
    def scale_unit(self) -> str:
        """What noise and sensitivity are counted in."""

    @property
    def step(self) -> float:
        """Size of a step, in ``scale_unit``."""
        return 1 / ONE

    @property
    def whole(self) -> bool:
        """Whether the noised numbers are whole by nature, as counts are."""
        return False

    @property
    def error_known(self) -> bool:
        """Whether the released number is the true one plus the noise."""
        return True

    @abstractmethod
    def steps(self, values: Any) -> list[int]:
        """The numbers to be noised, in steps.

        Args:
            values: The data: one value for each unit.

        Returns:
            The true numbers. They are private.
        """

    @abstractmethod
    def steps_moved(self, norm: Norm) -> int:
        """The furthest that ``steps`` moves between neighbours.

        Args:
            norm: How to measure several numbers together.

        Returns:
            The distance in steps.
        """

    @abstractmethod
    def finish(self, noisy: list[int]) -> Value:
        """The statistic from its noisy numbers alone.

        Args:
            noisy: Numbers in steps, with noise.

        Returns:
            The value to publish.
        """

    def sensitivity(self, norm: Norm = "l1") -> float:
        """The furthest that the noised numbers move between neighbours.

        Args:
            norm: How to measure several numbers together.

        Returns:
            The distance, in ``scale_unit``.
        """
        _check.one_of(("l1", "l2"), norm=norm)
        return self.steps_moved(norm) * self.step


@final
@dataclass(frozen=True, kw_only=True)
class DeclaredValue(Query):
    """A number computed elsewhere, with the sensitivity that its author vouches for.

    Data: the number. Its rounding to a step is added to the sensitivity.
    """

    declared_sensitivity: float
    """The furthest that the number moves between neighbours, in its own unit."""

    def __post_init__(self) -> None:
        """Refuse values outside their rule."""
        super().__post_init__()
        _check.positive_finite(declared_sensitivity=self.declared_sensitivity)
        if not 1 / LARGEST <= self.declared_sensitivity <= LARGEST:
            raise InvalidArgumentError(
                f"declared_sensitivity must be from 1e-200 to 1e200, got "
                f"declared_sensitivity={self.declared_sensitivity!r}."
            )

    @property
    def name(self) -> str:
        """``declared value``."""
        return "declared value"

    @property
    def scale_unit(self) -> str:
        """The number's own."""
        return "unit of the value"

    @property
    def step(self) -> float:
        """A part in 2^31 of the sensitivity."""
        return self.declared_sensitivity / ONE

    def steps(self, values: Any) -> list[int]:
        """Round to a step."""
        number = finite_number(values)
        if number is None or abs(number) > LARGEST:
            raise InvalidArgumentError(
                "the value must be one finite number of magnitude at most 1e200, and is not."
            )
        return [round(Fraction(number) / Fraction(self.declared_sensitivity) * ONE)]

    def steps_moved(self, norm: Norm) -> int:
        """The declared sensitivity and one rounding."""
        return ONE + 1

    def finish(self, noisy: list[int]) -> float:
        """In the number's own unit."""
        return float(Fraction(noisy[0], ONE) * Fraction(self.declared_sensitivity))


def root_two(steps: int) -> int:
    """sqrt(2) times a number of steps, rounded up: the L2 distance of two numbers that each move.

    Args:
        steps: In steps.

    Returns:
        In steps.
    """
    return math.isqrt(2 * steps * steps) + 1
