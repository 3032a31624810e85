"""How many members an attack finds at each false positive rate, beside what is promised."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from insular import _check
from insular.reports.figures import _canvas as c

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LOOKS = ("-", "-.", ":", (0, (6, 2, 1, 2, 1, 2)), (0, (1, 1)), (0, (8, 3)))
_FLOOR = 1e-4
"""Lower rates are not drawn."""


@final
@dataclass(frozen=True, kw_only=True)
class RocRow:
    """One point of one attack."""

    attack: str
    """Name of the attack; a line of its own."""
    false_positive_rate: float
    """Share of non-members that are taken for members."""
    true_positive_rate: float
    """Share of members that are found."""
    lower: float | None = None
    """Lower end of the interval of the true positive rate; None draws none."""
    upper: float | None = None
    """Its upper end."""


def roc_figure(rows: Sequence[RocRow], *, promised: Sequence[tuple[float, float]] = ()) -> str:
    """Draw each attack on two logarithmic axes, chance, and the promised curve.

    Guarantees:
        * Both axes have one scale, so the diagonal of chance is a diagonal.
        * An attack is told from another by its line and its name; points with an interval have a
          mark and a bar.
        * Equal rows give equal text.

    Args:
        rows: The attacks, in any order; rates below 10⁻⁴ are left out.
        promised: Points (false, true positive rate) of the promise; empty for none.

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
        if row.lower is not None and row.upper is not None:
            _check.probability(lower=row.lower, upper=row.upper)
    names = list(dict.fromkeys(row.attack for row in rows))
    with c.settings():
        figure, axes = c.canvas(4.1 + 0.17 * (len(names) + 2))
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.grid(color=c.LINE, linewidth=0.5)
        axes.set_axisbelow(True)
        entries = []
        for i, name in enumerate(names):
            mine = sorted(
                (row for row in rows if row.attack == name), key=lambda r: r.false_positive_rate
            )
            look, marker = _LOOKS[i % len(_LOOKS)], c.MARKERS[i % len(c.MARKERS)]
            (line,) = axes.plot(
                *_drawn([(r.false_positive_rate, r.true_positive_rate) for r in mine]),
                color=c.INK,
                linewidth=1.3,
                linestyle=look,
            )
            entries.append((c.cut(name, 40), line))
            for row in mine:
                if row.lower is not None and row.upper is not None:
                    _interval(axes, row, marker)
        if promised:
            (line,) = axes.plot(*_drawn(sorted(promised)), color=c.INK, linewidth=2.6)
            entries.append(("promised: no attack may lie above", line))
        (chance,) = axes.plot([_FLOOR, 1], [_FLOOR, 1], color=c.SOFT, linewidth=1, linestyle="--")
        entries.append(("chance: nothing is learnt", chance))
        for axis, limits in ((axes.xaxis, axes.set_xlim), (axes.yaxis, axes.set_ylim)):
            limits(_FLOOR, 1.0)
            axis.set_ticks([10.0**k for k in range(-4, 1)], [c.power(k) for k in range(-4, 1)])
            axis.minorticks_off()
        axes.set_xlabel("false positive rate: non-members taken for members")
        axes.set_ylabel("true positive rate: members found")
        c.key(figure, entries)
        name = c.own_name("roc", rows, promised)
        return c.compacted(c.svg_text(figure, name))


def _drawn(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    """The points that both axes can show; one just below the floor is drawn on it."""
    shown = [(x, max(y, _FLOOR)) for x, y in points if x >= _FLOOR]
    return [x for x, _ in shown], [y for _, y in shown]


def _interval(axes: "Axes", row: RocRow, marker: str) -> None:
    """A mark with the interval of its true positive rate."""
    x = row.false_positive_rate
    if x < _FLOOR or row.lower is None or row.upper is None:
        return
    axes.plot([x, x], [max(row.lower, _FLOOR), max(row.upper, _FLOOR)], color=c.INK, linewidth=1.0)
    c.mark(axes, x, max(row.true_positive_rate, _FLOOR), marker, size=4.5)
