"""How far records moved that should not have moved at all."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from insular import _check
from insular.reports.figures import _canvas as c


@final
@dataclass(frozen=True, kw_only=True)
class InfluencePoint:
    """The largest movement of one kind in one stack."""

    stack: str
    """Name of the stack."""
    change: str
    """What was changed."""
    distance: float
    """Movement in units of the clip norm; exactly 0 if nothing moved."""
    coupled: bool
    """Whether it counts as a coupling rather than as rounding or noise; drawn filled."""


def influence_figure(rows: Sequence[InfluencePoint], *, limit: float = 2.0) -> str:
    """Draw how far unchanged records moved, a line for each stack and a shape for each change.

    Guarantees:
        * Exactly 0 has its own place at the left, apart from the smallest movement.
        * Equal rows give equal text.

    Args:
        rows: The movements.
        limit: Largest movement that clipping allows, in units of the clip norm; a marked line.

    Returns:
        An ``<svg>`` element.

    Raises:
        InvalidArgumentError: If there are no rows, or a distance is negative or not finite.
    """
    c.refuse_no_rows(rows)
    for row in rows:
        _check.non_negative_finite(distance=row.distance)
    stacks = list(dict.fromkeys(row.stack for row in rows))
    changes = list(dict.fromkeys(row.change for row in rows))
    smallest = min((row.distance for row in rows if row.distance > 0), default=1e-3)
    first = min(math.floor(math.log10(smallest)), -2)
    zero = first - 1.2 - (0.5 * -first) / 8
    with c.settings():
        figure, axes = c.canvas(0.46 * len(stacks) + 1.6)
        axes.axvline(zero, color=c.LINE, linewidth=7, alpha=0.45)
        axes.axvline(math.log10(limit), color=c.INK, linewidth=1, linestyle="--")
        for i, change in enumerate(changes):
            marker = c.MARKERS[i % len(c.MARKERS)]
            offset = (i - (len(changes) - 1) / 2) * 0.15
            for row in rows:
                if row.change == change:
                    axes.plot(
                        math.log10(row.distance) if row.distance > 0 else zero,
                        stacks.index(row.stack) + offset,
                        marker,
                        color=c.INK,
                        markerfacecolor=c.INK if row.coupled else c.PAPER,
                        markersize=5.5,
                    )
            axes.plot([], [], marker, color=c.INK, label=change, markersize=5)
        step = max(1, math.ceil((1 - first) / 4))
        decades = list(range(0, first - 1, -step))[::-1]
        axes.set_xticks(
            [zero, *decades], ["0\nbitwise\nequal", *(c.power(decade) for decade in decades)]
        )
        axes.set_xlim(zero - 0.04 * (2 - zero), max(0.8, math.log10(limit) + 0.4))
        c.list_stacks(axes, stacks)
        axes.text(
            math.log10(limit) + 0.02 * (2 - zero),
            -0.5,
            f"{limit:g} C",
            va="top",
            fontsize=9,
            color=c.INK,
        )
        axes.set_xlabel("movement of a clipped gradient, in C")
        figure.legend(
            loc="outside upper left",
            ncols=min(len(changes), 5),
            frameon=False,
            handletextpad=0.0,
            columnspacing=0.8,
            borderpad=0.0,
        )
        return c.svg_text(figure, "influence")
