"""What is left of the ratio when one thing in the stack is set by hand."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from insular import _check
from insular.reports.figures import _canvas as c

if TYPE_CHECKING:
    from matplotlib.artist import Artist


@final
@dataclass(frozen=True, kw_only=True)
class InterventionBar:
    """One intervention."""

    intervention: str
    """What was set."""
    ratio: float
    """Movement of the clipped sum over the separable bound."""
    exceeds: bool
    """Whether it is above the bound by more than the margin; drawn hatched."""


def intervention_figure(rows: Sequence[InterventionBar], *, native: float) -> str:
    """Draw the ratio under each intervention, against the bound and the untouched stack.

    Guarantees:
        * Names of up to 45 characters are shown in full, and ratios to six decimals.
        * Equal rows give equal text.

    Args:
        rows: The interventions, the first on top.
        native: Ratio of the untouched stack; a dotted line.

    Returns:
        An ``<svg>`` element.

    Raises:
        InvalidArgumentError: If there are no rows, or a ratio is negative or not finite.
    """
    from matplotlib.patches import Patch

    c.refuse_no_rows(rows)
    _check.non_negative_finite(native=native)
    for row in rows:
        _check.non_negative_finite(ratio=row.ratio)
    behind = {"facecolor": c.PAPER, "edgecolor": "none", "pad": 1.0}
    with c.settings():
        figure, axes = c.canvas(0.44 * len(rows) + 1.1)
        bound = axes.axvline(1.0, color=c.INK, linewidth=1, linestyle="--")
        untouched = axes.axvline(native, color=c.INK, linewidth=1.2, linestyle=":")
        right = 1.04 * max(1.0, native, *(row.ratio for row in rows))
        for i, row in enumerate(rows):
            axes.barh(
                i + 0.2,
                row.ratio,
                height=0.38,
                zorder=1.5,
                **_look(exceeds=row.exceeds),
            )
            name, value = c.shortened(row.intervention, 45), c.ratio_text(row.ratio)
            axes.text(0, i - 0.23, name, va="center", bbox=behind)
            axes.text(right, i - 0.23, value, va="center", ha="right", bbox=behind)
        axes.set_xlim(0, right)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_yticks([])
        axes.set_xlabel("ratio to the bound")
        entries: list[tuple[str, Artist]] = [
            ("separable bound", bound),
            (f"native: {c.ratio_text(native)}", untouched),
        ]
        if any(row.exceeds for row in rows):
            entries.append(("above the bound", Patch(**_look(exceeds=True))))
        c.key(figure, entries)
        return c.svg_text(figure, c.own_name("intervention", rows, native))


def _look(*, exceeds: bool) -> dict[str, Any]:
    """How a bar is drawn."""
    return {
        "facecolor": c.PAPER if exceeds else c.LINE,
        "edgecolor": c.INK,
        "hatch": "////" if exceeds else "",
        "linewidth": 1,
    }
