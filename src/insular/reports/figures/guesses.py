"""What guesses about canaries prove, beside what they could prove and what was promised."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from insular import _check
from insular.reports.figures import _canvas as c


@final
@dataclass(frozen=True, kw_only=True)
class GuessedBound:
    """What one number of guesses proves."""

    guesses: int
    """Guesses."""
    epsilon: float
    """Lower bound on epsilon, in nats."""
    ceiling: float
    """The same if every guess had been right, in nats."""


def guesses_figure(rows: Sequence[GuessedBound], *, claimed: float, fixed: int) -> str:
    """Draw bound and ceiling against the number of guesses, and the promise.

    Guarantees:
        * Bound, ceiling and promise are told apart by their lines and their names.
        * The number of guesses that was fixed has a mark, and the key says its bound.
        * Equal rows give equal text, in any order.

    Args:
        rows: The bounds.
        claimed: Epsilon that is promised, in nats.
        fixed: The number of guesses that was fixed before the run.

    Returns:
        An ``<svg>`` element.

    Raises:
        InvalidArgumentError: If there are no rows, or a number breaks its rule.
    """
    c.refuse_no_rows(rows)
    for row in rows:
        _check.at_least(1, guesses=row.guesses)
        _check.non_negative_finite(epsilon=row.epsilon, ceiling=row.ceiling)
    _check.non_negative_finite(claimed=claimed)
    _check.at_least(1, fixed=fixed)
    points = sorted((row.guesses, row.epsilon, row.ceiling) for row in rows)
    numbers = [n for n, _, _ in points]
    with c.settings():
        figure, axes = c.canvas(3.6 + 0.17 * 4)
        axes.set_xscale("log")
        axes.grid(color=c.LINE, linewidth=0.5)
        axes.set_axisbelow(True)
        (bound,) = axes.plot(numbers, [e for _, e, _ in points], color=c.INK, linewidth=1.6)
        (ceiling,) = axes.plot(
            numbers, [e for _, _, e in points], color=c.INK, linewidth=1.2, linestyle="-."
        )
        ends = [numbers[0], numbers[-1]]
        (promise,) = axes.plot(ends, [claimed, claimed], color=c.SOFT, linewidth=1, linestyle="--")
        entries = [
            ("proven, had this number been fixed", bound),
            ("most provable: every guess right", ceiling),
            (f"promised: epsilon {c.short_number(claimed)}", promise),
        ]
        for n, epsilon, _ in points:
            if n == fixed:
                c.mark(axes, n, epsilon, c.MARKERS[0])
                text = f"fixed: {n:,} guesses prove {c.short_number(epsilon)}"
                entries.append((text, c.mark_in_key(c.MARKERS[0])))
        axes.set_ylim(0, 1.08 * max(claimed, points[-1][2], *(row.ceiling for row in rows), 1e-3))
        decades = [k for k in range(16) if ends[0] <= 10**k <= ends[1]]
        axes.xaxis.set_ticks([10.0**k for k in decades], [c.power(k) for k in decades])
        axes.minorticks_off()
        axes.set_xlabel("guesses about canaries")
        axes.set_ylabel("lower bound on epsilon (nats)")
        c.key(figure, entries)
        return c.svg_text(figure, c.own_name("guesses", points, claimed, fixed))
