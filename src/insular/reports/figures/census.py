"""How often routing crosses records, by the number of records on the device."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from insular import _check
from insular.errors import InvalidArgumentError
from insular.reports.figures import _canvas as c

_HATCHES = ("", "////", "xxx", "|||")


@final
@dataclass(frozen=True, kw_only=True)
class CensusBar:
    """One share at one physical batch size."""

    physical_batch: int
    """Records on the device at once."""
    share: str
    """What it is a share of."""
    percent: float
    """The share, from 0 to 100."""


def census_figure(rows: Sequence[CensusBar]) -> str:
    """Draw up to four shares side by side for each physical batch size, each with its own hatch.

    Guarantees:
        * Every share is printed beside its bar, to a tenth of a per cent.
        * Equal rows give equal text.

    Args:
        rows: The shares; they stand in the order in which they first appear.

    Returns:
        An ``<svg>`` element.

    Raises:
        InvalidArgumentError: If there are no rows, more than four kinds of share, a batch size
            below 1, a share that is not from 0 to 100, or two rows for one bar.
    """
    from matplotlib.patches import Patch

    c.refuse_no_rows(rows)
    for row in rows:
        _check.at_least(1, physical_batch=row.physical_batch)
        if not 0 <= row.percent <= 100:
            raise InvalidArgumentError(
                f"percent must be from 0 to 100, got percent={row.percent!r}."
            )
    shares = list(dict.fromkeys(row.share for row in rows))
    sizes = sorted({row.physical_batch for row in rows})
    if len(shares) > len(_HATCHES):
        raise InvalidArgumentError(
            f"rows must hold at most {len(_HATCHES)} kinds of share, got {len(shares)}."
        )
    if len({(row.share, row.physical_batch) for row in rows}) < len(rows):
        raise InvalidArgumentError("rows must hold one share of a kind for each physical batch.")
    thick = 0.84 / len(shares)
    looks: list[dict[str, Any]] = [
        {"facecolor": c.PAPER if hatch else c.LINE, "edgecolor": c.INK, "hatch": hatch, "lw": 1}
        for hatch in _HATCHES
    ]
    with c.settings():
        figure, axes = c.canvas((0.19 * len(shares) + 0.09) * len(sizes) + 0.7 + 0.2 * len(shares))
        right = 1.12 * max(5.0, *(row.percent for row in rows))
        for row in rows:
            i = shares.index(row.share)
            y = sizes.index(row.physical_batch) + (i - (len(shares) - 1) / 2) * thick
            axes.barh(y, row.percent, height=0.86 * thick, **looks[i])
            axes.text(row.percent + 0.012 * right, y, _tenths(row.percent), va="center", fontsize=9)
        axes.set_yticks(range(len(sizes)), [f"{size} records" for size in sizes])
        axes.set_ylim(len(sizes) - 0.5, -0.5)
        for i in range(1, len(sizes)):
            axes.axhline(i - 0.5, color=c.LINE, linewidth=0.6)
        axes.set_xlim(0, right)
        axes.set_xlabel("per cent, by the records on the device at once")
        c.key(figure, [(share, Patch(**looks[i])) for i, share in enumerate(shares)])
        return c.svg_text(figure, c.own_name("census", rows))


def _tenths(percent: float) -> str:
    """A share to a tenth; one that is only nearly 0 says so."""
    return "< 0.1" if 0 < percent < 0.05 else f"{percent:.1f}"
