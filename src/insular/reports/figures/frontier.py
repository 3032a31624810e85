"""What a release keeps of its use against what an attacker still finds."""

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
class FrontierPoint:
    """One release at one scale."""

    family: str
    """Kind of mechanism; a shape of its own."""
    agreement: float
    """Share of prompts whose most likely next token stays."""
    top1: float
    """Share of prompts that the best attacker finds."""


def frontier_figure(rows: Sequence[FrontierPoint], *, agreement: float, top1: float) -> str:
    """Draw each release by use and by risk, and the corner that is wanted.

    Guarantees:
        * Every release is drawn; the corner of useful and private releases is shaded and named,
          with how many releases lie in it.
        * Equal rows give equal text.

    Args:
        rows: The releases, in any order.
        agreement: Least agreement that counts as useful.
        top1: Largest top-1 that counts as private.

    Returns:
        An ``<svg>`` element.

    Raises:
        InvalidArgumentError: If there are no rows, or a number is no share.
    """
    c.refuse_no_rows(rows)
    for row in rows:
        _check.probability(agreement=row.agreement, top1=row.top1)
    _check.probability(agreement=agreement, top1=top1)
    inside = sum(row.agreement >= agreement and row.top1 <= top1 for row in rows)
    n_families = len({row.family for row in rows})
    with c.settings():
        figure, axes = c.canvas(3.7 + 0.17 * (n_families + 1))
        from matplotlib.patches import Rectangle

        corner = Rectangle(
            (agreement, 0), 1 - agreement, top1, facecolor=c.LINE, edgecolor=c.INK, linewidth=0.8
        )
        axes.add_patch(corner)
        entries: list[tuple[str, Artist]] = [
            (f"useful and private: {inside} of {len(rows)}", corner)
        ]
        entries += mark_families(axes, [(row.family, row.agreement, row.top1) for row in rows])
        axes.set_xlabel("most likely next token kept (share of prompts)")
        axes.set_ylabel("prompt found by the best attacker (share)")
        c.key(figure, entries)
        return c.compacted(c.svg_text(figure, c.own_name("frontier", rows, agreement, top1)))
