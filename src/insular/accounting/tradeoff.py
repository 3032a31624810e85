"""What a privacy cost means to an attacker: error rates, advantage, the trade-off curve."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, final

from insular import _check
from insular.accounting.accountants import check_event
from insular.accounting.counts import counted, gaussian_mu, pure_epsilon, unprotected
from insular.accounting.events import Event
from insular.accounting.pair import pair_delta
from insular.accounting.pld import pld_delta, pld_deltas, pld_epsilon
from insular.errors import InvalidArgumentError

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray

_SMALL_DELTA = 1e-6
"""The curve's grid resolves epsilon at this delta, as well as the advantage."""


@final
@dataclass(frozen=True, kw_only=True)
class TradeoffCurve:
    """No attacker does better than this, whatever it knows besides the record."""

    false_positive_rates: tuple[float, ...]
    """Where the curve was computed, ascending."""
    true_positive_rates: tuple[float, ...]
    """Highest true positive rate at each; f-DP's f is 1 minus this."""
    advantage: float
    """Highest true minus false positive rate: delta at epsilon 0."""
    exact: bool
    """Whether the curve is a closed form; otherwise it is never below the truth."""


def tradeoff_curve(event: Event, *, false_positive_rates: Sequence[float]) -> TradeoffCurve:
    """The trade-off curve of an event.

    Guarantees:
        * Never below the truth: what an attack exceeds was not promised.
        * Equal to the closed form ``Phi(Phi^-1(fpr) + mu)`` where the steps are one Gaussian.
        * Concave, from at or above the diagonal up to 1.

    Args:
        event: What ran, or will.
        false_positive_rates: From 0 to 1.

    Returns:
        The curve.

    Raises:
        InvalidArgumentError: If no rate is given.
    """
    if not false_positive_rates:
        raise InvalidArgumentError("false_positive_rates must hold at least one rate, got none.")
    for rate in false_positive_rates:
        _check.probability(false_positive_rate=rate)
    rates = tuple(sorted(float(rate) for rate in false_positive_rates))
    mu = _gaussian(event)
    if mu is not None:
        found = [_gaussian_rate(mu, rate) for rate in rates]
        return TradeoffCurve(
            false_positive_rates=rates,
            true_positive_rates=tuple(found),
            advantage=pair_delta(mu, 0.0) if math.isfinite(mu) else 1.0,
            exact=True,
        )
    points = _points(event)
    return TradeoffCurve(
        false_positive_rates=rates,
        true_positive_rates=tuple(_rate(points, rate) for rate in rates),
        advantage=float(points[1][0]),
        exact=False,
    )


def advantage(event: Event) -> float:
    """The highest true minus false positive rate of any attacker: delta at epsilon 0.

    Guarantees:
        * From 0 to 1, never below the truth; ``2 Phi(mu/2) - 1`` for one Gaussian.

    Args:
        event: What ran, or will.

    Returns:
        The advantage.
    """
    mu = _gaussian(event)
    if mu is None:
        return pld_delta(counted(event), 0.0).value
    return pair_delta(mu, 0.0) if math.isfinite(mu) else 1.0


def true_positive_rate(event: Event, *, false_positive_rate: float) -> float:
    """The highest true positive rate of any attacker at a false positive rate.

    Guarantees:
        * As ``tradeoff_curve`` there.

    Args:
        event: What ran, or will.
        false_positive_rate: From 0 to 1.

    Returns:
        The rate.
    """
    curve = tradeoff_curve(event, false_positive_rates=(false_positive_rate,))
    return curve.true_positive_rates[0]


def _gaussian(event: Event) -> float | None:
    """The distance of the one Gaussian that costs the same, if there is one."""
    check_event(event)
    counts = counted(event)
    if unprotected(counts):
        return math.inf
    return gaussian_mu(counts)


def _gaussian_rate(mu: float, rate: float) -> float:
    """``Phi(Phi^-1(rate) + mu)``."""
    if mu == 0 or rate in (0.0, 1.0) or not math.isfinite(mu):
        return 1.0 if math.isinf(mu) else rate
    from scipy.special import ndtr

    return float(ndtr(NormalDist().inv_cdf(rate) + mu))


def _points(event: Event) -> "tuple[Array, Array]":
    """Points (epsilon, delta) that hold for the event, the first at epsilon 0."""
    import numpy as np

    counts = counted(event)
    start, small = pld_delta(counts, 0.0), pld_epsilon(counts, _SMALL_DELTA)
    pure = pure_epsilon(counts)
    top = min(pure, max(1.5 * small.value, 1e-9), 700.0)
    epsilons = np.unique(
        np.concatenate([[0.0, top], np.linspace(0.0, top, 3001), np.geomspace(1e-9, top, 3001)])
    )
    spacing = min(start.spacing, small.spacing) if small.value > 0 else start.spacing
    deltas = np.minimum(pld_deltas(counts, epsilons, spacing=spacing), start.value)
    deltas[0] = start.value
    if top == pure:
        deltas[-1] = 0.0
    return epsilons, deltas


def _rate(points: "tuple[Array, Array]", rate: float) -> float:
    """The least rate that any point allows: ``delta + e^epsilon rate``, or its mirror image."""
    import numpy as np

    epsilons, deltas = points
    direct = deltas + np.exp(epsilons) * rate
    mirrored = 1 - np.exp(-epsilons) * (1 - deltas - rate)
    return min(1.0, max(rate, float(min(direct.min(), mirrored.min()))))
