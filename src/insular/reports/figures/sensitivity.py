"""How far every candidate moves the clipped sum, at every clip norm."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from insular import _check
from insular.errors import InvalidArgumentError
from insular.reports.figures import _canvas as c

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

_LABEL_SIZE = 8.5
_UNITS_OF_AXIS = 290


@final
@dataclass(frozen=True, kw_only=True)
class SensitivityPoint:
    """One candidate at one clip norm."""

    candidate: str
    """Id of the record that was added or put in."""
    clip_norm: float
    """C, in gradient units."""
    ratio: float
    """Movement of the clipped sum over the separable bound."""
    exceeds: bool
    """Whether it is above the bound by more than the margin; drawn filled."""
    selected: bool = False
    """Whether it was chosen for validation; drawn as a star."""


def sensitivity_figure(
    rows: Sequence[SensitivityPoint], *, clipped_shares: Mapping[float, float] | None = None
) -> str:
    """Draw the ratio of every candidate at every clip norm, and the separable bound as a line.

    Guarantees:
        * Every row is drawn; a candidate has the same place in the band of every clip norm.
        * A selected row is a star, and its ratio is printed if it is the only one.
        * Equal rows give equal text.

    Args:
        rows: The ratios.
        clipped_shares: Share of the records (0 to 1) that each clip norm clips; printed below it.

    Returns:
        An ``<svg>`` element.

    Raises:
        InvalidArgumentError: If there are no rows, a ratio is negative or not finite, a clip norm
            is not positive and finite, or a share is not from 0 to 1.
    """
    c.refuse_no_rows(rows)
    for row in rows:
        _check.positive_finite(clip_norm=row.clip_norm)
        _check.non_negative_finite(ratio=row.ratio)
    shares = dict(clipped_shares or {})
    for share in shares.values():
        if not 0 <= share <= 1:
            raise InvalidArgumentError(f"clipped_shares must be from 0 to 1, got {share!r}.")
    with c.settings():
        figure, axes = c.canvas(3.4)
        half = _draw_radii(axes, sorted({row.clip_norm for row in rows}), shares)
        places = _places(rows, half)
        bound = axes.axhline(1.0, color=c.INK, linewidth=1, linestyle="--")
        size = 4.0 if len(places) <= 48 else 3.0
        for exceeds in (False, True):
            drawn = [row for row in rows if row.exceeds == exceeds and not row.selected]
            x = [math.log10(row.clip_norm) + places[row.candidate] for row in drawn]
            c.mark(axes, x, [row.ratio for row in drawn], "o", filled=exceeds, size=size)
        for row in (row for row in rows if row.selected):
            x = math.log10(row.clip_norm) + places[row.candidate]
            # a rim of paper sets the star apart from the dots around it
            axes.plot(x, row.ratio, "*", color=c.PAPER, markersize=15, clip_on=False)
            c.mark(axes, x, row.ratio, "*", filled=row.exceeds, size=10)
        c.scale_ratios(axes, "y", [row.ratio for row in rows])
        axes.grid(axis="y", color=c.LINE, linewidth=0.5)
        axes.set_axisbelow(True)
        axes.set_ylabel("ratio to the bound")
        _explain(figure, bound, [row for row in rows if row.selected])
        return c.compacted(c.svg_text(figure, c.own_name("sensitivity", rows, shares)))


def _places(rows: Sequence[SensitivityPoint], half: float) -> dict[str, float]:
    """Where in the band of a clip norm each candidate stands."""
    candidates = list(dict.fromkeys(row.candidate for row in rows))
    n = len(candidates)
    return {name: half * ((2 * i + 1) / n - 1) for i, name in enumerate(candidates)}


def _draw_radii(axes: "Axes", radii: list[float], shares: Mapping[float, float]) -> float:
    """A band and a label for each clip norm; half the width of the bands."""
    decades = [math.log10(radius) for radius in radii]
    gaps = [b - a for a, b in zip(decades, decades[1:], strict=False)]
    half = 0.38 * min(gaps, default=0.5)
    side = 1.3 * half if gaps else 0.5
    for decade in decades:
        axes.axvspan(decade - 1.15 * half, decade + 1.15 * half, color=c.LINE, alpha=0.28, lw=0)
    first, last = decades[0] - side, decades[-1] + side
    axes.set_xlim(first, last)
    names = [c.short_number(radius) for radius in radii]
    texts = [f"{100 * shares[radius]:.0f}" if radius in shares else "" for radius in radii]
    room = min(gaps, default=1.0) / (last - first) * _UNITS_OF_AXIS
    widest = max(c.text_units(text, _LABEL_SIZE) for text in (*names, *texts))
    upright = room < widest + 3
    between = " · " if upright else "\n"
    labels = [
        f"{name}{between}{text}" if text else name for name, text in zip(names, texts, strict=True)
    ]
    if upright:
        # a label needs its own height at least: the next one is left out where it has none
        labels = _thinned(labels, decades, (last - first) / _UNITS_OF_AXIS * (_LABEL_SIZE + 2))
    axes.set_xticks(decades, labels, fontsize=_LABEL_SIZE, rotation=90 if upright else 0)
    below = "clip norm C, in gradient units"
    if shares:
        below += "; per cent of records clipped"
    axes.set_xlabel(below)
    return half


def _thinned(labels: Sequence[str], places: Sequence[float], room: float) -> list[str]:
    """The labels, without those that would stand on another."""
    kept: list[str] = []
    last = -math.inf
    for label, place in zip(labels, places, strict=True):
        fits = place - last >= room
        kept.append(label if fits else "")
        last = place if fits else last
    return kept


def _explain(figure: "Figure", bound: "Line2D", selected: Sequence[SensitivityPoint]) -> None:
    """The key above the drawing."""
    entries = [
        ("not above the bound", c.mark_in_key("o", filled=False, size=5)),
        ("above the bound", c.mark_in_key("o", size=5)),
        ("separable bound", bound),
    ]
    if selected:
        value = f": {c.ratio_text(selected[0].ratio)}" if len(selected) == 1 else ""
        star = c.mark_in_key("*", filled=selected[0].exceeds, size=9)
        entries.append((f"selected{value}", star))
    c.key(figure, entries)
