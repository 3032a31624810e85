"""What was learnt from against what hides it, step by step. The signal's length is private."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from insular import _check
from insular.reports.figures import _canvas as c
from insular.reports.figures import _steps as s


@final
@dataclass(frozen=True, kw_only=True)
class StepNorms:
    """One step."""

    step: int
    """From 0."""
    signal_norm: float
    """Length of the sum of clipped contributions; 0 for an empty draw."""
    noise_norm: float
    """Length of the noise vector."""


def training_noise_figure(rows: Sequence[StepNorms]) -> str:
    """Draw the lengths of signal and noise on one logarithmic axis, and their ratio below.

    Guarantees:
        * Both axes are logarithmic; a length of 0 is a gap, and so is a ratio without noise.
        * Signal and noise are told apart by their lines and by their names.
        * The drawing itself says that it is private.
        * Equal rows give equal text.

    Args:
        rows: The steps, in any order.

    Returns:
        An ``<svg>`` element.

    Raises:
        InvalidArgumentError: If there are no rows, a step is below 0, or a length is negative or
            not finite.
    """
    c.refuse_no_rows(rows)
    steps = [row.step for row in rows]
    s.check_steps(steps)
    for row in rows:
        _check.non_negative_finite(signal_norm=row.signal_norm, noise_norm=row.noise_norm)
    signal, size = s.thinned([(row.step, row.signal_norm or None) for row in rows])
    noise, _ = s.thinned([(row.step, row.noise_norm or None) for row in rows])
    ratio, _ = s.thinned([(row.step, _ratio(row)) for row in rows])
    with c.settings():
        figure, (above, below) = s.panels((1.8, 1.2))
        look = {"color": c.INK, "linewidth": 1.4}
        s.plot(above, noise, marker="s", linestyle="--", **look)
        s.plot(above, signal, **look)
        s.plot(below, ratio, **look)
        for axes, points in ((above, (*signal, *noise)), (below, ratio)):
            s.decades(axes, [value for _, value in points if value is not None] or [1.0])
        above.set_ylabel("length of the sum")
        below.set_ylabel("signal / noise")
        s.scale_steps(below, steps, size=size)
        (solid,) = above.plot([], [], **look)
        (dashed,) = above.plot([], [], linestyle="--", **look)
        c.key(figure, [("signal", solid), ("noise", dashed)])
        return c.svg_text(figure, c.own_name("training-noise", rows))


def _ratio(row: StepNorms) -> float | None:
    """Signal over noise, where there are both."""
    return row.signal_norm / row.noise_norm if row.signal_norm and row.noise_norm else None
