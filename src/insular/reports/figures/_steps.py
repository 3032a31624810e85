"""What the figures of a run's steps share: values over the steps, thinned to what can be seen."""

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from insular import _check
from insular.reports.figures import _canvas as c

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST = 240
"""Points of one line at most."""

Points = tuple[tuple[float, float | None], ...]
"""Step and value; None where there is none."""


def panels(heights: Sequence[float]) -> "tuple[Figure, list[Axes]]":
    """Drawings below each other over one axis of steps, each of some inches."""
    figure = c.empty_figure(sum(heights) + 0.7)
    found = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False)
    every = list(found[:, 0])
    for axes in every:
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="y", color=c.LINE, linewidth=0.5)
        axes.set_axisbelow(True)
    return figure, every


def check_steps(steps: Sequence[int]) -> None:
    """Refuse a step below 0."""
    for step in steps:
        _check.at_least(0, step=step)


def thinned(rows: Sequence[tuple[int, float | None]]) -> tuple[Points, int]:
    """Values in the order of their steps, each the mean of as many as the second result says."""
    ordered = sorted(rows, key=lambda row: row[0])
    size = math.ceil(len(ordered) / _MOST)
    parts = [ordered[i : i + size] for i in range(0, len(ordered), size)]
    return tuple((_mean([step for step, _ in part]), _mean_of(part)) for part in parts), size


def running_mean(points: Points, window: int) -> Points:
    """The mean over a window of points around each, over those that have a value."""
    half = window // 2
    return tuple(
        (step, _mean_of(points[max(0, i - half) : i + half + 1]))
        for i, (step, _) in enumerate(points)
    )


def plot(axes: "Axes", points: Points, *, marker: str = "o", **look: Any) -> None:
    """A line that has a gap where there is no value; a value between two gaps is a point."""
    for run in _runs(points):
        if len(run) == 1:
            axes.plot(*run[0], marker, color=look.get("color", c.INK), markersize=2.5)
        else:
            axes.plot(*zip(*run, strict=True), **look)


def scale_steps(axes: "Axes", steps: Sequence[int], *, size: int) -> None:
    """The axis of steps, which says that they are private, and where a point is several."""
    from matplotlib.ticker import MaxNLocator

    room = 0.02 * max(max(steps) - min(steps), 1)
    axes.set_xlim(min(steps) - room, max(steps) + room)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=7, integer=True))
    name = "step" if size == 1 else f"step (each point: the mean of {size} steps)"
    axes.set_xlabel(f"{name}\nprivate: outside the guarantee")


def decades(axes: "Axes", values: Sequence[float]) -> None:
    """A logarithmic axis with a few round numbers on it, written out."""
    axes.set_yscale("log")
    low, high = math.log10(min(values)) - 0.08, math.log10(max(values)) + 0.08
    if high - low < 0.5:
        low, high = (low + high) / 2 - 0.25, (low + high) / 2 + 0.25
    axes.set_ylim(10**low, 10**high)
    whole = range(math.floor(low), math.ceil(high) + 1)
    # whole powers where there are enough of them, else also twice and five times each
    for factors in ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)):
        ticks = [f * 10.0**k for k in whole for f in factors]
        ticks = [tick for tick in ticks if low <= math.log10(tick) <= high]
        if len(ticks) >= 3:
            break
    ticks = ticks[:: math.ceil(len(ticks) / 5)]
    axes.set_yticks(ticks, [c.short_number(tick) for tick in ticks])
    axes.minorticks_off()


def _runs(points: Points) -> Iterator[list[tuple[float, float]]]:
    """Points that follow each other without a gap."""
    for missing, run in groupby(points, key=lambda point: point[1] is None):
        if not missing:
            yield [(step, value) for step, value in run if value is not None]


def _mean_of(part: Sequence[tuple[float, float | None]]) -> float | None:
    """Mean of the values that there are; one that is not finite counts as none."""
    values = [value for _, value in part if value is not None and math.isfinite(value)]
    return _mean(values) if values else None


def _mean(values: Sequence[float]) -> float:
    """Mean."""
    return math.fsum(values) / len(values)
