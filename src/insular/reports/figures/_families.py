"""Points of several families, each with a shape of its own, in a square of shares."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from insular.reports.figures import _canvas as c

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes


def mark_families(
    axes: "Axes", points: Sequence[tuple[str, float, float]]
) -> "list[tuple[str, Artist]]":
    """Mark every point, and give the key its entries.

    Args:
        axes: Where.
        points: Family and place, both coordinates from 0 to 1.

    Returns:
        What each shape means.
    """
    axes.grid(color=c.LINE, linewidth=0.5)
    axes.set_axisbelow(True)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    entries: list[tuple[str, Artist]] = []
    for i, family in enumerate(dict.fromkeys(name for name, _, _ in points)):
        marker, filled = c.MARKERS[i % len(c.MARKERS)], i % 2 == 0
        mine = [(x, y) for name, x, y in points if name == family]
        c.mark(axes, [x for x, _ in mine], [y for _, y in mine], marker, filled=filled)
        entries.append((family, c.mark_in_key(marker, filled=filled)))
    return entries
