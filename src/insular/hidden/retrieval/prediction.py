"""What a squared distance D^2 between released states means to an attacker.

D^2 = x' S^-1 x for states that differ by x under Gaussian noise of covariance S. Torch-free.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from insular import _check
from insular.errors import InvalidArgumentError

_REACH = 12.0
_NODES = np.linspace(-_REACH, _REACH, 8001)
_WEIGHTS = np.exp(-np.square(_NODES) / 2) / math.sqrt(2 * math.pi) * (_NODES[1] - _NODES[0])
"""Trapezoids under the normal density: the integrands are smooth, so the error is rounding."""


def predicted_top_1(squared_distance: float, *, n_candidates: int) -> float:
    """How often the best attacker finds the truth among equidistant candidates.

    ``integral phi(z) Phi(z + D/sqrt 2)^(N - 1) dz``

    Guarantees:
        * 1/N at D = 0, increasing in D, decreasing in N.

    Args:
        squared_distance: D^2 between any two candidates.
        n_candidates: N, the true one among them.

    Returns:
        The probability.
    """
    _check.non_negative_finite(squared_distance=squared_distance)
    _check.at_least(1, n_candidates=n_candidates)
    shifted = log_ndtr(_NODES + math.sqrt(squared_distance / 2))
    return min(1.0, float(_WEIGHTS @ np.exp((n_candidates - 1) * shifted)))


def squared_distance_for_top_1(top_1: float, *, n_candidates: int) -> float:
    """The D^2 at which ``predicted_top_1`` is ``top_1``: D*^2.

    Args:
        top_1: Above 1/N, below 1.
        n_candidates: N.

    Returns:
        D*^2: 17 for top-1 0.1 of 50,000.

    Raises:
        InvalidArgumentError: If guessing alone reaches ``top_1``, or nothing does.
    """
    _check.at_least(2, n_candidates=n_candidates)
    if not 1 / n_candidates < top_1 <= 1 - 1e-9:
        raise InvalidArgumentError(
            f"top_1 must be above chance, 1/{n_candidates}, and at most 1 - 1e-9, got "
            f"top_1={top_1!r}."
        )

    def above(distance: float) -> float:
        return predicted_top_1(distance**2, n_candidates=n_candidates) - top_1

    return _root(above, 0.0, 40.0) ** 2


def feasibility_gain(
    fisher_trace: float,
    difference_trace: float,
    *,
    budget_nats: float,
    squared_distance: float,
) -> float:
    """How many times better than isotropic noise a mechanism must be to hide at this budget.

    ``tr F tr S_d / (2 K D*^2)``: isotropic noise of budget K leaves a mean D^2 of
    ``tr F tr S_d / 2K``. A gain above G_mah cannot be had by Gaussian noise, on average.

    Args:
        fisher_trace: tr F.
        difference_trace: tr S_d.
        budget_nats: K.
        squared_distance: D*^2, what an attacker may be left with.

    Returns:
        The gain; at most 1 where isotropic noise suffices.
    """
    _check.positive_finite(
        fisher_trace=fisher_trace,
        difference_trace=difference_trace,
        budget_nats=budget_nats,
        squared_distance=squared_distance,
    )
    return fisher_trace * difference_trace / (2 * budget_nats * squared_distance)


def fisher_ball_squared_distance(kl_nats: float, *, hidden_size: int, budget_nats: float) -> float:
    """``D^2 = (d/K) KL``: what every pair of this KL has under inverse-Fisher noise.

    Args:
        kl_nats: ``x'Fx/2`` of the pair.
        hidden_size: d.
        budget_nats: K.

    Returns:
        D^2.
    """
    _check.non_negative_finite(kl_nats=kl_nats)
    _check.at_least(1, hidden_size=hidden_size)
    _check.positive_finite(budget_nats=budget_nats)
    return hidden_size / budget_nats * kl_nats


def pair_error(squared_distance: float) -> float:
    """``Phi(-D/2)``: how often the best attacker mistakes one of two equally likely states.

    Args:
        squared_distance: D^2 of the pair.

    Returns:
        The error, from 1/2 down; at most ``exp(-D^2/8)/2``.
    """
    _check.non_negative_finite(squared_distance=squared_distance)
    return float(ndtr(-math.sqrt(squared_distance) / 2))


def step_error_bound(squared_distance: float, *, vocabulary_size: int) -> float:
    """``(V - 1)/2 exp(-D^2/8)``, at most 1: how often one step of exact inversion goes wrong.

    Args:
        squared_distance: Least D^2 between the states of two next tokens.
        vocabulary_size: V.

    Returns:
        An upper bound on the error.
    """
    _check.non_negative_finite(squared_distance=squared_distance)
    _check.at_least(2, vocabulary_size=vocabulary_size)
    return min(1.0, (vocabulary_size - 1) / 2 * math.exp(-squared_distance / 8))


def exact_match_bound(squared_distances: Sequence[float], *, vocabulary_size: int) -> float:
    """``prod (1 - error_t)``: how often sequential inversion recovers the whole prompt, at least.

    Args:
        squared_distances: Least D^2 of each step.
        vocabulary_size: V.

    Returns:
        A lower bound; 0 where any step's bound says nothing.
    """
    steps = [
        1 - step_error_bound(each, vocabulary_size=vocabulary_size) for each in squared_distances
    ]
    return math.prod(steps, start=1.0)


def distance_for_step_error(error: float, *, vocabulary_size: int) -> float:
    """``D = sqrt(8 log((V - 1) / 2 error))``: above it a step goes wrong at most so often.

    Args:
        error: Above 0, at most 1.
        vocabulary_size: V.

    Returns:
        D.

    Raises:
        InvalidArgumentError: If ``error`` is 0.
    """
    _check.probability(error=error)
    _check.positive_finite(error=error)
    _check.at_least(2, vocabulary_size=vocabulary_size)
    return math.sqrt(8 * max(0.0, math.log((vocabulary_size - 1) / (2 * error))))


def bottleneck_information(rank: int, *, power: float, noise_variance: float) -> float:
    """``(k/2) log(1 + P / (k s^2))``: what k numbers of total power P tell through noise, at most.

    Args:
        rank: k.
        power: P, total variance of the numbers.
        noise_variance: s^2 of each.

    Returns:
        Information in nats.
    """
    _check.at_least(1, rank=rank)
    _check.non_negative_finite(power=power)
    _check.positive_finite(noise_variance=noise_variance)
    return rank / 2 * math.log1p(power / (rank * noise_variance))


def fano_error_bound(information_nats: float, *, n_candidates: int) -> float:
    """``1 - (I + log 2) / log N``, at least 0: how often any attacker is wrong, at least.

    Args:
        information_nats: Between an even choice of N candidates and what was released.
        n_candidates: N.

    Returns:
        A lower bound on the error.
    """
    _check.non_negative_finite(information_nats=information_nats)
    _check.at_least(2, n_candidates=n_candidates)
    return max(0.0, 1 - (information_nats + math.log(2)) / math.log(n_candidates))


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where an increasing function is 0."""
    if function(low) >= 0:
        return low
    found = brentq(function, low, high, xtol=1e-13)
    assert isinstance(found, float)
    return found
