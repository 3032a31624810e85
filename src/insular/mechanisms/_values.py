"""Reading private data: one value for each unit, refused by position and never shown."""

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any, NoReturn

from insular.errors import InvalidArgumentError


def listed(values: Any) -> list[Any]:
    """Data as a list.

    Args:
        values: A list, a tuple, or a one-dimensional array or column.

    Returns:
        A new list.

    Raises:
        InvalidArgumentError: If it is none of them.
    """
    items = values.tolist() if hasattr(values, "tolist") else values
    if not isinstance(items, Sequence) or isinstance(items, str | bytes):
        raise InvalidArgumentError(
            "values must be a list, a tuple or a one-dimensional array, got "
            f"{type(values).__name__}."
        )
    return list(items)


def finite_number(item: Any) -> float | None:
    """A finite number as a float.

    Args:
        item: Anything.

    Returns:
        The number; None if it is not one.
    """
    if isinstance(item, bool) or not isinstance(item, Real):
        return None
    try:
        number = float(item)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def refuse_value(position: int, wanted: str) -> NoReturn:
    """Refuse one value of the data without showing it.

    Args:
        position: Where it stands.
        wanted: What it should be.

    Raises:
        InvalidArgumentError: Always.
    """
    raise InvalidArgumentError(
        f"values must each be {wanted}; the one at position {position} (counted from 0) is not. "
        "Remove or replace it first."
    )
