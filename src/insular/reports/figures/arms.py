"""The validated ratio of each stack, with digits that tell equal from nearly equal."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from insular import _check
from insular.errors import InvalidArgumentError
from insular.reports.figures import _canvas as c

_VALUE_SIZE = 9.0


@final
@dataclass(frozen=True, kw_only=True)
class ArmRatio:
    """One stack at one clip norm."""

    stack: str
    """Name of the stack."""
    clip_norm: float
    """C, in gradient units."""
    ratio: float
    """Movement of the clipped sum over the separable bound."""
    exceeds: bool
    """Whether it is above the bound by more than the margin; drawn filled."""


def arms_figure(rows: Sequence[ArmRatio]) -> str:
    """Draw the ratio of each stack, a line for each stack and a shape for each clip norm.

    Guarantees:
        * Every ratio is printed beside its shape to six decimals: 1 reads ``1.000000``.
        * Equal rows give equal text.

    Args:
        rows: The ratios; stacks stand in the order in which they first appear.

    Returns:
        An ``<svg>`` element.

    Raises:
        InvalidArgumentError: If there are no rows, a ratio is negative or not finite, a clip norm
            is not positive and finite, or a stack has two rows for one clip norm.
    """
    c.refuse_no_rows(rows)
    for row in rows:
        _check.positive_finite(clip_norm=row.clip_norm)
        _check.non_negative_finite(ratio=row.ratio)
    if len({(row.stack, row.clip_norm) for row in rows}) < len(rows):
        raise InvalidArgumentError("rows must hold one ratio for each stack and clip norm.")
    stacks = list(dict.fromkeys(row.stack for row in rows))
    radii = sorted({row.clip_norm for row in rows})
    # the printed values of a stack stand below each other, and none on another
    high = max(0.4, 0.19 * len(radii))
    with c.settings():
        figure, axes = c.canvas(high * len(stacks) + 1.3)
        c.scale_ratios(axes, "x", [row.ratio for row in rows])
        axes.grid(axis="x", color=c.LINE, linewidth=0.5)
        axes.set_axisbelow(True)
        bound = axes.axvline(1.0, color=c.INK, linewidth=1, linestyle="--")
        for row in rows:
            i = radii.index(row.clip_norm)
            y = stacks.index(row.stack) + (i - (len(radii) - 1) / 2) * 0.17 / high
            c.mark(axes, row.ratio, y, c.MARKERS[i % len(c.MARKERS)], filled=row.exceeds)
            axes.text(
                1.03,
                y,
                c.ratio_text(row.ratio),
                transform=axes.get_yaxis_transform(),
                va="center_baseline",
                fontsize=_VALUE_SIZE,
            )
        c.list_stacks(axes, stacks)
        axes.set_xlabel("ratio to the bound")
        shapes = [
            (
                f"C = {c.short_number(radius)}",
                c.mark_in_key(c.MARKERS[i % len(c.MARKERS)], filled=False),
            )
            for i, radius in enumerate(radii)
        ]
        c.key(figure, [*shapes, ("separable bound", bound)])
        return c.svg_text(figure, c.own_name("arms", rows))
