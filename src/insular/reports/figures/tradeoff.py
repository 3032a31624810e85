"""What the best attacker can do at each false positive rate: trade-off curves beside chance."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from insular import _check
from insular.reports.figures import _canvas as c

_LOOKS = ("-", "-.", ":", (0, (6, 2, 1, 2, 1, 2)))
_FLOOR = 1e-4
"""Lower rates are not drawn."""


@final
@dataclass(frozen=True, kw_only=True)
class TradeoffPoint:
    """One point of one curve."""

    curve: str
    """Name of the curve; a line of its own."""
    false_positive_rate: float
    """Share of non-members that are taken for members."""
    true_positive_rate: float
    """Highest share of members that are then recognised."""


def tradeoff_figure(rows: Sequence[TradeoffPoint], *, marked: float) -> str:
    """Draw each curve, the diagonal of an attacker who learns nothing, and one marked rate.

    Guarantees:
        * Both axes have one scale, so equal steps are equal factors, and the diagonal is one.
        * A curve is told from another by its line and its name.
        * Equal rows give equal text.

    Args:
        rows: The curves, in any order; rates below 10⁻⁴ are left out.
        marked: The false positive rate whose true positive rates are named; a curve without a
            point there has no mark.

    Returns:
        An ``<svg>`` element.

    Raises:
        InvalidArgumentError: If there are no rows, or a rate is not from 0 to 1.
    """
    c.refuse_no_rows(rows)
    for row in rows:
        _check.probability(
            false_positive_rate=row.false_positive_rate, true_positive_rate=row.true_positive_rate
        )
    _check.probability(marked=marked)
    names = list(dict.fromkeys(row.curve for row in rows))
    with c.settings():
        figure, axes = c.canvas(3.9 + 0.17 * 2 * len(names))
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.grid(color=c.LINE, linewidth=0.5)
        axes.set_axisbelow(True)
        entries = []
        for i, name in enumerate(names):
            points = sorted(
                (row.false_positive_rate, row.true_positive_rate)
                for row in rows
                if row.curve == name and row.false_positive_rate >= _FLOOR
            )
            look = _LOOKS[i % len(_LOOKS)]
            (line,) = axes.plot(
                [x for x, _ in points],
                [y for _, y in points],
                color=c.INK,
                linewidth=1.6,
                linestyle=look,
            )
            entries.append((c.cut(name, 40), line))
            for x, y in points:
                if x == marked:
                    marker = c.MARKERS[i % len(c.MARKERS)]
                    c.mark(axes, x, y, marker)
                    text = f"at {c.short_number(x)}: true positive rate {c.short_number(y)}"
                    entries.append((text, c.mark_in_key(marker)))
        (chance,) = axes.plot([_FLOOR, 1], [_FLOOR, 1], color=c.SOFT, linewidth=1, linestyle="--")
        entries.append(("chance: nothing is learnt", chance))
        for axis, limits in ((axes.xaxis, axes.set_xlim), (axes.yaxis, axes.set_ylim)):
            limits(_FLOOR, 1.0)
            axis.set_ticks([10.0**k for k in range(-4, 1)], [c.power(k) for k in range(-4, 1)])
            axis.minorticks_off()
        axes.set_xlabel("false positive rate: non-members taken for members")
        axes.set_ylabel("highest true positive rate")
        c.key(figure, entries)
        return c.svg_text(figure, c.own_name("tradeoff", rows, marked))
