"""A squared distance D^2 of a pair under Gaussian noise as epsilon, and back. Torch-free.

The pair is exactly as hard to tell apart as two unit Gaussians ``mu = D`` apart.
"""

import math

from scipy.optimize import brentq

from insular import _check
from insular.accounting import pair_epsilon
from insular.errors import InvalidArgumentError


def renyi_divergence(squared_distance: float, *, order: float) -> float:
    """``alpha D^2 / 2``: Renyi divergence of the pair.

    Args:
        squared_distance: D^2.
        order: alpha, above 1.

    Returns:
        The divergence in nats.

    Raises:
        InvalidArgumentError: If the order is not above 1.
    """
    _check.non_negative_finite(squared_distance=squared_distance)
    if not 1 < order < math.inf:
        raise InvalidArgumentError(f"order must be finite and > 1, got order={order!r}.")
    return order * squared_distance / 2


def mironov_epsilon(squared_distance: float, *, delta: float) -> float:
    """``D^2/2 + D sqrt(2 log(1/delta))``: Mironov's conversion at its best order. Not tight.

    Args:
        squared_distance: D^2.
        delta: Above 0, below 1.

    Returns:
        Epsilon in nats, never below ``exact_epsilon``.
    """
    _check.non_negative_finite(squared_distance=squared_distance)
    return squared_distance / 2 + math.sqrt(2 * squared_distance * _log_inverse(delta))


def exact_epsilon(squared_distance: float, *, delta: float) -> float:
    """Epsilon of the pair: Gaussian differential privacy with ``mu = D``, exact.

    Args:
        squared_distance: D^2.
        delta: Above 0, below 1.

    Returns:
        Epsilon in nats.
    """
    _check.non_negative_finite(squared_distance=squared_distance)
    _log_inverse(delta)
    return pair_epsilon(math.sqrt(squared_distance), delta)


def squared_distance_for_mironov(epsilon: float, *, delta: float) -> float:
    """The D^2 whose Mironov epsilon is ``epsilon``: ``2 (sqrt(L + epsilon) - sqrt L)^2``.

    Args:
        epsilon: In nats, at or above 0.
        delta: Above 0, below 1.

    Returns:
        D^2.
    """
    _check.non_negative_finite(epsilon=epsilon)
    log_inverse = _log_inverse(delta)
    # the difference of roots, without cancellation
    return 2 * (epsilon / (math.sqrt(log_inverse + epsilon) + math.sqrt(log_inverse))) ** 2


def squared_distance_for_exact(epsilon: float, *, delta: float) -> float:
    """The D^2 whose exact epsilon is ``epsilon``.

    Args:
        epsilon: In nats, above 0.
        delta: Above 0, below 1.

    Returns:
        D^2, never below ``squared_distance_for_mironov``.
    """
    _check.positive_finite(epsilon=epsilon)
    _log_inverse(delta)
    low = math.sqrt(squared_distance_for_mironov(epsilon, delta=delta))
    high = max(1.0, low)
    while pair_epsilon(high, delta) < epsilon:
        high *= 2
    if pair_epsilon(low, delta) >= epsilon:
        return low**2
    found = brentq(lambda mu: pair_epsilon(mu, delta) - epsilon, low, high, xtol=1e-13)
    assert isinstance(found, float)
    return found**2


def _log_inverse(delta: float) -> float:
    """``log(1/delta)``, for a delta above 0 and below 1."""
    _check.probability(delta=delta)
    if delta in (0, 1):
        raise InvalidArgumentError(f"delta must be above 0 and below 1, got delta={delta!r}.")
    return -math.log(delta)
