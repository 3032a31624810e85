"""How much of each planted secret shows: by repetitions, and against secrets that are nowhere."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from insular import _check
from insular.reports.figures import _canvas as c


@final
@dataclass(frozen=True, kw_only=True)
class ExposurePoint:
    """One secret."""

    repeats: int
    """Rows that held it; 0 for a control."""
    bits: float
    """Its exposure."""
    extracted: bool
    """Whether greedy decoding spells it; drawn filled."""


@final
@dataclass(frozen=True, kw_only=True)
class ExposureBound:
    """What a promise allows secrets of one repetition count."""

    repeats: int
    """Rows of each."""
    bits: float
    """Largest expected exposure."""


def exposure_figure(
    rows: Sequence[ExposurePoint],
    *,
    band: tuple[float, float],
    bounds: Sequence[ExposureBound] = (),
    most_bits: float,
) -> str:
    """Draw every secret's exposure by how often it was planted, means joined, controls first.

    Guarantees:
        * Secrets of one repetition count stand side by side in the order of their exposure.
        * Equal rows give equal text.

    Args:
        rows: The secrets.
        band: Where the mean of as many unknown secrets lies, in bits.
        bounds: What the promise allows on average; empty without one.
        most_bits: log2 of the space: the exposure of a secret in front of all.

    Returns:
        An ``<svg>`` element.

    Raises:
        InvalidArgumentError: If there are no rows, or a number breaks its rule.
    """
    c.refuse_no_rows(rows)
    for row in rows:
        _check.at_least(0, repeats=row.repeats)
        _check.non_negative_finite(bits=row.bits)
    _check.positive_finite(most_bits=most_bits)
    counts = sorted({row.repeats for row in rows})
    with c.settings():
        figure, axes = c.canvas(3.6)
        shade = axes.axhspan(*band, color=c.LINE, alpha=0.5, linewidth=0)
        (top,) = axes.plot(
            [-0.5, len(counts) - 0.5], [most_bits] * 2, color=c.SOFT, linewidth=1, linestyle=":"
        )
        means = []
        for at, count in enumerate(counts):
            mine = sorted((row for row in rows if row.repeats == count), key=lambda r: r.bits)
            for i, row in enumerate(mine):
                shift = 0.5 * ((i + 0.5) / len(mine) - 0.5)
                c.mark(axes, at + shift, row.bits, "o", filled=row.extracted, size=4)
            means.append(sum(row.bits for row in mine) / len(mine))
        (line,) = axes.plot(range(len(counts)), means, color=c.INK, linewidth=1.4)
        entries = [
            ("secret", c.mark_in_key("o", filled=False, size=4)),
            ("spelled by greedy decoding", c.mark_in_key("o", size=4)),
            ("mean", line),
            ("mean by chance, 95%", shade),
            (f"first of the space: {most_bits:.1f} bits", top),
        ]
        allowed = [(counts.index(b.repeats), b.bits) for b in bounds if b.repeats in counts]
        for x, y in allowed:
            axes.plot([x - 0.35, x + 0.35], [y, y], color=c.INK, linewidth=1.4, linestyle="--")
        if allowed:
            (dashed,) = axes.plot([], [], color=c.INK, linewidth=1.4, linestyle="--")
            entries.append(("mean that the promise allows", dashed))
        axes.set_xticks(
            range(len(counts)), ["none" if count == 0 else f"{count}" for count in counts]
        )
        axes.set_xlim(-0.5, len(counts) - 0.5)
        axes.set_ylim(-0.02 * most_bits, 1.06 * most_bits)
        axes.grid(axis="y", color=c.LINE, linewidth=0.5)
        axes.set_axisbelow(True)
        axes.set_xlabel("rows that hold the secret")
        axes.set_ylabel("exposure (bits)")
        c.key(figure, entries)
        return c.svg_text(figure, c.own_name("exposure", rows, band, bounds, most_bits))


def exposure_histogram_figure(rows: Sequence[ExposurePoint]) -> str:
    """Draw how many secrets have which exposure, planted and controls one above the other.

    Guarantees:
        * Equal rows give equal text.

    Args:
        rows: The secrets.

    Returns:
        An ``<svg>`` element.

    Raises:
        InvalidArgumentError: If there are no rows.
    """
    from matplotlib.ticker import MaxNLocator

    c.refuse_no_rows(rows)
    most = max(1, math.ceil(max(row.bits for row in rows) + 1e-9))
    sides = (("planted", True, c.INK), ("controls: planted nowhere", False, c.PAPER))
    width = 0.4
    with c.settings():
        figure, axes = c.canvas(2.9)
        entries = []
        for k, (name, planted, colour) in enumerate(sides):
            mine = [row.bits for row in rows if (row.repeats > 0) == planted]
            heights = [sum(int(bits) == bin_ for bits in mine) for bin_ in range(most + 1)]
            bars = axes.bar(
                [bin_ + 0.1 + k * width for bin_ in range(most + 1)],
                heights,
                width=width,
                align="edge",
                color=colour,
                edgecolor=c.INK,
                linewidth=0.8,
            )
            entries.append((name, bars))
        axes.yaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
        axes.set_xlim(0, most + 1)
        axes.set_xlabel("exposure (bits), by whole bits")
        axes.set_ylabel("secrets")
        c.key(figure, entries)
        return c.svg_text(figure, c.own_name("exposures", rows))
