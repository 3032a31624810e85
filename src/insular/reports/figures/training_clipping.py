"""How much of what units had to say was cut off by clipping. What it shows is private."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from insular import _check
from insular.errors import InvalidArgumentError
from insular.reports.figures import _canvas as c
from insular.reports.figures import _steps as s


@final
@dataclass(frozen=True, kw_only=True)
class StepClipping:
    """One step."""

    step: int
    """From 0."""
    clipped_share: float | None
    """Share of the drawn units whose contribution was longer than C; None if none was drawn."""
    median_norm: float | None
    """Median length of their contributions before clipping; None if none was drawn."""


def training_clipping_figure(rows: Sequence[StepClipping], *, clip_norm: float) -> str:
    """Draw the share of clipped units, and below it the median length against C.

    Guarantees:
        * The share stands on an axis from 0 to 100 per cent, the length on a logarithmic one that
          always shows C.
        * A step in which nobody was drawn is a gap.
        * The drawing itself says that it is private.
        * Equal rows give equal text.

    Args:
        rows: The steps, in any order.
        clip_norm: Bound C of one unit's contribution, in gradient units.

    Returns:
        An ``<svg>`` element.

    Raises:
        InvalidArgumentError: If there are no rows, a step is below 0, a share is not from 0 to 1,
            a length is negative, or C is not positive and finite.
    """
    c.refuse_no_rows(rows)
    _check.positive_finite(clip_norm=clip_norm)
    steps = [row.step for row in rows]
    s.check_steps(steps)
    for row in rows:
        if row.clipped_share is not None:
            _check.probability(clipped_share=row.clipped_share)
        if row.median_norm is not None and row.median_norm < 0:
            raise InvalidArgumentError(
                f"median_norm must be >= 0, got median_norm={row.median_norm!r}."
            )
    shares, size = s.thinned(
        [(r.step, None if r.clipped_share is None else 100 * r.clipped_share) for r in rows]
    )
    norms, _ = s.thinned([(row.step, row.median_norm or None) for row in rows])  # no log of 0
    with c.settings():
        figure, (above, below) = s.panels((1.35, 1.65))
        s.plot(above, shares, color=c.INK, linewidth=1.4)
        above.set_ylim(-3, 103)
        above.set_yticks([0, 50, 100])
        above.set_ylabel("clipped, %")
        s.plot(below, norms, color=c.INK, linewidth=1.4)
        bound = below.axhline(clip_norm, color=c.INK, linewidth=1, linestyle="--")
        s.decades(below, [clip_norm, *(value for _, value in norms if value is not None)])
        below.set_ylabel("median length")
        s.scale_steps(below, steps, size=size)
        c.key(figure, [(f"C = {c.short_number(clip_norm)}", bound)])
        return c.svg_text(figure, c.own_name("training-clipping", rows, clip_norm))
