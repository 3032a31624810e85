"""Privacy loss distributions of dp_accounting, on a grid as fine as the question needs.

Each answer is at or above the truth. The grid is halved until the answer stops moving; where it
cannot be made fine enough, the answer says how loose it is, or there is none.
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from insular.accounting.counts import pure_epsilon
from insular.accounting.curves import Curve, curves_of
from insular.accounting.events import Mechanism
from insular.errors import AccountingError, UnsupportedEventError

if TYPE_CHECKING:
    import numpy as np
    from dp_accounting.pld.pld_pmf import PLDPmf

    Array = np.ndarray

MAX_PARTS = 60
"""Different mechanisms in one composition; above it an answer would take more than seconds."""
MAX_STEPS = 2_000_000
"""Steps in one composition; above it the coarsest grid would take more than seconds."""
LOOSE = 0.01
"""Share of the value from which an excess is called loose."""

_TIGHT = 3e-4
_REFUSED = 0.1
_SMALL, _LARGE = 1 << 19, 1 << 21
"""Composed points up to which a grid is refined until tight, and until not loose."""
_MAX_STEP_POINTS = 1 << 18
_UNDERFLOW = 600.0
"""Epsilon above which e^-epsilon is near the least positive float."""
_TAIL = 1e-3
"""Share of delta that may be counted as infinite losses."""
_ROUNDING = 2.5e-16
"""Error of delta for each step composed by FFT; measured: at most half of it."""


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


@final
@dataclass(frozen=True, kw_only=True)
class _Side:
    """One direction between neighbours: its composed losses."""

    pmf: "PLDPmf"
    """dp_accounting's probabilities of the losses."""
    mass: float
    """Their sum; above 1 where rounding added to it."""

    def delta(self, epsilon: float) -> float:
        """The divergence at ``epsilon``."""
        return float(self.pmf.get_delta_for_epsilon(epsilon))  # pyright: ignore[reportArgumentType]

    def epsilon(self, delta: float) -> float:
        """Where the divergence is ``delta``."""
        if self.delta(0.0) <= delta:
            return 0.0
        if self.delta(_UNDERFLOW) > delta:  # dp_accounting sums e^-loss, which vanishes there
            return _bisect(self.delta, delta, low=_UNDERFLOW)
        return max(0.0, float(self.pmf.get_epsilon_for_delta(delta)))


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
    rounding = rounding_of(counts)
    if rounding > delta / 2:
        raise UnsupportedEventError(
            f"the pld accountant cannot answer for delta={delta!r} after {counts.total()} steps, "
            f"where rounding alone moves delta by {rounding:.1g}; use accountant='rdp'."
        )
    tail = _TAIL * delta
    pure = pure_epsilon(counts)
    if counts.total() == 1:
        value = max(
            _bisect(lambda e, c=curve: _one(c, e), delta - rounding)
            for curve in curves_of(next(iter(counts)), tail)
        )
        return PldBound(value=min(value, pure), excess=0.0, spacing=0.0)

    def ask(sides: list[_Side]) -> tuple[float, float]:
        found = max(side.epsilon(delta - rounding) for side in sides)
        sure = max(side.epsilon(min(1.0, (side.mass + _TAIL) * delta + rounding)) for side in sides)
        return found, sure

    bound = _refine(counts, tail, ask)
    if bound.value >= pure:
        return PldBound(value=pure, excess=min(pure, bound.excess), spacing=bound.spacing)
    if math.isinf(bound.value) or bound.excess > _REFUSED * bound.value:
        raise UnsupportedEventError(
            f"the pld accountant cannot answer for delta={delta!r} after {counts.total()} steps: "
            "their losses are too small, or too unlike, for one grid; use accountant='rdp'."
        )
    return bound


def pld_delta(counts: Counter[Mechanism], epsilon: float) -> PldBound:
    """Delta of a composition at ``epsilon``.

    Args:
        counts: Mechanisms with their counts, at least one.
        epsilon: In nats, at or above 0.

    Returns:
        The bound.
    """
    if epsilon >= pure_epsilon(counts):
        return PldBound(value=0.0, excess=0.0, spacing=0.0)
    rounding, tail = rounding_of(counts), 1e-15
    if counts.total() == 1:
        value = max(_one(curve, epsilon) for curve in curves_of(next(iter(counts)), tail))
        return PldBound(value=min(1.0, value + rounding), excess=2 * rounding, spacing=0.0)

    def ask(sides: list[_Side]) -> tuple[float, float]:
        found = max(side.delta(epsilon) for side in sides)
        sure = max(side.delta(epsilon) / side.mass for side in sides)
        return min(1.0, max(0.0, found) + rounding), max(0.0, sure - rounding - 2 * tail)

    return _refine(counts, tail, ask)


def pld_deltas(counts: Counter[Mechanism], epsilons: "Array", *, spacing: float) -> "Array":
    """Delta of a composition at many points, from one grid.

    Args:
        counts: Mechanisms with their counts, at least one.
        epsilons: Ascending, from 0 to 700.
        spacing: Grid spacing, in nats, for which the composition is known to fit a grid.

    Returns:
        Delta at each, never below the truth.
    """
    import numpy as np

    tail, rounding = 1e-12, rounding_of(counts)
    if counts.total() == 1:
        found = [curve.delta(epsilons) for curve in curves_of(next(iter(counts)), tail)]
    else:
        sides = _compose(_curves(counts, tail), counts, tail, spacing) or []
        found = [np.asarray(side.pmf.get_delta_for_epsilon(epsilons.tolist())) for side in sides]
    return np.clip(np.max(np.stack(found), axis=0) + rounding, 0.0, 1.0)


def rounding_of(counts: Counter[Mechanism]) -> float:
    """The error that 64-bit floats may leave in delta.

    Args:
        counts: Mechanisms with their counts.

    Returns:
        Its absolute value at most.
    """
    return _ROUNDING * (counts.total() + 10)


def _refine(
    counts: Counter[Mechanism],
    tail: float,
    ask: Callable[[list[_Side]], tuple[float, float]],
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
        sides = _compose(directions, counts, tail, spacing)
        if sides is None:
            break
        value, sure = ask(sides)
        if value >= best.value:
            break
        moved = best.value - value
        best = PldBound(value=value, excess=moved + value - sure, spacing=spacing)
        size = max(side.pmf.size for side in sides) * 2 * len(counts)
        if value == 0:
            return PldBound(value=0.0, excess=0.0, spacing=spacing)
        if moved <= _TIGHT * value or (moved <= LOOSE * value and size > _SMALL) or size > _LARGE:
            break
        if moved < value - sure:  # a finer grid adds more rounding than it takes away
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


def _compose(
    directions: list[list[Curve]], counts: Counter[Mechanism], tail: float, spacing: float
) -> list[_Side] | None:
    """The composition on a grid, for each direction; None where rounding would double its mass."""
    import numpy as np

    sides = []
    for curves in directions:
        composed = None
        # probabilities far below rounding may overflow on their way; they are checked by their sum
        with np.errstate(all="ignore"):
            for curve, count in zip(curves, counts.values(), strict=True):
                step = _step(curve, spacing)
                if count * (_mass(step) - 1) > math.log(2):
                    return None
                if count > 1:
                    step = step.self_compose(count, tail / len(counts))
                composed = step if composed is None else composed.compose(step)
        assert composed is not None
        sides.append(_Side(pmf=composed, mass=max(1.0, _mass(composed))))
    return sides


def _step(curve: Curve, spacing: float) -> "PLDPmf":
    """One step on the grid, rounded up by connecting the dots of its curve."""
    import numpy as np
    from dp_accounting.pld.pld_pmf import create_pmf_pessimistic_connect_dots_fixed_gap

    low, high = curve.bounds()
    first, last = math.floor(low / spacing), math.ceil(high / spacing)
    deltas = np.clip(curve.delta(spacing * np.arange(first, last + 1)), 0.0, 1.0)
    pmf = create_pmf_pessimistic_connect_dots_fixed_gap(spacing, first, last, deltas)
    return pmf.to_dense_pmf()  # a sparse one composes by arithmetic on size ** count


def _mass(pmf: "PLDPmf") -> float:
    """The sum of all probabilities."""
    return float(pmf.get_delta_for_epsilon(-math.inf))  # pyright: ignore[reportArgumentType]


def _one(curve: Curve, epsilon: float) -> float:
    """The divergence of one step."""
    import numpy as np

    return float(curve.delta(np.array([epsilon]))[0])


def _bisect(delta_of: Callable[[float], float], delta: float, *, low: float = 0.0) -> float:
    """The least epsilon at or above ``low`` with ``delta_of(epsilon) <= delta``."""
    if delta_of(low) <= delta:
        return low
    high = 2 * low + 1
    while delta_of(high) > delta:
        low, high = high, 2 * high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        if delta_of(middle) > delta:
            low = middle
        else:
            high = middle
    return high
