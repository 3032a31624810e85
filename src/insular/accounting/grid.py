"""Steps composed on a grid of privacy losses, by dp_accounting."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from insular.accounting.curves import Curve
from insular.accounting.events import Mechanism

if TYPE_CHECKING:
    from dp_accounting.pld.pld_pmf import PLDPmf

_UNDERFLOW = 600.0
"""Epsilon above which e^-epsilon is near the least positive float."""
_ROUNDING = 2.5e-16
"""Error of delta for each step composed by FFT; measured: at most half of it."""


@final
@dataclass(frozen=True, kw_only=True)
class Side:
    """One direction between neighbours: its composed losses."""

    pmf: "PLDPmf"
    """dp_accounting's probabilities of the losses."""
    mass: float
    """Their sum; above 1 where rounding added to it."""

    def delta(self, epsilon: float) -> float:
        """The divergence at ``epsilon``.

        Args:
            epsilon: In nats.

        Returns:
            Delta.
        """
        return float(self.pmf.get_delta_for_epsilon(epsilon))  # pyright: ignore[reportArgumentType]

    def epsilon(self, delta: float) -> float:
        """Where the divergence is ``delta``.

        Args:
            delta: Above 0.

        Returns:
            Epsilon, 0 where it needs none.
        """
        if self.delta(0.0) <= delta:
            return 0.0
        if self.delta(_UNDERFLOW) > delta:  # dp_accounting sums e^-loss, which vanishes there
            return bisect(self.delta, delta, low=_UNDERFLOW)
        return max(0.0, float(self.pmf.get_epsilon_for_delta(delta)))


def composed(
    directions: list[list[Curve]], counts: Counter[Mechanism], tail: float, spacing: float
) -> list[Side] | None:
    """The composition on a grid.

    Args:
        directions: The curves of all mechanisms, for each direction.
        counts: How often each ran.
        tail: Probability that may be counted as infinite losses.
        spacing: Of the grid, in nats.

    Returns:
        One side for each direction; None where rounding would double the mass.
    """
    import numpy as np

    sides = []
    for curves in directions:
        total = None
        # probabilities far below rounding may overflow on their way; they are checked by their sum
        with np.errstate(all="ignore"):
            for curve, count in zip(curves, counts.values(), strict=True):
                step = _step(curve, spacing)
                if count * (_mass(step) - 1) > math.log(2):
                    return None
                if count > 1:
                    step = step.self_compose(count, tail / len(counts))
                total = step if total is None else total.compose(step)
        assert total is not None
        sides.append(Side(pmf=total, mass=max(1.0, _mass(total))))
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


def rounding_of(counts: Counter[Mechanism]) -> float:
    """The error that 64-bit floats may leave in delta.

    Args:
        counts: Mechanisms with their counts.

    Returns:
        Its absolute value at most.
    """
    return _ROUNDING * (counts.total() + 10)


def bisect(delta_of: Callable[[float], float], delta: float, *, low: float = 0.0) -> float:
    """The least epsilon at or above ``low`` with ``delta_of(epsilon) <= delta``.

    Args:
        delta_of: A decreasing function of epsilon.
        delta: Its wanted value.
        low: Where to begin.

    Returns:
        Epsilon, rounded up.
    """
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
