"""Counts and histograms: how many units have a property, or fall in each public category."""

from dataclasses import dataclass
from typing import Any, Literal, final

from insular import _check
from insular.errors import InvalidArgumentError
from insular.mechanisms._values import listed, refuse_value
from insular.mechanisms.queries import ONE, Norm, Query, root_two

OTHER = "other"
"""The category of a value that no category names."""


@final
@dataclass(frozen=True, kw_only=True)
class Count(Query):
    """How many units have a property. Data: one bool for each unit.

    One unit moves it by 1 under either relation.
    """

    @property
    def name(self) -> str:
        """``count``."""
        return "count"

    @property
    def scale_unit(self) -> str:
        """Units."""
        return f"{self.unit}s"

    @property
    def whole(self) -> bool:
        """Yes."""
        return True

    def steps(self, values: Any) -> list[int]:
        """Count."""
        items = listed(values)
        for position, item in enumerate(items):
            if not isinstance(item, bool):
                refuse_value(position, "True or False")
        return [items.count(True) * ONE]

    def steps_moved(self, norm: Norm) -> int:
        """1."""
        return ONE

    def finish(self, noisy: list[int]) -> int:
        """Round to the nearest whole number, which may be negative."""
        return _rounded(noisy[0])


@final
@dataclass(frozen=True, kw_only=True)
class Histogram(Query):
    """How many units fall in each public category. Data: one category for each unit.

    One unit moves one count by 1 if added or removed, two counts by 1 if replaced. Every category
    is released, empty or not.
    """

    categories: tuple[str, ...]
    """Public names, fixed without looking at the data."""
    unseen: Literal["refuse", "other"]
    """What to do with a value outside the categories: refuse the data, or count it as ``other``."""

    def __post_init__(self) -> None:
        """Refuse values outside their rule."""
        super().__post_init__()
        _check.one_of(("refuse", "other"), unseen=self.unseen)
        check_categories(self.categories, least=1)
        if self.unseen == "other" and OTHER in self.categories:
            raise InvalidArgumentError(
                "categories must not hold 'other' where unseen values are counted as 'other'; "
                "rename it."
            )

    @property
    def name(self) -> str:
        """``histogram``."""
        return "histogram"

    @property
    def scale_unit(self) -> str:
        """Units."""
        return f"{self.unit}s"

    @property
    def whole(self) -> bool:
        """Yes."""
        return True

    @property
    def bins(self) -> tuple[str, ...]:
        """What is counted, in order."""
        return (*self.categories, OTHER) if self.unseen == "other" else self.categories

    def steps(self, values: Any) -> list[int]:
        """Count each category."""
        counts = dict.fromkeys(self.bins, 0)
        for position, item in enumerate(listed(values)):
            named = isinstance(item, str) and item in self.categories
            if not named and self.unseen == "refuse":
                refuse_value(position, "one of the categories")
            counts[item if named else OTHER] += 1
        return [count * ONE for count in counts.values()]

    def steps_moved(self, norm: Norm) -> int:
        """One count, or two."""
        if self.relation == "add_or_remove_one":
            return ONE
        return 2 * ONE if norm == "l1" else root_two(ONE)

    def finish(self, noisy: list[int]) -> dict[str, int]:
        """Round each count to the nearest whole number, which may be negative."""
        return {name: _rounded(count) for name, count in zip(self.bins, noisy, strict=True)}


def check_categories(categories: object, *, least: int) -> None:
    """Refuse categories that are not distinct names.

    Args:
        categories: A tuple of names.
        least: The fewest that make sense.

    Raises:
        InvalidArgumentError: With the rule.
    """
    if (
        not isinstance(categories, tuple)
        or len(categories) < least
        or not all(isinstance(name, str) for name in categories)
        or len(set(categories)) < len(categories)
    ):
        raise InvalidArgumentError(
            f"categories must be a tuple of at least {least} distinct names, stated without "
            f"looking at the data, got {categories!r}."
        )


def _rounded(steps: int) -> int:
    """Steps to the nearest whole number; halves go up."""
    return (steps + ONE // 2) // ONE
