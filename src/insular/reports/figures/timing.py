"""What each stack costs in time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, final

from insular import _check
from insular.reports.figures import _canvas as c

Outcome = Literal["good", "bad", "open"]
"""Whether a stack did what it claims, did not, or could not be judged."""
_HATCHES: dict[Outcome, str] = {"good": "", "bad": "////", "open": "xx"}


@final
@dataclass(frozen=True, kw_only=True)
class TimeBar:
    """The time of one stack."""

    stack: str
    """Name of the stack."""
    seconds: float
    """Seconds per step."""
    outcome: Outcome
    """Drawn plain, hatched or cross-hatched."""
    word: str
    """The outcome in a word, printed beside the bar."""


def time_figure(rows: Sequence[TimeBar]) -> str:
    """Draw the time of each stack over the time of the first one.

    Guarantees:
        * Equal rows give equal text.

    Args:
        rows: The times; the first is the reference.

    Returns:
        An ``<svg>`` element.

    Raises:
        InvalidArgumentError: If there are no rows, or a time is not finite and positive.
    """
    c.refuse_no_rows(rows)
    for row in rows:
        _check.positive_finite(seconds=row.seconds)
    with c.settings():
        figure, axes = c.canvas(0.4 * len(rows) + 0.8)
        longest = max(row.seconds for row in rows) / rows[0].seconds
        for i, row in enumerate(rows):
            ratio = row.seconds / rows[0].seconds
            axes.barh(
                i,
                ratio,
                height=0.6,
                facecolor=c.LINE if row.outcome == "good" else c.PAPER,
                edgecolor=c.INK,
                hatch=_HATCHES[row.outcome],
                linewidth=1,
            )
            inside = ratio > 0.55 * longest
            axes.text(
                ratio + (-0.02 if inside else 0.02) * longest,
                i,
                f"{ratio:.2f}×  {row.word}",
                ha="right" if inside else "left",
                va="center",
                bbox={"facecolor": c.PAPER, "edgecolor": "none", "pad": 1.5},
            )
        axes.axvline(1.0, color=c.INK, linewidth=1, linestyle=":")
        axes.set_xlim(0, 1.04 * max(longest, 1.0))
        c.list_stacks(axes, [row.stack for row in rows])
        axes.set_xlabel("time of a step (first stack = 1)")
        return c.svg_text(figure, "time")
