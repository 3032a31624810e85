"""What an attack can be expected to prove as its draws grow, beside what was promised."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from insular import _check
from insular.reports.figures import _canvas as c

_LOOKS = ("-", "-.", ":")


@final
@dataclass(frozen=True, kw_only=True)
class PowerPoint:
    """The expected bound of one procedure at one number of draws."""

    procedure: str
    """Name of the procedure; a line of its own."""
    draws: int
    """Draws of each neighbour."""
    epsilon: float
    """Expected lower bound on epsilon, in nats."""


def power_figure(rows: Sequence[PowerPoint], *, claimed: float, true: float) -> str:
    """Draw each procedure's expected bound against the draws, the claim, and what really holds.

    Guarantees:
        * A procedure is told from another by its line and its name; where it first lies above the
          claim, it has a mark and the key says at how many draws.
        * Equal rows give equal text.

    Args:
        rows: The expected bounds, in any order.
        claimed: Epsilon that is promised, in nats.
        true: Epsilon of what runs, in nats.

    Returns:
        An ``<svg>`` element.

    Raises:
        InvalidArgumentError: If there are no rows, or a number breaks its rule.
    """
    c.refuse_no_rows(rows)
    for row in rows:
        _check.at_least(1, draws=row.draws)
        _check.non_negative_finite(epsilon=row.epsilon)
    _check.non_negative_finite(claimed=claimed, true=true)
    names = list(dict.fromkeys(row.procedure for row in rows))
    with c.settings():
        figure, axes = c.canvas(3.6 + 0.17 * (2 * len(names) + 2))
        axes.set_xscale("log")
        axes.grid(color=c.LINE, linewidth=0.5)
        axes.set_axisbelow(True)
        entries = []
        for i, name in enumerate(names):
            points = sorted((row.draws, row.epsilon) for row in rows if row.procedure == name)
            (line,) = axes.plot(
                [x for x, _ in points],
                [y for _, y in points],
                color=c.INK,
                linewidth=1.6,
                linestyle=_LOOKS[i % len(_LOOKS)],
            )
            entries.append((c.cut(name, 50), line))
            above = next((point for point in points if point[1] > claimed), None)
            if above is not None:
                marker = c.MARKERS[i % len(c.MARKERS)]
                c.mark(axes, *above, marker)
                draws = f"{above[0]:,}" if above[0] < 1e7 else c.short_number(above[0])
                entries.append((f"above the claim at {draws} draws", c.mark_in_key(marker)))
        ends = [min(row.draws for row in rows), max(row.draws for row in rows)]
        for value, look, word in ((claimed, "--", "claimed"), (true, (0, (1, 2)), "what runs")):
            (line,) = axes.plot(ends, [value, value], color=c.SOFT, linewidth=1, linestyle=look)
            entries.append((f"{word}: epsilon {c.short_number(value)}", line))
        axes.set_ylim(0, 1.08 * max(claimed, true, *(row.epsilon for row in rows), 1e-3))
        decades = [k for k in range(16) if ends[0] <= 10**k <= ends[1]]
        axes.xaxis.set_ticks([10.0**k for k in decades], [c.power(k) for k in decades])
        axes.minorticks_off()
        axes.set_xlabel("draws of each neighbour")
        axes.set_ylabel("expected lower bound on epsilon (nats)")
        c.key(figure, entries)
        return c.svg_text(figure, c.own_name("power", rows, claimed, true))
