"""Numbers as the page prints them, each with its place in the evidence."""

import math
from collections.abc import Sequence

from insular.reports import Inline, Number

RESULTS_FILE = "results.json"


def place(*path: str | int) -> str:
    """Where a part of the results stands: the file and a JSON pointer."""
    return "#/".join((RESULTS_FILE, "/".join(map(str, path))))


def cited(text: str, *path: str | int) -> Number:
    """A number of the results, with its place."""
    return Number(text=text, source=place(*path))


def amount(value: float | None) -> str:
    """A number to three digits; exactly 0 is ``0``."""
    if value is None:
        return "not shown"
    return "not a number" if math.isnan(value) else f"{value:.3g}"


def short(value: float) -> str:
    """A setting as it would be typed: 0.1, 1e-5."""
    return f"{value:g}".replace("e-0", "e-").replace("e+0", "e")


def ratio_text(ratio: float) -> str:
    """A ratio with the digits that tell 1 from 1 + 1e-6."""
    return "not a number" if math.isnan(ratio) else f"{ratio:.6f}"


def in_clip_norms(ratio: float) -> str:
    """A distance in units of C: two decimals, and six where these would hide what is left of 1."""
    if ratio == round(ratio):
        return f"{ratio:.0f}\u00a0C"
    return f"{ratio_text(ratio) if abs(ratio - 1) < 0.01 else f'{ratio:.2f}'}\u00a0C"


def percent(share: float) -> str:
    """A share from 0 to 1 as per cent."""
    return "< 0.1%" if 0 < share < 0.0005 else f"{100 * share:.1f}%"


def above_one(ratio: float) -> str:
    """How far a ratio is above 1."""
    excess = 100 * (ratio - 1)
    return f"{excess:.0f}%" if excess >= 10 else f"{excess:.2g}%"


def epsilons(*values: float) -> tuple[str, ...]:
    """Epsilons with as many decimals as tell them apart, two to six."""
    for decimals in range(2, 6):
        if len({f"{value:.{decimals}f}" for value in values}) == len(set(values)):
            return tuple(_epsilon(value, decimals) for value in values)
    return tuple(_epsilon(value, 6) for value in values)


def _epsilon(value: float, decimals: int) -> str:
    """One epsilon; a very large one needs no decimals."""
    if math.isinf(value):
        return "infinite"
    return f"{value:.{decimals}f}" if value < 100 else f"{value:.0f}"


def counted(n: int, noun: str) -> str:
    """A number with its noun, which takes an s."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def listed(words: Sequence[Inline]) -> tuple[Inline, ...]:
    """Words as a list in running text."""
    parts: list[Inline] = []
    for i, word in enumerate(words):
        if i:
            parts.append(" and " if i == len(words) - 1 else ", ")
        parts.append(word)
    return tuple(parts)
