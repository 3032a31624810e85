"""Sums and means of values that are clamped to public bounds."""

from dataclasses import dataclass
from typing import Any, final

from insular import _check
from insular.errors import InvalidArgumentError
from insular.mechanisms._values import finite_number, listed, refuse_value
from insular.mechanisms.queries import LARGEST, ONE, Norm, Query, root_two


@dataclass(frozen=True, kw_only=True)
class Clamped(Query):
    """A query on numbers, each moved into public bounds first."""

    lower: float
    """Public lower bound, chosen without looking at the data."""
    upper: float
    """Public upper bound, chosen without looking at the data."""

    def __post_init__(self) -> None:
        """Refuse values outside their rule."""
        super().__post_init__()
        for name, bound in (("lower", self.lower), ("upper", self.upper)):
            number = finite_number(bound)
            if number is None or abs(number) > LARGEST or not isinstance(bound, int | float):
                raise InvalidArgumentError(
                    f"{name} must be a number of magnitude at most 1e200, got {name}={bound!r}; "
                    "bounds are public: state them from what is known without the data."
                )
        if not self.upper - self.lower >= 1 / LARGEST:
            raise InvalidArgumentError(
                f"lower must be below upper, got lower={self.lower!r} and upper={self.upper!r}."
            )

    def clamped(self, values: Any) -> list[float]:
        """The data within the bounds.

        Args:
            values: One number for each unit.

        Returns:
            Numbers from ``lower`` to ``upper``.

        Raises:
            InvalidArgumentError: If one is not a finite number; NaN has no place between bounds.
        """
        inside: list[float] = []
        for position, item in enumerate(listed(values)):
            number = finite_number(item)
            if number is None:
                refuse_value(position, "a finite number")
            inside.append(min(max(number, float(self.lower)), float(self.upper)))
        return inside


@final
@dataclass(frozen=True, kw_only=True)
class Sum(Clamped):
    """The sum of clamped values. Data: one number for each unit.

    One unit moves it by ``max(|lower|, |upper|)`` if added or removed, by ``upper - lower`` if
    replaced. The sum of no values is 0.
    """

    @property
    def name(self) -> str:
        """``sum``."""
        return "sum"

    @property
    def scale_unit(self) -> str:
        """That of the values."""
        return "unit of the values"

    @property
    def step(self) -> float:
        """A part in 2^31 of what one unit moves."""
        return self._reach / ONE

    def steps(self, values: Any) -> list[int]:
        """Add up."""
        return [sum(self._rounded(x) for x in self.clamped(values))]

    def steps_moved(self, norm: Norm) -> int:
        """From one bound to the other, or to nothing."""
        low, high = self._rounded(self.lower), self._rounded(self.upper)
        return high - low if self.relation == "replace_one" else max(abs(low), abs(high))

    def finish(self, noisy: list[int]) -> float:
        """In the unit of the values."""
        return noisy[0] * self.step

    @property
    def _reach(self) -> float:
        """How far one unit moves the sum."""
        low, high = float(self.lower), float(self.upper)
        return high - low if self.relation == "replace_one" else max(abs(low), abs(high))

    def _rounded(self, value: float) -> int:
        """One value in steps: monotone, so it stays between the rounded bounds."""
        return round(value / self._reach * ONE)


@final
@dataclass(frozen=True, kw_only=True)
class Mean(Clamped):
    """The mean of clamped values. Data: one number for each unit.

    Under ``replace_one`` the number of units is public, is stated as ``n_units``, and one unit
    moves the mean by ``(upper - lower) / n_units``. Under ``add_or_remove_one`` it is private: the
    budget is spent half on the sum of the values, centred and scaled to [-1, 1], and half on the
    count, and the noisy ratio is published within the bounds. Data without values goes the same
    way, so nothing tells that it is empty.
    """

    n_units: int | None = None
    """Public number of units under ``replace_one``; None under ``add_or_remove_one``."""

    def __post_init__(self) -> None:
        """Refuse values outside their rule."""
        super().__post_init__()
        if self.relation == "replace_one":
            if self.n_units is None:
                raise InvalidArgumentError(
                    "n_units must be stated under replace_one, where it is public, got "
                    "n_units=None; use add_or_remove_one if it is private."
                )
            _check.at_least(1, n_units=self.n_units)
            if self.n_units > 10**15:
                raise InvalidArgumentError(
                    f"n_units must be at most 10^15, got n_units={self.n_units!r}."
                )
        elif self.n_units is not None:
            raise InvalidArgumentError(
                "n_units must be None under add_or_remove_one, where it is private, got a "
                "number; use replace_one if it is public."
            )

    @property
    def name(self) -> str:
        """``mean``."""
        return "mean"

    @property
    def scale_unit(self) -> str:
        """That of the values; with a private number of units, half ranges and units."""
        if self.n_units is None:
            return f"half ranges of the sum and {self.unit}s of the count"
        return "unit of the values"

    @property
    def step(self) -> float:
        """Size of a step."""
        if self.n_units is None:
            return 1 / ONE
        return self._half / self.n_units / ONE

    @property
    def error_known(self) -> bool:
        """Not for a ratio of noisy numbers."""
        return self.n_units is not None

    def steps(self, values: Any) -> list[int]:
        """The centred sum, and the count where it is private."""
        inside = self.clamped(values)
        total = sum(self._rounded(x) for x in inside)
        if self.n_units is None:
            return [total, len(inside) * ONE]
        if len(inside) != self.n_units:
            raise InvalidArgumentError(
                f"n_units must be the number of values, got n_units={self.n_units!r} and "
                f"{len(inside)} values."
            )
        return [total]

    def steps_moved(self, norm: Norm) -> int:
        """A whole range, or half a range and one unit."""
        if self.n_units is not None:
            return 2 * ONE
        return 2 * ONE if norm == "l1" else root_two(ONE)

    def finish(self, noisy: list[int]) -> float:
        """In the unit of the values; a private mean within the bounds."""
        if self.n_units is not None:
            return self._middle + noisy[0] * self.step
        ratio = noisy[0] / max(noisy[1], ONE)
        mean = self._middle + self._half * max(-1.0, min(1.0, ratio))
        return min(max(mean, float(self.lower)), float(self.upper))

    @property
    def _middle(self) -> float:
        """The middle of the bounds."""
        return self.lower / 2 + self.upper / 2

    @property
    def _half(self) -> float:
        """Half the width of the bounds."""
        return self.upper / 2 - self.lower / 2

    def _rounded(self, value: float) -> int:
        """One value in steps, from -ONE to ONE."""
        return max(-ONE, min(ONE, round((value - self._middle) / self._half * ONE)))
