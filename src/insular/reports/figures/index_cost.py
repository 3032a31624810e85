"""What an index of released rows still finds against what an attacker still tells of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from insular import _check
from insular.reports.figures import _canvas as c
from insular.reports.figures._families import mark_families

if TYPE_CHECKING:
    from matplotlib.artist import Artist


@final
@dataclass(frozen=True, kw_only=True)
class IndexPoint:
    """One index."""

    family: str
    """What its rows went through; a shape of its own."""
    recall: float
    """Share of neighbours that a search still finds."""
    told: float
    """Share of rows that the best attacker names the prompt of."""


def index_figure(rows: Sequence[IndexPoint], *, chance: float) -> str:
    """Draw each index by what it finds and what it tells; below on the right is what one wants.

    Guarantees:
        * Every index is drawn.
        * Equal rows give equal text.

    Args:
        rows: The indexes, in any order.
        chance: Share that a guess names.

    Returns:
        An ``<svg>`` element.

    Raises:
        InvalidArgumentError: If there are no rows, or a number is no share.
    """
    c.refuse_no_rows(rows)
    for row in rows:
        _check.probability(recall=row.recall, told=row.told)
    _check.probability(chance=chance)
    n_families = len({row.family for row in rows})
    with c.settings():
        figure, axes = c.canvas(3.4 + 0.17 * (n_families + 1))
        (line,) = axes.plot([0, 1], [chance, chance], color=c.SOFT, linewidth=1, linestyle="--")
        entries: list[tuple[str, Artist]] = [("a guess", line)]
        entries += mark_families(axes, [(row.family, row.recall, row.told) for row in rows])
        axes.set_xlabel("neighbours that a search still finds (share)")
        axes.set_ylabel("rows named by the best attacker (share)")
        c.key(figure, entries)
        return c.compacted(c.svg_text(figure, c.own_name("index", rows, chance)))
