"""The loss of a training run, step by step. What it shows is private."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from insular.reports.figures import _canvas as c
from insular.reports.figures import _steps as s


@final
@dataclass(frozen=True, kw_only=True)
class StepLoss:
    """One step."""

    step: int
    """From 0."""
    loss_nats: float | None
    """Mean loss of the records that were drawn; None if none was."""


def training_loss_figure(rows: Sequence[StepLoss]) -> str:
    """Draw the loss of each step as a point, and their running mean as a line.

    Guarantees:
        * A step without a loss, or with one that is not finite, has no point.
        * Above 240 steps a point is the mean of several, and the axis says of how many.
        * The drawing itself says that it is private.
        * Equal rows give equal text.

    Args:
        rows: The steps, in any order.

    Returns:
        An ``<svg>`` element.

    Raises:
        InvalidArgumentError: If there are no rows, or a step is below 0.
    """
    c.refuse_no_rows(rows)
    steps = [row.step for row in rows]
    s.check_steps(steps)
    points, size = s.thinned([(row.step, row.loss_nats) for row in rows])
    drawn = [(x, y) for x, y in points if y is not None]
    window = 2 * (len(points) // 20) + 1
    with c.settings():
        figure, (axes,) = s.panels((2.3,))
        if drawn:
            x, y = zip(*drawn, strict=True)
            c.mark(axes, list(x), list(y), "o", filled=False, size=2.6)
        else:
            axes.set_yticks([])
        s.plot(axes, s.running_mean(points, window), color=c.INK, linewidth=1.6)
        s.scale_steps(axes, steps, size=size)
        axes.set_ylabel("loss, nats per token")
        (line,) = axes.plot([], [], color=c.INK, linewidth=1.6)
        entries = [("drawn records", c.mark_in_key("o", filled=False, size=2.6))]
        if window > 1:
            entries.append((f"mean over {window * size} steps", line))
        c.key(figure, entries)
        return c.compacted(c.svg_text(figure, c.own_name("training-loss", rows)))
