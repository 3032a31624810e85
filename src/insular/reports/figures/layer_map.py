"""Every linear layer of a network as a tile, shaded by one number."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from insular import _check
from insular.errors import InvalidArgumentError
from insular.reports.figures import _canvas as c

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# ink in each shade, exactly 0 first; the wide gap keeps a number readable on all, light and dark
_SHADES = (0.09, 0.2, 0.31, 0.42, 0.64, 0.8, 0.96)
_STEPS = len(_SHADES) - 1
_LAYERS_IN_BAND = 40
_CELL_SIZE = 7.5
_MOST = 16


@final
@dataclass(frozen=True, kw_only=True)
class LayerCell:
    """One linear layer."""

    layer: int
    """Index of its block, from 0."""
    kind: str
    """Which of the block's layers, such as ``q_proj``."""
    value: float | None
    """From 0 to 1, more ink for more; None if there is nothing to show."""
    text: str = ""
    """A short number, printed where the tiles are wide enough for all of them."""
    origin: bool = False
    """Whether it is where something starts; marked by a triangle."""


def layer_map_figure(
    rows: Sequence[LayerCell],
    *,
    shade: str,
    ticks: Sequence[tuple[float, str]],
    origin: str = "starts here",
) -> str:
    """Draw a network as a grid of tiles, blocks from left to right and kinds of layer downwards.

    Guarantees:
        * Exactly 0 has a shade of its own, the lightest; above it are six steps of equal width.
        * None, and a layer without a row, stay blank.
        * A network of more than 40 blocks is drawn in bands, so that a tile can still be seen.
        * Equal rows give equal text.

    Args:
        rows: The layers; kinds stand in the order in which they first appear.
        shade: What the shade means, with its unit.
        ticks: Value (0 to 1) and text, for the scale of shades; one at 0 names the lightest.
        origin: What the triangle means.

    Returns:
        An ``<svg>`` element.

    Raises:
        InvalidArgumentError: If there are no rows, two rows for one layer, a value or a tick that
            is not from 0 to 1, or a negative layer.
    """
    _refuse(rows, ticks)
    kinds = list(dict.fromkeys(row.kind for row in rows))
    n_layers = 1 + max(row.layer for row in rows)
    bands = math.ceil(n_layers / _LAYERS_IN_BAND)
    per_band = math.ceil(n_layers / bands)
    high = max(0.19 * len(kinds), 0.4)
    marked = any(row.origin for row in rows)
    with c.settings():
        figure = c.empty_figure((high + 0.3) * bands + 0.85 + 0.2 * marked)
        grid = figure.add_gridspec(1 + bands, 1, height_ratios=[0.15, *[high] * bands])
        _draw_scale(figure.add_subplot(grid[0]), shade, ticks)
        names = c.text_units(max((c.cut(kind, _MOST) for kind in kinds), key=len), 9)
        units = (c.UNITS_WIDE - names - 20) / per_band
        written = _written(rows, units)
        for i in range(bands):
            axes = figure.add_subplot(grid[1 + i])
            first = i * per_band
            own = [row for row in rows if first <= row.layer < first + per_band]
            axes.set_xlim(first - 0.5, first + per_band - 0.5)
            _draw_band(axes, own, kinds, min(per_band, n_layers - first))
            _draw_texts(axes, own, kinds, units, written=written)
        figure.axes[-1].set_xlabel("block")
        if marked:
            triangle = c.mark_in_key("^", filled=False, size=6)
            c.key(figure, [(origin, triangle)])
        return c.compacted(c.svg_text(figure, c.own_name("layers", rows, shade, ticks, origin)))


def _refuse(rows: Sequence[LayerCell], ticks: Sequence[tuple[float, str]]) -> None:
    """Refuse what has no place on the map or on its scale."""
    c.refuse_no_rows(rows)
    for row in rows:
        _check.at_least(0, layer=row.layer)
        if row.value is not None and not 0 <= row.value <= 1:
            raise InvalidArgumentError(f"value must be from 0 to 1, got value={row.value!r}.")
    for tick, _ in ticks:
        if not 0 <= tick <= 1:
            raise InvalidArgumentError(f"ticks must be from 0 to 1, got {tick!r}.")
    if len({(row.layer, row.kind) for row in rows}) < len(rows):
        raise InvalidArgumentError("rows must hold one row for each layer and kind.")


def _step(value: float) -> int:
    """Which of the shades a value has; 0 is for exactly 0."""
    return 0 if value == 0 else min(_STEPS, max(1, math.ceil(value * _STEPS - 1e-9)))


def _tiles(axes: "Axes", corners: Sequence[tuple[float, float, float, float]], step: int) -> None:
    """Rectangles (left, bottom, right, top) of one shade, as one path: it keeps the text small."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    shapes = [
        Path([(x0, y0), (x1, y0), (x1, y1), (x0, y1), (x0, y0)], closed=True)
        for x0, y0, x1, y1 in corners
    ]
    path = Path.make_compound_path(*shapes)
    axes.add_patch(PathPatch(path, facecolor=c.INK, alpha=_SHADES[step], linewidth=0))


def _draw_scale(axes: "Axes", shade: str, ticks: Sequence[tuple[float, str]]) -> None:
    """The shades in a row, with the caller's numbers; the shade of exactly 0 stands apart."""
    axes.set_title(c.shortened(shade, 48), loc="left", fontsize=9.5)
    axes.set_xlim(-0.2, 1.0)
    axes.set_ylim(0, 1)
    axes.spines[:].set_visible(False)
    _tiles(axes, [(-0.2, 0, -0.06, 1)], 0)
    for step in range(1, _STEPS + 1):
        _tiles(axes, [((step - 1) / _STEPS, 0, step / _STEPS, 1)], step)
    places = [-0.13 if tick == 0 else tick for tick, _ in ticks]
    axes.set_xticks(places, [c.plain(text) for _, text in ticks], fontsize=9)
    axes.tick_params(axis="x", length=3)
    axes.set_yticks([])


def _draw_band(axes: "Axes", rows: Sequence[LayerCell], kinds: Sequence[str], n: int) -> None:
    """The tiles of some blocks, on a thin grid in which blank ones can be counted."""
    first = math.ceil(axes.get_xlim()[0])
    left, right = first - 0.5, first + n - 0.5
    for step in range(_STEPS + 1):
        corners = [
            (row.layer - 0.44, y - 0.44, row.layer + 0.44, y + 0.44)
            for row in rows
            if row.value is not None and _step(row.value) == step
            for y in [kinds.index(row.kind)]
        ]
        if corners:
            _tiles(axes, corners, step)
    edges = [y - 0.5 for y in range(len(kinds) + 1)]
    axes.hlines(edges, left, right, color=c.LINE, linewidth=0.4)
    sides = [x - 0.5 for x in range(first, first + n + 1)]
    axes.vlines(sides, edges[0], edges[-1], color=c.LINE, linewidth=0.4)
    axes.set_ylim(len(kinds) - 0.45, -0.55)
    axes.set_yticks(range(len(kinds)), [c.shortened(kind, _MOST) for kind in kinds], fontsize=9)
    every = next(k for k in (1, 2, 5) if k * 14 >= n)
    axes.set_xticks(range(first, first + n, every))
    axes.tick_params(length=0, labelsize=9)
    axes.spines[:].set_visible(False)


def _written(rows: Sequence[LayerCell], units: float) -> bool:
    """Whether the longest number fits into a tile, beside a triangle where there is one."""
    beside = 8 if any(row.origin for row in rows) else 0
    return max(c.text_units(row.text, _CELL_SIZE) for row in rows) + beside <= units - 3


def _draw_texts(
    axes: "Axes", rows: Sequence[LayerCell], kinds: Sequence[str], units: float, *, written: bool
) -> None:
    """Numbers, in the colour that their tile leaves readable, and triangles."""
    for row in rows:
        y = kinds.index(row.kind)
        shown = written and row.text != ""
        if shown:
            dark = row.value is not None and _SHADES[_step(row.value)] > 0.5
            axes.text(
                row.layer + 0.13 * row.origin,
                y,
                c.plain(row.text),
                fontsize=_CELL_SIZE,
                color=c.PAPER if dark else c.INK,
                ha="center",
                va="center_baseline",
            )
        if row.origin:
            x = row.layer - 0.27 if shown else row.layer
            c.mark(axes, x, y, "^", filled=False, size=min(6.0, 0.85 * units))
