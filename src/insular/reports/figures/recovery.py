"""How much of prompts is read behind each release, and how each way of keeping states matters."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from insular import _check
from insular.errors import InvalidArgumentError
from insular.reports.figures import _canvas as c

if TYPE_CHECKING:
    from matplotlib.artist import Artist


@final
@dataclass(frozen=True, kw_only=True)
class RecoveryPoint:
    """What was read behind one release, of states that were kept in one way."""

    release: str
    """Name of the release; a line of its own."""
    storage: str
    """How states were kept; a shape of its own."""
    exact: float
    """Share of prompts read exactly; drawn filled."""
    low: float
    """Lower end of its interval."""
    high: float
    """Upper end."""
    tokens: float
    """Share of tokens that are right; drawn hollow."""


def recovery_figure(rows: Sequence[RecoveryPoint]) -> str:
    """Draw the share of prompts read exactly, with its interval, and of tokens that are right.

    Guarantees:
        * Equal rows give equal text.

    Args:
        rows: The points; releases stand in the order in which they first appear.

    Returns:
        An ``<svg>`` element.

    Raises:
        InvalidArgumentError: If there are no rows, a share is none, or a release and storage has
            two rows.
    """
    c.refuse_no_rows(rows)
    for row in rows:
        _check.probability(exact=row.exact, low=row.low, high=row.high, tokens=row.tokens)
    if len({(row.release, row.storage) for row in rows}) < len(rows):
        raise InvalidArgumentError("rows must hold one point for each release and storage.")
    releases = list(dict.fromkeys(row.release for row in rows))
    storages = list(dict.fromkeys(row.storage for row in rows))
    # storages of one release stand below each other, and none on another
    high = max(0.34, 0.17 * len(storages) + 0.12)
    with c.settings():
        figure, axes = c.canvas(high * len(releases) + 1.3)
        axes.grid(axis="x", color=c.LINE, linewidth=0.5)
        axes.set_axisbelow(True)
        for row in rows:
            i = storages.index(row.storage)
            marker = c.MARKERS[i % len(c.MARKERS)]
            y = releases.index(row.release) + (i - (len(storages) - 1) / 2) * 0.17 / high
            axes.plot([row.low, row.high], [y, y], color=c.INK, linewidth=1.0)
            c.mark(axes, row.tokens, y, marker, filled=False, size=6.5)
            c.mark(axes, row.exact, y, marker, size=5)
        c.list_stacks(axes, releases)
        axes.set_xlim(-0.02, 1.02)
        axes.xaxis.set_ticks([0.0, 0.25, 0.5, 0.75, 1.0], ["0%", "25%", "50%", "75%", "100%"])
        axes.set_xlabel("share of prompts, or of tokens")
        entries: list[tuple[str, Artist]] = [
            ("prompts read exactly", c.mark_in_key(c.MARKERS[0])),
            ("tokens right", c.mark_in_key(c.MARKERS[0], filled=False)),
        ]
        if len(storages) > 1:
            entries += [
                (c.cut(storage, 22), c.mark_in_key(c.MARKERS[i % len(c.MARKERS)], filled=False))
                for i, storage in enumerate(storages)
            ]
        c.key(figure, entries)
        return c.svg_text(figure, c.own_name("recovery", rows))
