"""Amounts of privacy budget as exact decimals: no binary float, no rounding, no silent loss."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow
from typing import Self, final

from insular.errors import InvalidArgumentError

DIGITS_BEFORE = 12
"""Most digits before the decimal point of an amount that someone states."""
DIGITS_AFTER = 40
"""Most digits after it."""
_NUMBER = re.compile(r"[0-9]{1,60}(\.[0-9]{0,60})?([eE][+-]?[0-9]{1,3})?", re.ASCII)


@final
@dataclass(frozen=True, kw_only=True)
class Amount:
    """An (epsilon, delta) pair.

    Guarantees:
        * Both parts are finite decimals >= 0 that are held exactly, and delta is below 1 where
          someone states it.
        * ``plus`` and ``minus`` are exact or raise; they never round.
    """

    epsilon: Decimal
    """In nats."""
    delta: Decimal
    """Between 0 and 1."""

    def __post_init__(self) -> None:
        for value in (self.epsilon, self.delta):
            if not isinstance(value, Decimal) or not value.is_finite() or value < 0:
                raise InvalidArgumentError("an amount holds finite decimals >= 0; use Amount.of.")

    @classmethod
    def of(cls, epsilon: Decimal | str | int, delta: Decimal | str | int) -> Self:
        """Read what someone states.

        Args:
            epsilon: In nats, as decimal text, an integer or a ``Decimal``.
            delta: Likewise, below 1.

        Returns:
            The exact amount.

        Raises:
            InvalidArgumentError: For a float, a value that is not a finite number >= 0, one with
                more than 12 digits before or 40 after the point, or a delta of 1 or more.
        """
        found = cls(epsilon=exact("epsilon", epsilon), delta=exact("delta", delta))
        if found.delta >= 1:
            raise InvalidArgumentError(f"delta must be below 1, got delta={shown(found.delta)}.")
        return found

    def plus(self, other: "Amount") -> "Amount":
        """Add another amount: basic composition.

        Args:
            other: The other amount.

        Returns:
            The exact sum.
        """
        return self._each(other, _context().add)

    def minus(self, other: "Amount") -> "Amount":
        """Take another amount away.

        Args:
            other: At most this amount, in both parts.

        Returns:
            The exact difference.
        """
        return self._each(other, _context().subtract)

    def most(self, other: "Amount") -> "Amount":
        """The larger epsilon and the larger delta of two: parallel composition.

        Args:
            other: The other amount.

        Returns:
            Both maxima.
        """
        return self._each(other, max)

    def covers(self, other: "Amount") -> bool:
        """Whether neither part of another amount is above this one's.

        Args:
            other: The other amount.

        Returns:
            True if so.
        """
        return other.epsilon <= self.epsilon and other.delta <= self.delta

    def __str__(self) -> str:
        return f"epsilon {shown(self.epsilon)}, delta {shown(self.delta)}"

    def _each(self, other: "Amount", combine: Callable[[Decimal, Decimal], Decimal]) -> "Amount":
        """Combine epsilon with epsilon and delta with delta."""
        return Amount(
            epsilon=combine(self.epsilon, other.epsilon), delta=combine(self.delta, other.delta)
        )


ZERO = Amount(epsilon=Decimal(0), delta=Decimal(0))
"""Nothing."""


def exact(name: str, value: Decimal | str | int) -> Decimal:
    """Read one stated number without rounding it.

    Args:
        name: What the error calls it.
        value: Decimal text, an integer or a ``Decimal``.

    Returns:
        The same number, without an exponent above 0.

    Raises:
        InvalidArgumentError: If it is a float, not a finite number >= 0, or has too many digits.
    """
    if isinstance(value, float):
        raise InvalidArgumentError(
            f"{name} must be exact: write it as text, such as {name}='0.1', not as a float."
        )
    if isinstance(value, bool) or not isinstance(value, Decimal | str | int):
        raise InvalidArgumentError(f"{name} must be a decimal, got {type(value).__name__}.")
    text = str(value)
    if not _NUMBER.fullmatch(text):
        got = text if len(text) <= 40 and text.isprintable() else f"{len(text)} characters"
        raise InvalidArgumentError(f"{name} must be a finite decimal >= 0, got {name}={got}.")
    number = Decimal(text)
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)  # it is finite
    if (number and number.adjusted() >= DIGITS_BEFORE) or exponent < -DIGITS_AFTER:
        raise InvalidArgumentError(
            f"{name} must have at most {DIGITS_BEFORE} digits before the decimal point and "
            f"{DIGITS_AFTER} after it."
        )
    return Decimal(format(number if number else Decimal(0), "f"))


def shown(value: Decimal) -> str:
    """A number as people write it: ``3.0``, and ``1e-6`` for a small one.

    Args:
        value: A finite decimal.

    Returns:
        Text that reads back as the same number.
    """
    if value and value.adjusted() < -3:
        digits = "".join(map(str, value.as_tuple().digits)).rstrip("0")
        fraction = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{'-' if value < 0 else ''}{digits[0]}{fraction}e{value.adjusted()}"
    return format(value, "f") if value else "0"


def gap(high: Decimal, low: Decimal) -> Decimal:
    """The exact difference of two numbers, which may be negative.

    Args:
        high: The one.
        low: What is taken from it.

    Returns:
        ``high - low``.
    """
    return _context().subtract(high, low)


def _context() -> Context:
    """Arithmetic that raises where it would round: sums of any 10^100 amounts fit."""
    return Context(prec=200, traps=[Inexact, InvalidOperation, Overflow])
