"""How the ratio grows with the number of records beside the changed one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from insular import _check
from insular.reports.figures import _canvas as c


@final
@dataclass(frozen=True, kw_only=True)
class GrowthPoint:
    """One candidate beside one number of baseline records."""

    stack: str
    """Name of the stack; a shape of its own."""
    n_baseline: int
    """Number of records that stay the same: the m of the influence bound."""
    ratio: float
    """Movement of the clipped sum over the separable bound."""
    exceeds: bool
    """Whether it is above the bound by more than the margin; drawn filled."""


def growth_figure(rows: Sequence[GrowthPoint]) -> str:
    """Draw the ratio against the number of baseline records, a line through each stack's largest.

    Guarantees:
        * The influence bound, 2m + 1 separable bounds, is named with its numbers and not drawn:
          it would press the measured ratios flat.
        * Equal rows give equal text.

    Args:
        rows: The ratios.

    Returns:
        An ``<svg>`` element.

    Raises:
        InvalidArgumentError: If there are no rows, a ratio is negative or not finite, or a number
            of records is below 1.
    """
    from matplotlib.ticker import MaxNLocator

    c.refuse_no_rows(rows)
    for row in rows:
        _check.at_least(1, n_baseline=row.n_baseline)
        _check.non_negative_finite(ratio=row.ratio)
    stacks = list(dict.fromkeys(row.stack for row in rows))
    sizes = sorted({row.n_baseline for row in rows})
    with c.settings():
        figure, axes = c.canvas(3.1 + 0.09 * len(stacks))
        bound = axes.axhline(1.0, color=c.INK, linewidth=1, linestyle="--")
        entries = []
        for i, stack in enumerate(stacks):
            marker = c.MARKERS[i % len(c.MARKERS)]
            own = [row for row in rows if row.stack == stack]
            largest: dict[int, float] = {}
            for row in own:
                largest[row.n_baseline] = max(row.ratio, largest.get(row.n_baseline, 0.0))
            axes.plot(*zip(*sorted(largest.items()), strict=True), color=c.SOFT, linewidth=1)
            for row in own:
                c.mark(axes, row.n_baseline, row.ratio, marker, filled=row.exceeds, size=5)
            shape = c.mark_in_key(marker, filled=any(row.exceeds for row in own), size=5)
            entries.append((c.cut(stack, 22), shape))
        c.scale_ratios(axes, "y", [row.ratio for row in rows])
        axes.grid(axis="y", color=c.LINE, linewidth=0.5)
        axes.set_axisbelow(True)
        room = 0.04 * max(sizes[-1] - sizes[0], 1)
        axes.set_xlim(sizes[0] - room, sizes[-1] + room)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
        axes.set_ylabel("ratio to the bound")
        most = [str(2 * size + 1) for size in dict.fromkeys((sizes[0], sizes[-1]))]
        axes.set_xlabel(
            "m, records that stay the same\n"
            f"influence bound, not drawn: ratio 2m + 1 = {' to '.join(most)}"
        )
        c.key(figure, [*entries, ("separable bound", bound)])
        return c.svg_text(figure, c.own_name("growth", rows))
