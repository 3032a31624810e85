"""How the promise of a training run was used up, release by release."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from typing import final

from insular import _check
from insular.errors import InvalidArgumentError
from insular.reports.figures import _canvas as c


@final
@dataclass(frozen=True, kw_only=True)
class EpsilonPoint:
    """What had been spent after some releases."""

    n_releases: int
    """Releases so far."""
    epsilon: float
    """In nats."""


def training_epsilon_figure(
    rows: Sequence[EpsilonPoint], *, promise: float, target: float | None, n_releases: int
) -> str:
    """Draw epsilon against releases, up to the last one, with lines at promise and target.

    Guarantees:
        * The axis ends at the number of releases that ran, and starts at 0 for both numbers.
        * Lines are told apart by their dashes and by their names, which hold the numbers, rounded
          up.
        * Equal rows give equal text.

    Args:
        rows: The points, in any order; an infinite epsilon, and one after the last release, is
            left out.
        promise: What the whole run cost, in nats.
        target: What the noise was calibrated to, in nats; None if noise was given.
        n_releases: Releases that ran.

    Returns:
        An ``<svg>`` element.

    Raises:
        InvalidArgumentError: If there are no rows, a number of releases is below 0 (below 1 for
            the run), or a finite epsilon is negative.
    """
    from matplotlib.ticker import MaxNLocator

    c.refuse_no_rows(rows)
    _check.at_least(1, n_releases=n_releases)
    for row in rows:
        _check.at_least(0, n_releases=row.n_releases)
    values = [row.epsilon for row in rows] + [promise, *([] if target is None else [target])]
    for value in values:
        if not value >= 0:
            raise InvalidArgumentError(f"epsilon must be >= 0, got epsilon={value!r}.")
    spent = sorted(
        (row.n_releases, row.epsilon)
        for row in rows
        if row.n_releases <= n_releases and math.isfinite(row.epsilon)
    )
    with c.settings():
        figure, axes = c.canvas(2.9)
        axes.grid(axis="y", color=c.LINE, linewidth=0.5)
        axes.set_axisbelow(True)
        entries = []
        if spent:
            (line,) = axes.plot(*zip(*spent, strict=True), color=c.INK, linewidth=1.8)
            entries.append(("spent", line))
        lines = (("promise", promise, "--"), ("target", target, ":"))
        for name, value, dashes in lines:
            if value is not None and math.isfinite(value):
                drawn = axes.axhline(value, color=c.INK, linewidth=1.1, linestyle=dashes)
                entries.append((f"{name} {_ceiling(value)}", drawn))
        top = max((value for value in values if math.isfinite(value)), default=1.0)
        axes.set_xlim(0, n_releases)
        axes.set_ylim(0, 1.12 * top or 1.0)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(nbins=5))
        axes.set_xlabel("releases: noisy sums that were made")
        axes.set_ylabel("epsilon, nats")
        if entries:
            c.key(figure, entries)
        name = c.own_name("training-epsilon", rows, promise, target, n_releases)
        return c.svg_text(figure, name)


def _ceiling(value: float) -> str:
    """A bound to three digits, never below itself but for a float's last bits."""
    return f"{Context(prec=3, rounding=ROUND_CEILING).create_decimal(f'{value:.12g}'):f}"
