"""A figure with rows for it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

ODD = "$a$ & <b>"  # a name that is neither mathematics nor markup


@dataclass(frozen=True)
class Sample:
    """A figure, rows for it and what else it is told."""

    draw: Callable[..., str]
    rows: tuple[Any, ...]
    options: dict[str, Any]

    def drawn(self) -> str:
        """Drawn anew."""
        return self.draw(self.rows, **self.options)

    @cached_property
    def svg(self) -> str:
        """Drawn once for all tests."""
        return self.drawn()
