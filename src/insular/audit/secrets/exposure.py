"""From ranks to exposures: intervals, groups, and what chance alone gives."""

import math
from collections.abc import Sequence

import numpy as np
from scipy.stats import binom, gamma

from insular import _check
from insular.audit.secrets.results import AllowedExposure, SecretGroup, SecretRank
from insular.audit.statistics.rates import clopper_pearson, rate_of
from insular.errors import InvalidArgumentError

CHANCE_BITS = 1 / math.log(2)
"""Mean exposure of a secret that the model does not know, in a large space: 1.44 bits."""
SIGNIFICANCE = 0.05
"""Error probability of each interval in a report."""


def exposure(rank: float, *, space_size: int) -> float:
    """Exposure of a secret: log2 |space| - log2 rank, in bits.

    Guarantees:
        * 0 at the last rank, log2 |space| at the first.

    Args:
        rank: 1 for the likeliest; a half where two tie.
        space_size: Secrets that could have been drawn.

    Returns:
        Bits.

    Raises:
        InvalidArgumentError: If the rank is outside the space.

    Source:
        Carlini et al. (2019), The secret sharer, section 4.
    """
    _check.at_least(1, space_size=space_size)
    if not 1 <= rank <= space_size:
        raise InvalidArgumentError(
            f"rank must be from 1 to space_size, got rank={rank!r} of {space_size}."
        )
    return math.log2(space_size) - math.log2(rank)


def exposure_interval(
    lowest: int, highest: int, *, n_candidates: int, space_size: int
) -> tuple[float, float]:
    """The exposures that ties, and sampling of candidates, leave possible.

    Guarantees:
        * With the whole space as candidates, the interval is that of the ties alone.
        * Where candidates were sampled, it misses the truth with probability 0.05 at most.

    Args:
        lowest: 1 + candidates that are likelier.
        highest: 1 + candidates that are at least as likely.
        n_candidates: Secrets ranked, the one itself included.
        space_size: Secrets that could have been drawn.

    Returns:
        Smallest and largest exposure, in bits.
    """
    if n_candidates == space_size:
        return exposure(highest, space_size=space_size), exposure(lowest, space_size=space_size)
    most = math.log2(space_size)
    n, each = n_candidates - 1, SIGNIFICANCE / 2
    _, upper = clopper_pearson(highest - 1, n, significance=each, sides="upper")
    lower, _ = clopper_pearson(lowest - 1, n, significance=each, sides="lower")
    largest = most if lower <= 1 / space_size else -math.log2(lower)
    return min(most, -math.log2(upper)), largest


def chance_p(shares: Sequence[float]) -> float:
    """Probability of so much exposure or more, all secrets together, if the model knew none.

    Each secret is even over the space given the model, so -ln(rank / |space|) is at most a unit
    exponential number, and the sum of n of them at most Gamma(n).

    Guarantees:
        * Below any level with at most that probability, for every model and every size of space.

    Args:
        shares: Highest rank over the size of the space, for each secret.

    Returns:
        The p-value.

    Source:
        Fisher (1932), combination of independent tests.
    """
    return float(gamma.sf(-np.log(np.asarray(shares)).sum(), len(shares)))


def random_p(ranks: Sequence[SecretRank]) -> float:
    """Two-sided probability of the exposures of controls, which no model can know.

    Guarantees:
        * Below any level with at most that probability where controls are even over the space.

    Args:
        ranks: The controls.

    Returns:
        The p-value.
    """
    front = chance_p([rank.share for rank in ranks])
    below = [(rank.rank_lowest - 1) / rank.n_candidates for rank in ranks]
    with np.errstate(divide="ignore"):
        behind = float(gamma.cdf(-np.log(np.asarray(below)).sum(), len(below)))
    return min(1.0, 2 * min(front, behind))


def chance_band(n: int, *, significance: float = SIGNIFICANCE) -> tuple[float, float]:
    """Where the mean exposure of n unknown secrets lies, in a large space.

    Args:
        n: Secrets.
        significance: Probability outside of it.

    Returns:
        Both ends, in bits.
    """
    _check.at_least(1, n=n)
    ends = gamma.ppf((significance / 2, 1 - significance / 2), n) / n
    return float(ends[0]) * CHANCE_BITS, float(ends[1]) * CHANCE_BITS


def median_interval(values: Sequence[float], *, limits: tuple[float, float]) -> tuple[float, float]:
    """An interval of the median by order statistics.

    Guarantees:
        * Misses the median of independent draws with probability 0.05 at most, whatever their
          distribution; with five values or fewer it is ``limits``.

    Args:
        values: Independent draws.
        limits: Where values can lie.

    Returns:
        Both ends.
    """
    ordered, n = sorted(values), len(values)
    left_out = int(binom.ppf(SIGNIFICANCE / 2, n, 0.5))
    while left_out > 0 and binom.cdf(left_out - 1, n, 0.5) > SIGNIFICANCE / 2:
        left_out -= 1
    return (ordered[left_out - 1], ordered[n - left_out]) if left_out else limits


def group_secrets(
    ranks: Sequence[SecretRank], *, space_size: int, allowed: AllowedExposure | None
) -> SecretGroup:
    """Put equally often planted secrets together.

    Args:
        ranks: At least one, all of one repetition count.
        space_size: Secrets that could have been drawn.
        allowed: What the promise allows for them.

    Returns:
        Their exposure, against chance and promise.
    """
    bits = [rank.exposure_bits for rank in ranks]
    return SecretGroup(
        repeats=ranks[0].repeats,
        n=len(ranks),
        mean_bits=float(np.mean(bits)),
        median_bits=float(np.median(bits)),
        median_interval=median_interval(bits, limits=(0.0, math.log2(space_size))),
        greedy=rate_of(sum(r.greedy for r in ranks), len(ranks), significance=SIGNIFICANCE / 2),
        chance_p=chance_p([rank.share for rank in ranks]),
        allowed=allowed,
    )
