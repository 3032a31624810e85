"""Privacy loss distributions of dp_accounting, on a grid as fine as the question needs.

Each answer is at or above the truth. The grid is halved until the answer stops moving; where it
cannot be made fine enough, the answer says how loose it is, or there is none.
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

from insular.accounting.counts import pure_epsilon, sampled_at_all
from insular.accounting.curves import Curve, curves_of
from insular.accounting.events import Mechanism
from insular.accounting.grid import Side, bisect, composed, rounding_of
from insular.errors import AccountingError, UnsupportedEventError

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray

MAX_PARTS = 60
"""Different mechanisms in one composition; above it an answer would take more than seconds."""
MAX_STEPS = 2_000_000
"""Steps in one composition; above it the coarsest grid would take more than seconds."""
LOOSE = 0.01
"""Share of the value from which an excess is called loose."""
TIGHT = 4e-4
"""Share of the value below which an excess needs no finer grid."""
_REFUSED = 0.1
_SMALL, _LARGE = 1 << 19, 1 << 21
"""Composed points up to which a grid is refined until tight, and until not loose."""
_MAX_STEP_POINTS = 1 << 17
_TAIL = 1e-4
"""Share of delta that may be counted as infinite losses."""


@final
@dataclass(frozen=True, kw_only=True)
class PldBound:
    """What one question found."""

    value: float
    """The epsilon or the delta that was asked for, never below the truth."""
    excess: float
    """How far above the truth it may be."""
    spacing: float
    """Grid spacing, in nats; 0 for a single step, which needs no grid."""


def pld_epsilon(counts: Counter[Mechanism], delta: float) -> PldBound:
    """Epsilon of a composition at ``delta``.

    Args:
        counts: Mechanisms with their counts, at least one.
        delta: Above 0, below 1.

    Returns:
        The bound.

    Raises:
        UnsupportedEventError: If the grid cannot be made fine enough, or rounding drowns delta.
    """
    if sampled_at_all(counts) <= delta:
        return PldBound(value=0.0, excess=0.0, spacing=0.0)
    rounding = rounding_of(counts)
    if rounding > delta / 2:
        raise UnsupportedEventError(
            f"the pld accountant cannot answer for delta={delta!r} after {counts.total()} steps, "
            f"where rounding alone moves delta by {rounding:.1g}; use accountant='rdp'."
        )
    tail = _TAIL * delta
    pure = pure_epsilon(counts)
    if counts.total() == 1:
        curves = curves_of(next(iter(counts)), tail)
        value, sure = (
            max(bisect(lambda e, c=curve: _one(c, e), d) for curve in curves)
            for d in (delta - rounding, delta + rounding)
        )
        return PldBound(value=min(value, pure), excess=value - sure, spacing=0.0)

    def ask(sides: list[Side]) -> tuple[float, float]:
        found = max(side.epsilon(delta - rounding) for side in sides)
        sure = max(
            side.epsilon(min(1.0, (side.mass + _TAIL) * delta + 2 * rounding)) for side in sides
        )
        return found, sure

    bound = _refine(counts, tail, ask)
    if math.isfinite(pure) and bound.value >= pure:
        return PldBound(value=pure, excess=min(pure, bound.excess), spacing=bound.spacing)
    if math.isinf(bound.value) or bound.excess > _REFUSED * bound.value:
        raise UnsupportedEventError(_no_grid(counts, f"delta={delta!r}"))
    return bound


def pld_delta(counts: Counter[Mechanism], epsilon: float) -> PldBound:
    """Delta of a composition at ``epsilon``.

    Args:
        counts: Mechanisms with their counts, at least one.
        epsilon: In nats, at or above 0.

    Returns:
        The bound.

    Raises:
        UnsupportedEventError: If there is no grid for these losses.
    """
    if epsilon >= pure_epsilon(counts):
        return PldBound(value=0.0, excess=0.0, spacing=0.0)
    # the advantage, at epsilon 0, is large; any other delta may be tiny
    rounding, tail = rounding_of(counts), 1e-15 if epsilon > 0 else 1e-11
    if counts.total() == 1:
        value = max(_one(curve, epsilon) for curve in curves_of(next(iter(counts)), tail))
        return PldBound(value=min(1.0, value + rounding), excess=2 * rounding, spacing=0.0)

    def ask(sides: list[Side]) -> tuple[float, float]:
        found = max(side.delta(epsilon) for side in sides)
        sure = max(side.delta(epsilon) / side.mass for side in sides)
        return min(1.0, max(0.0, found) + rounding), max(0.0, sure - rounding - 2 * tail)

    bound = _refine(counts, tail, ask)
    if math.isinf(bound.value):
        raise UnsupportedEventError(_no_grid(counts, f"epsilon={epsilon!r}"))
    return replace(bound, excess=min(bound.value, bound.excess))


def pld_deltas(counts: Counter[Mechanism], epsilons: "Array", *, spacing: float) -> "Array":
    """Delta of a composition at many points, from one grid.

    Args:
        counts: Mechanisms with their counts, at least one.
        epsilons: Ascending, from 0 to 700.
        spacing: Grid spacing, in nats, for which the composition is known to fit a grid.

    Returns:
        Delta at each, never below the truth.

    Raises:
        UnsupportedEventError: If there is no grid for these losses.
    """
    import numpy as np

    tail, rounding = _TAIL * 1e-6, rounding_of(counts)
    if counts.total() == 1:
        found = [curve.delta(epsilons) for curve in curves_of(next(iter(counts)), tail)]
    else:
        sides = composed(_curves(counts, tail), counts, tail, spacing)
        if sides is None:
            raise UnsupportedEventError(_no_grid(counts, f"a spacing of {spacing:.2g}"))
        found = [np.asarray(side.pmf.get_delta_for_epsilon(epsilons.tolist())) for side in sides]
    return np.clip(np.max(np.stack(found), axis=0) + rounding, 0.0, 1.0)


def _no_grid(counts: Counter[Mechanism], asked: str) -> str:
    """The refusal where rounding outweighs what a finer grid would take away."""
    return (
        f"the pld accountant cannot answer for {asked} after {counts.total()} steps: their losses "
        "are too small, or too unlike, for one grid of 64-bit floats; use accountant='rdp'."
    )


def _refine(
    counts: Counter[Mechanism],
    tail: float,
    ask: Callable[[list[Side]], tuple[float, float]],
) -> PldBound:
    """Halve the grid until an answer stops moving.

    Args:
        counts: Mechanisms with their counts.
        tail: Probability that may be counted as infinite losses.
        ask: Gives the answer, and the answer without all that rounding may have added.

    Returns:
        The least answer.
    """
    directions = _curves(counts, tail)
    widest = max(high - low for curves in directions for low, high in (c.bounds() for c in curves))
    spacing = min(widest / 64, 1.0)
    best = PldBound(value=math.inf, excess=math.inf, spacing=spacing)
    while widest / spacing <= _MAX_STEP_POINTS / len(counts):
        sides = composed(directions, counts, tail, spacing)
        if sides is None:
            break
        value, sure = ask(sides)
        if value == 0:
            return PldBound(value=0.0, excess=0.0, spacing=spacing)
        if value >= best.value:  # the rest is rounding
            return replace(best, excess=min(best.excess, value - sure))
        # halving again takes away no more than it just did; the first two grids may be too coarse
        left = (best.value - value) * (4 if math.isinf(best.excess) else 1)
        best = PldBound(value=value, excess=left + value - sure, spacing=spacing)
        size = max(side.pmf.size for side in sides) * 2 * len(counts)
        if left <= TIGHT * value or (left <= LOOSE * value and size > _SMALL) or size > _LARGE:
            break
        if left < value - sure:  # a finer grid adds more rounding than it takes away
            break
        spacing /= 2
    return best


def _curves(counts: Counter[Mechanism], tail: float) -> list[list[Curve]]:
    """The curves of all mechanisms, for each direction.

    Args:
        counts: Mechanisms with their counts.
        tail: Probability that may be counted as infinite losses, over all steps.

    Returns:
        A list for each direction.

    Raises:
        AccountingError: If there are too many mechanisms.
        UnsupportedEventError: If there are too many steps.
    """
    if len(counts) > MAX_PARTS:
        raise AccountingError(
            f"a composition may hold at most {MAX_PARTS} different mechanisms for the pld "
            f"accountant, got {len(counts)}; round the noise multipliers down to fewer values."
        )
    if counts.total() > MAX_STEPS:
        raise UnsupportedEventError(
            f"a composition may hold at most {MAX_STEPS} steps for the pld accountant, got "
            f"{counts.total()}; use accountant='rdp'."
        )
    found = [curves_of(part, tail / counts.total()) for part in counts]
    return [[f[side % len(f)] for f in found] for side in range(max(map(len, found)))]


def _one(curve: Curve, epsilon: float) -> float:
    """The divergence of one step."""
    import numpy as np

    return float(curve.delta(np.array([epsilon]))[0])
