"""How much of prompts is read out of their states, position by position."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from insular import _check
from insular.reports.figures import _canvas as c


@final
@dataclass(frozen=True, kw_only=True)
class PositionPoint:
    """One position, over prompts."""

    position: int
    """From 0."""
    right: float
    """Share of tokens read right."""
    first: float | None
    """Share of true tokens that the ranking alone puts first; None where no state was kept."""


def inversion_figure(rows: Sequence[PositionPoint]) -> str:
    """Draw the share of right tokens, and of those that are ranked first, along the prompt.

    Guarantees:
        * Equal rows give equal text.

    Args:
        rows: The positions, in order.

    Returns:
        An ``<svg>`` element.

    Raises:
        InvalidArgumentError: If there are no rows, or a share is none.
    """
    from matplotlib.ticker import MaxNLocator

    c.refuse_no_rows(rows)
    for row in rows:
        _check.at_least(0, position=row.position)
        _check.probability(right=row.right, first=0.0 if row.first is None else row.first)
    ranked = [(row.position, row.first) for row in rows if row.first is not None]
    with c.settings():
        figure, axes = c.canvas(2.6)
        (line,) = axes.plot(
            [row.position for row in rows],
            [row.right for row in rows],
            color=c.INK,
            linewidth=1.4,
            marker="o",
            markersize=3.5,
        )
        entries = [("read right", line)]
        if ranked:
            (dashed,) = axes.plot(
                *zip(*ranked, strict=True),
                color=c.SOFT,
                linewidth=1.2,
                linestyle="--",
                marker="s",
                markersize=3,
                markerfacecolor=c.PAPER,
            )
            entries.append(("ranked first", dashed))
        axes.set_ylim(-0.03, 1.05)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
        axes.grid(axis="y", color=c.LINE, linewidth=0.5)
        axes.set_axisbelow(True)
        axes.set_xlabel("position in the prompt, from 0")
        axes.set_ylabel("share of prompts")
        c.key(figure, entries)
        return c.svg_text(figure, c.own_name("inversion", rows))
