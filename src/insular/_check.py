"""Argument checks: the keyword is the name that the error prints."""

import math
from collections.abc import Callable, Collection, Iterable

from insular.errors import InvalidArgumentError


def positive_finite(**values: float) -> None:
    """Refuse any value that is not a finite number above 0.

    Raises:
        InvalidArgumentError: Naming the first offender.
    """
    for name, value in values.items():
        if not _is_finite(value) or value <= 0:
            raise InvalidArgumentError(f"{name} must be finite and > 0, got {name}={value!r}.")


def non_negative_finite(**values: float) -> None:
    """Refuse any value that is not a finite number at or above 0.

    Raises:
        InvalidArgumentError: Naming the first offender.
    """
    for name, value in values.items():
        if not _is_finite(value) or value < 0:
            raise InvalidArgumentError(f"{name} must be finite and >= 0, got {name}={value!r}.")


def probability(**values: float) -> None:
    """Refuse any value that is not a number from 0 to 1.

    Raises:
        InvalidArgumentError: Naming the first offender.
    """
    for name, value in values.items():
        if not _is_real(value) or not 0 <= value <= 1:
            raise InvalidArgumentError(f"{name} must be from 0 to 1, got {name}={value!r}.")


def at_least(minimum: int, **values: int) -> None:
    """Refuse any value that is not an integer of at least ``minimum``.

    Raises:
        InvalidArgumentError: Naming the first offender.
    """
    for name, value in values.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
            raise InvalidArgumentError(
                f"{name} must be an integer >= {minimum}, got {name}={value!r}."
            )


def one_of(allowed: Collection[str], **values: str) -> None:
    """Refuse any value outside ``allowed``.

    Raises:
        InvalidArgumentError: Naming the first offender and what is allowed.
    """
    for name, value in values.items():
        if value not in allowed:
            options = ", ".join(allowed)
            raise InvalidArgumentError(f"{name} must be one of {options}; got {name}={value!r}.")


def every(rules: Iterable[Callable[[], object]], *, also: Iterable[str] = ()) -> None:
    """Check every rule, then refuse once, naming each that is broken.

    Args:
        rules: Each raises ``InvalidArgumentError`` where it is broken.
        also: Problems that were found elsewhere; they come last.

    Raises:
        InvalidArgumentError: With every message, if there is one.
    """
    problems = []
    for rule in rules:
        try:
            rule()
        except InvalidArgumentError as error:
            problems.append(str(error))
    problems += also
    if problems:
        raise InvalidArgumentError(" ".join(problems))


def _is_real(value: object) -> bool:
    """Whether a value is an int or a float, and not a bool."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_finite(value: object) -> bool:
    """Whether a value is a number that a finite 64-bit float can hold."""
    try:
        return _is_real(value) and math.isfinite(value)  # pyright: ignore[reportArgumentType]
    except OverflowError:
        return False
