"""Two Gaussians of equal spread a known distance apart: their exact divergence."""

import math
from functools import lru_cache

from insular import _check
from insular.accounting.influence import Relation, separable_bound
from insular.errors import InvalidArgumentError

_SERIES_FROM = 30.0
"""Where 1 - x m(x) is read from its series: there its error is below 1e-12, the difference's not
much above."""


def pair_delta(mu: float, epsilon: float) -> float:
    """The hockey-stick divergence of two unit Gaussians whose means lie ``mu`` apart.

    ``Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)``, and 0 for ``mu = 0``. For one
    Gaussian step, ``mu = |F(D) - F(D')| / (s C)``.

    Guarantees:
        * From 0 to 1, never NaN, and decreasing in epsilon.
        * Accurate relative to itself, not only to 1: small divergences keep their digits.

    Args:
        mu: Distance of the means over the standard deviation.
        epsilon: In nats, at or above 0.

    Returns:
        The smallest delta at which the pair is (epsilon, delta)-indistinguishable.

    Source:
        Balle and Wang (2018), Theorem 8.
    """
    _check.non_negative_finite(mu=mu, epsilon=epsilon)
    return math.exp(_log_delta(epsilon / mu - mu / 2, mu)) if mu > 0 else 0.0


def pair_epsilon(mu: float, delta: float) -> float:
    """The epsilon at which the pair's divergence is ``delta``: the inverse of ``pair_delta``.

    Guarantees:
        * 0 where ``pair_delta(mu, 0) <= delta``; never negative.
        * ``pair_delta(mu, pair_epsilon(mu, delta))`` is ``delta``, within rounding.
        * Infinite only for ``delta = 0`` at ``mu > 0``, or where a float cannot hold it.

    Args:
        mu: Distance of the means over the standard deviation.
        delta: From 0, below 1.

    Returns:
        Epsilon in nats.
    """
    _check.non_negative_finite(mu=mu)
    check_delta(delta)
    if mu == 0 or _log_delta(-mu / 2, mu) <= (math.log(delta) if delta > 0 else -math.inf):
        return 0.0
    if delta == 0:
        return math.inf
    # The lower end of the integral that the divergence is: a bounded, monotone unknown, where
    # epsilon itself spans 16 orders of magnitude.
    low, high = max(-mu / 2, -40.0), 40.0
    target = math.log(delta)
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if _log_delta(middle, mu) > target:
            low = middle
        else:
            high = middle
    return max(0.0, mu * (high + mu / 2))


def implied_epsilon(
    ratio: float,
    *,
    noise_multiplier: float,
    delta: float,
    relation: Relation = "add_or_remove_one",
) -> float:
    """The epsilon that one Gaussian step spends on a pair whose measured ratio is ``ratio``.

    ``mu = ratio * B / s``, with B = 1 to add or remove a record and 2 to replace one.

    Guarantees:
        * At ratio 1, what the separable sum would spend.
        * It is exact for this pair, so a lower bound on what the stack spends.

    Args:
        ratio: Distance of the two clipped sums over the separable bound.
        noise_multiplier: Noise standard deviation over the clip norm.
        delta: From 0, below 1.
        relation: Which data sets are neighbours.

    Returns:
        Epsilon in nats.

    Raises:
        InvalidArgumentError: If an argument breaks its rule, or the two together overflow.
    """
    _check.non_negative_finite(ratio=ratio, noise_multiplier=noise_multiplier)
    if noise_multiplier == 0:
        check_delta(delta)
        return math.inf if ratio > 0 else 0.0
    mu = ratio * separable_bound(relation) / noise_multiplier
    if not math.isfinite(mu):
        raise InvalidArgumentError(
            "ratio over noise_multiplier must fit a 64-bit float, got "
            f"ratio={ratio!r} and noise_multiplier={noise_multiplier!r}."
        )
    return pair_epsilon(mu, delta)


def check_delta(delta: float) -> None:
    """Refuse a delta that is not a number from 0, below 1.

    Raises:
        InvalidArgumentError: With the rule and the value.
    """
    _check.probability(delta=delta)
    if delta == 1:
        raise InvalidArgumentError(
            "delta must be below 1, got delta=1: at 1 every mechanism passes."
        )


def _log_delta(start: float, mu: float) -> float:
    """Log of phi(x) (m(x) - m(x + mu)) at x = ``start``, m the Mills ratio of the normal."""
    from scipy.special import ndtr

    if mu <= 1:
        return _log_density(start) + _log(_mills_drop(start, mu))
    if start < 0:  # Phi(-x) is at least 1/2 and e^eps Phi(-x - mu) is phi(x) m(x + mu)
        return _log(float(ndtr(-start)) - math.exp(_log_density(start)) * _mills(start + mu))
    return _log_density(start) + _log(_mills(start) - _mills(start + mu))


def _mills_drop(start: float, mu: float) -> float:
    """m(start) - m(start + mu) as the integral of 1 - x m(x), which nothing cancels."""
    total = 0.0
    for node, weight in _quadrature():
        point = start + mu * (node + 1) / 2
        if point > _SERIES_FROM:
            square = 1 / (point * point)
            slope = square * (1 - square * (3 - square * (15 - square * (105 - 945 * square))))
        else:
            slope = 1 - point * _mills(point)
        total += weight * slope
    return total * mu / 2


@lru_cache(maxsize=1)
def _quadrature() -> tuple[tuple[float, float], ...]:
    """Gauss-Legendre nodes and weights."""
    from numpy.polynomial.legendre import leggauss

    nodes, weights = leggauss(20)
    return tuple(zip(nodes.tolist(), weights.tolist(), strict=True))


def _mills(x: float) -> float:
    """The Mills ratio m(x) = Phi(-x) / phi(x) of the standard normal."""
    from scipy.special import erfcx

    return math.sqrt(math.pi / 2) * float(erfcx(x / math.sqrt(2)))


def _log_density(x: float) -> float:
    """Log of the standard normal density."""
    return -x * x / 2 - math.log(2 * math.pi) / 2


def _log(x: float) -> float:
    """Natural log, minus infinity at 0."""
    return math.log(x) if x > 0 else -math.inf
