"""What was predicted of an attack before it ran, against what it found."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from insular import _check
from insular.reports.figures import _canvas as c
from insular.reports.figures._families import mark_families

if TYPE_CHECKING:
    from matplotlib.artist import Artist


@final
@dataclass(frozen=True, kw_only=True)
class PredictedPoint:
    """One release: its attack foretold and measured."""

    family: str
    """Kind of mechanism; a shape of its own."""
    predicted: float
    """Share of prompts that the attacker was predicted to find."""
    measured: float
    """Share that it found."""


def predicted_figure(rows: Sequence[PredictedPoint]) -> str:
    """Draw measured against predicted shares, and the line on which both are the same.

    Guarantees:
        * Every release is drawn.
        * Equal rows give equal text.

    Args:
        rows: The releases, in any order.

    Returns:
        An ``<svg>`` element.

    Raises:
        InvalidArgumentError: If there are no rows, or a number is no share.
    """
    c.refuse_no_rows(rows)
    for row in rows:
        _check.probability(predicted=row.predicted, measured=row.measured)
    n_families = len({row.family for row in rows})
    with c.settings():
        figure, axes = c.canvas(3.4 + 0.17 * (n_families + 1))
        (line,) = axes.plot([0, 1], [0, 1], color=c.SOFT, linewidth=1, linestyle="--")
        entries: list[tuple[str, Artist]] = [("as predicted", line)]
        entries += mark_families(axes, [(row.family, row.predicted, row.measured) for row in rows])
        axes.set_xlabel("predicted share of prompts found")
        axes.set_ylabel("measured share")
        c.key(figure, entries)
        return c.compacted(c.svg_text(figure, c.own_name("predicted", rows)))
