"""What every figure shares: settings, empty axes, a key, and SVG that takes the page's colours."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from typing import TYPE_CHECKING, Any, Literal

from insular.errors import InvalidArgumentError

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

# matplotlib draws with these stand-ins; the page's style sheet has the last word on each.
INK, PAPER, SOFT, LINE = "#010203", "#fdfcfb", "#616263", "#c1c2c3"
MARKERS = "osD^vPX*"
INCHES_WIDE = 4.9
UNITS_WIDE = 72 * INCHES_WIDE
_COLOURS = {
    INK: "currentColor",
    PAPER: "var(--figure-paper, #fff)",
    SOFT: "var(--figure-soft, #595959)",
    LINE: "var(--figure-line, #c9c9c9)",
}
_SETTINGS = {
    "svg.fonttype": "none",
    "font.size": 10.0,
    "hatch.linewidth": 0.8,
    "hatch.color": INK,
    "text.color": INK,
    "axes.edgecolor": LINE,
    "axes.labelcolor": INK,
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
}


def refuse_no_rows(rows: Sequence[object]) -> None:
    """Refuse an empty figure."""
    if not rows:
        raise InvalidArgumentError("rows must hold at least one row, got none.")


@contextmanager
def settings() -> Iterator[None]:
    """Our settings alone, whatever the user's matplotlib file says; theirs come back after."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        for name, value in _SETTINGS.items():
            matplotlib.rcParams[name] = value  # pyright: ignore[reportArgumentType]
        yield


def empty_figure(inches_high: float) -> "Figure":
    """A figure of the width that a page gives it."""
    from matplotlib.figure import Figure

    return Figure(figsize=(INCHES_WIDE, inches_high), layout="constrained")


def canvas(inches_high: float) -> "tuple[Figure, Axes]":
    """An empty figure with one axis to read along, and no frame."""
    figure = empty_figure(inches_high)
    axes = figure.add_subplot()
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    return figure, axes


def list_stacks(axes: "Axes", stacks: Sequence[str]) -> None:
    """One line for each stack, the first on top."""
    axes.set_yticks(range(len(stacks)), [shortened(stack) for stack in stacks])
    axes.set_ylim(len(stacks) - 0.5, -0.5)
    for i in range(1, len(stacks)):
        axes.axhline(i - 0.5, color=LINE, linewidth=0.6)


def scale_ratios(axes: "Axes", which: Literal["x", "y"], ratios: Sequence[float]) -> None:
    """An axis that shows every ratio and the bound at 1, and writes its numbers out in full."""
    from matplotlib.ticker import MaxNLocator, ScalarFormatter

    low, high = min(1.0, *ratios), max(1.0, *ratios)
    # equal ratios are shown as equal, not as digits far apart
    room = max(0.06 * (high - low), (0.1 - (high - low)) / 2)
    limits = (low - room, high + room)
    axes.set_xlim(limits) if which == "x" else axes.set_ylim(limits)
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(ScalarFormatter(useOffset=False))


def ratio_text(ratio: float) -> str:
    """A ratio with the digits that tell 1 from 1 + 1e-6."""
    return f"{ratio:.6f}"


def mark(
    axes: "Axes",
    x: float | list[float],
    y: float | list[float],
    marker: str,
    *,
    filled: bool = True,
    size: float = 5.5,
) -> None:
    """Points of one shape, filled with ink or hollow."""
    if not isinstance(x, list) or x:
        axes.plot(x, y, **_look(marker, filled=filled, size=size))


def mark_in_key(marker: str, *, filled: bool = True, size: float = 5.5) -> "Line2D":
    """A shape for the key alone: drawn nowhere, it takes no part in the layout."""
    from matplotlib.lines import Line2D

    return Line2D([], [], **_look(marker, filled=filled, size=size))


def _look(marker: str, *, filled: bool, size: float) -> dict[str, Any]:
    """How a point is drawn."""
    return {
        "marker": marker,
        "linestyle": "",
        "color": INK,
        "markerfacecolor": INK if filled else PAPER,
        "markersize": size,
        "markeredgewidth": min(0.18 * size, 1.0),
        "clip_on": False,
    }


def key(figure: "Figure", entries: Sequence[tuple[str, "Artist"]]) -> None:
    """What the shapes, hatches and lines mean, above the drawing, in as many columns as fit."""
    texts = [cut(text, 50) for text, _ in entries]
    widths = [text_units(text, 10.0) + 32 for text in texts]
    fit = len(entries) if sum(widths) <= UNITS_WIDE else max(1, int(UNITS_WIDE / max(widths)))
    figure.legend(
        [artist for _, artist in entries],
        [plain(text) for text in texts],
        loc="outside upper left",
        ncols=fit,
        frameon=False,
        handlelength=1.6,
        handletextpad=0.5,
        columnspacing=1.0,
        borderpad=0.0,
    )


def text_units(text: str, size: float) -> float:
    """About how wide a text is, in units of the drawing."""
    return 0.62 * size * len(text)


def shortened(name: str, most: int = 24) -> str:
    """A name that leaves room for the drawing, in which a dollar sign is a dollar sign."""
    return plain(cut(name, most))


def cut(text: str, most: int) -> str:
    """A text of at most so many characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def plain(text: str) -> str:
    """Text that is never read as mathematics."""
    return text.replace("$", r"\$")


def power(decade: int) -> str:
    """A power of ten as text, which needs no mathematical typesetting."""
    digits = str(abs(decade)).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return "1" if decade == 0 else f"10{'⁻' if decade < 0 else ''}{digits}"


def short_number(value: float) -> str:
    """A number in few characters, such as 0.5, 10 or 3e-4."""
    text = f"{value:.3g}" if 0.01 <= value < 1e4 else f"{value:.1e}"
    digits, e, exponent = text.partition("e")
    return f"{digits.rstrip('0').rstrip('.')}e{int(exponent)}" if e else digits


def own_name(kind: str, *content: object) -> str:
    """A name for the ids of one drawing, so that two of a kind can share a page."""
    return f"{kind}-{hashlib.sha256(repr(content).encode()).hexdigest()[:8]}"


def svg_text(figure: "Figure", name: str) -> str:
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


def compacted(svg: str) -> str:
    """The same drawing in fewer characters, for one of many points: two decimals are enough."""
    svg = re.sub(
        r"<[^>]*>",
        lambda tag: re.sub(r"-?\d+\.\d{3,}", lambda m: f"{float(m[0]):.2f}", tag[0]),
        svg,
    )
    svg = re.sub(r' transform="rotate\(-0 [^)]*\)"', "", svg)
    # points of one look that follow each other share it
    return re.sub(
        r'(?:<use [^>]*?( style="[^"]*")/>\s*)(?:<use [^>]*?\1/>\s*)+',
        lambda run: f"<g{run[1]}>{run[0].replace(run[1], '')}</g>",
        svg,
    )
