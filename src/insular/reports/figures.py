"""Figures as SVG text that reads in light, dark and grey: shapes and words carry the meaning."""

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING, Literal, final

from insular.errors import InvalidArgumentError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# matplotlib draws with these stand-ins; the page's style sheet has the last word on each.
_INK, _PAPER, _SOFT, _LINE = "#010203", "#fdfcfb", "#616263", "#c1c2c3"
_COLOURS = {
    _INK: "currentColor",
    _PAPER: "var(--figure-paper, #fff)",
    _SOFT: "var(--figure-soft, #595959)",
    _LINE: "var(--figure-line, #c9c9c9)",
}
_SETTINGS = {
    "svg.fonttype": "none",
    "font.size": 10.0,
    "hatch.linewidth": 0.8,
    "hatch.color": _INK,
    "text.color": _INK,
    "axes.edgecolor": _LINE,
    "axes.labelcolor": _INK,
    "xtick.color": _LINE,
    "ytick.color": _LINE,
    "xtick.labelcolor": _INK,
    "ytick.labelcolor": _INK,
}
_MARKERS = "osD^vPX*"
_INCHES_WIDE = 4.9

Outcome = Literal["good", "bad", "open"]
"""Whether a stack did what it claims, did not, or could not be judged."""


@final
@dataclass(frozen=True, kw_only=True)
class InfluencePoint:
    """The largest movement of one kind in one stack."""

    stack: str
    """Name of the stack."""
    change: str
    """What was changed."""
    distance: float
    """Movement in units of the clip norm; exactly 0 if nothing moved."""
    coupled: bool
    """Whether it counts as a coupling rather than as rounding or noise; drawn filled."""


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


def influence_figure(rows: Sequence[InfluencePoint], *, limit: float = 2.0) -> str:
    """Draw how far unchanged records moved, a line for each stack and a shape for each change.

    Guarantees:
        * Exactly 0 has its own place at the left, apart from the smallest movement.
        * Equal rows give equal text.

    Args:
        rows: The movements.
        limit: Largest movement that clipping allows, in units of the clip norm; a marked line.

    Returns:
        An ``<svg>`` element.

    Raises:
        InvalidArgumentError: If there are no rows, or a distance is negative or not finite.
    """
    _refuse_bad("distance", [row.distance for row in rows], minimum=0.0)
    stacks = list(dict.fromkeys(row.stack for row in rows))
    changes = list(dict.fromkeys(row.change for row in rows))
    smallest = min((row.distance for row in rows if row.distance > 0), default=1e-3)
    first = min(math.floor(math.log10(smallest)), -2)
    zero = first - 1.2 - (0.5 * -first) / 8
    with _settings():
        figure, axes = _canvas(0.46 * len(stacks) + 1.6)
        axes.axvline(zero, color=_LINE, linewidth=7, alpha=0.45)
        axes.axvline(math.log10(limit), color=_INK, linewidth=1, linestyle="--")
        for i, change in enumerate(changes):
            offset = (i - (len(changes) - 1) / 2) * 0.15
            for row in rows:
                if row.change == change:
                    axes.plot(
                        math.log10(row.distance) if row.distance > 0 else zero,
                        stacks.index(row.stack) + offset,
                        _MARKERS[i % len(_MARKERS)],
                        color=_INK,
                        markerfacecolor=_INK if row.coupled else _PAPER,
                        markersize=5.5,
                    )
            axes.plot([], [], _MARKERS[i % len(_MARKERS)], color=_INK, label=change, markersize=5)
        step = max(1, math.ceil((1 - first) / 4))
        decades = list(range(0, first - 1, -step))[::-1]
        axes.set_xticks(
            [zero, *decades], ["0\nbitwise\nequal", *(_power(decade) for decade in decades)]
        )
        axes.set_xlim(zero - 0.04 * (2 - zero), max(0.8, math.log10(limit) + 0.4))
        _list_stacks(axes, stacks)
        axes.text(
            math.log10(limit) + 0.02 * (2 - zero),
            -0.5,
            f"{limit:g} C",
            va="top",
            fontsize=9,
            color=_INK,
        )
        axes.set_xlabel("movement of a clipped gradient, in C")
        figure.legend(
            loc="outside upper left",
            ncols=min(len(changes), 5),
            frameon=False,
            handletextpad=0.0,
            columnspacing=0.8,
            borderpad=0.0,
        )
        return _svg(figure, "influence")


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
    _refuse_bad("seconds", [row.seconds for row in rows], minimum=math.ulp(0.0))
    hatches = {"good": "", "bad": "////", "open": "xx"}
    with _settings():
        figure, axes = _canvas(0.4 * len(rows) + 0.8)
        longest = max(row.seconds for row in rows) / rows[0].seconds
        for i, row in enumerate(rows):
            ratio = row.seconds / rows[0].seconds
            axes.barh(
                i,
                ratio,
                height=0.6,
                facecolor=_LINE if row.outcome == "good" else _PAPER,
                edgecolor=_INK,
                hatch=hatches[row.outcome],
                linewidth=1,
            )
            label = f"{ratio:.2f}×  {row.word}"
            inside = ratio > 0.55 * longest
            axes.text(
                ratio + (-0.02 if inside else 0.02) * longest,
                i,
                label,
                ha="right" if inside else "left",
                va="center",
                bbox={"facecolor": _PAPER, "edgecolor": "none", "pad": 1.5},
            )
        axes.axvline(1.0, color=_INK, linewidth=1, linestyle=":")
        axes.set_xlim(0, 1.04 * max(longest, 1.0))
        _list_stacks(axes, [row.stack for row in rows])
        axes.set_xlabel("time of a step (first stack = 1)")
        return _svg(figure, "time")


def _refuse_bad(name: str, values: Sequence[float], *, minimum: float) -> None:
    """Refuse an empty figure and a value that has no place on its axis."""
    if not values:
        raise InvalidArgumentError("rows must hold at least one row, got none.")
    for value in values:
        if not math.isfinite(value) or value < minimum:
            sign = ">= 0" if minimum == 0 else "> 0"
            raise InvalidArgumentError(f"{name} must be finite and {sign}, got {name}={value!r}.")


def _power(decade: int) -> str:
    """A power of ten as text, which needs no mathematical typesetting."""
    digits = str(abs(decade)).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return "1" if decade == 0 else f"10{'⁻' if decade < 0 else ''}{digits}"


@contextmanager
def _settings() -> Iterator[None]:
    """Our settings alone, whatever the user's matplotlib file says; theirs come back after."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        for name, value in _SETTINGS.items():
            matplotlib.rcParams[name] = value  # pyright: ignore[reportArgumentType]
        yield


def _canvas(inches_high: float) -> "tuple[Figure, Axes]":
    """An empty figure with one axis to read along, and no frame."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_INCHES_WIDE, inches_high), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    return figure, axes


def _list_stacks(axes: "Axes", stacks: Sequence[str]) -> None:
    """One line for each stack, the first on top."""
    axes.set_yticks(range(len(stacks)), [_shortened(stack) for stack in stacks])
    axes.set_ylim(len(stacks) - 0.5, -0.5)
    for i in range(1, len(stacks)):
        axes.axhline(i - 0.5, color=_LINE, linewidth=0.6)


def _shortened(name: str) -> str:
    """A name that leaves room for the drawing, in which a dollar sign is a dollar sign."""
    name = name if len(name) <= 22 else f"{name[:21]}…"
    return name.replace("$", r"\$")


def _svg(figure: "Figure", name: str) -> str:
    """The figure as an element for a page: no header, no date, ids of its own, page colours."""
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": name}):
        text = StringIO()
        figure.savefig(
            text,
            format="svg",
            transparent=True,
            metadata={"Date": None, "Creator": None, "Format": None, "Type": None},
        )
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    # matplotlib's style rule would hold for the whole page
    svg = re.sub(r"<(metadata|style)\b.*?</\1>\s*", "", svg, flags=re.DOTALL)
    # several figures share one page, where an id may stand once
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", svg)
    for stand_in, colour in _COLOURS.items():
        svg = svg.replace(stand_in, colour)
    return re.sub(r"font-family: [^;\"]*", "font-family: 'DejaVu Sans', Verdana, sans-serif", svg)
