"""What scores prove: bounds on held-out draws, for any attack that gives two sets of scores.

Scores are numbers of which one neighbour has more than the other, or less: both are looked for.
A threshold is chosen on half of the draws and judged on the other half, so that no correction for
the choice is needed.
"""

from collections.abc import Sequence
from typing import cast

import numpy as np
from scipy.special import ndtri

from insular import _check
from insular.accounting import TradeoffCurve
from insular.accounting.pair import check_delta
from insular.audit.statistics.bounds import (
    Claim,
    EpsilonBound,
    Side,
    TradeoffBound,
    gaussian_quantile,
    promised_rate,
)
from insular.audit.statistics.rates import (
    bonferroni,
    epsilon_from_rates,
    lower_rate,
    rate_of,
    upper_rate,
)
from insular.errors import InvalidArgumentError

N_THRESHOLDS = 1001
"""Pooled quantiles among which a threshold is chosen."""
CAUTION = 1e-6
"""Significance at which the trade-off bound compares thresholds. At the test's own, noise of the
comparison prefers thresholds in the tails, which the other half then cannot resolve."""

Array = np.ndarray


def epsilon_bounds(
    without: Array, with_record: Array, *, deltas: Sequence[float], significance: float = 0.05
) -> tuple[EpsilonBound, ...]:
    """Lower bounds on epsilon at several deltas.

    For each delta one half of the draws chooses a threshold among 1,001 pooled quantiles, the side
    of it and the neighbour that is to be positive, by the bound that they give there; the other
    half judges that choice. Ties go to the lowest threshold.

    Guarantees:
        * All bounds hold together with probability 1 - significance.
        * The same for scores of opposite sign.

    Args:
        without: Scores of independent draws without the record.
        with_record: Scores with it.
        deltas: Deltas of the bounds.
        significance: Error probability of all of them together.

    Returns:
        One bound for each delta.

    Source:
        Jagielski et al. (2020); Nasr et al. (2021); the choice of the threshold follows the
        sensitivity-inflation paper (arXiv 2611.01411), section 6.5.
    """
    each = bonferroni(significance, 2 * max(1, len(deltas)))
    chosen, judged = _halves(without, with_record)
    thresholds = _thresholds(chosen)
    found = []
    for delta in deltas:
        check_delta(delta)
        best = None
        for side in ("above", "below"):
            counts = [_counts(scores, thresholds, side) for scores in chosen]
            for positive in (1, 0):
                p = lower_rate(counts[positive], len(chosen[positive]), each)
                q = upper_rate(counts[1 - positive], len(chosen[1 - positive]), each)
                objective = (p - delta) / q
                at = int(np.argmax(objective))
                if best is None or objective[at] > best[0]:
                    best = (objective[at], thresholds[at], side, positive)
        assert best is not None
        _, threshold, side, positive = best
        p, q = (
            rate_of(_count(judged[i], threshold, side), len(judged[i]), significance=each)
            for i in (positive, 1 - positive)
        )
        found.append(
            EpsilonBound(
                epsilon_lower_bound=epsilon_from_rates(p.lower, q.upper, delta=delta),
                delta=delta,
                threshold=float(threshold),
                side=cast(Side, side),
                positive="with" if positive else "without",
                p=p,
                q=q,
                n_selection=min(map(len, chosen)),
                significance=significance,
            )
        )
    return tuple(found)


def tradeoff_bound(
    without: Array, with_record: Array, *, claim: Claim = 0.0, significance: float = 0.05
) -> TradeoffBound:
    """The error rates that an attacker reaches, to hold against a promised trade-off curve.

    One half of the draws chooses a threshold among 1,001 pooled quantiles and the side of it,
    where the attacker's point lies furthest beyond the claim, rates bounded with caution; the other
    half judges it.

    Guarantees:
        * Both rates hold together with probability 1 - significance, whatever the mechanism.
        * The same for scores of opposite sign.

    Args:
        without: Scores of independent draws without the record.
        with_record: Scores with it.
        claim: What the bound is to refute; it only moves the choice of the threshold.
        significance: Error probability of both rates together.

    Returns:
        The bound.

    Source:
        Dong, Roth and Su (2022), Gaussian differential privacy; Nasr et al. (2023), Tight auditing
        of differentially private machine learning.
    """
    each = bonferroni(significance, 2)
    chosen, judged = _halves(without, with_record)
    thresholds = _thresholds(chosen)
    best: tuple[float, float, Side] | None = None
    for side in ("above", "below"):
        counts = [_counts(scores, thresholds, side) for scores in chosen]
        fpr = upper_rate(counts[0], len(chosen[0]), CAUTION)
        beyond = ndtri(lower_rate(counts[1], len(chosen[1]), CAUTION)) - _promised(claim, fpr)
        at = int(np.argmax(np.nan_to_num(beyond, nan=-np.inf)))
        if best is None or beyond[at] > best[0]:
            best = (float(beyond[at]), float(thresholds[at]), cast(Side, side))
    assert best is not None
    _, threshold, side = best
    fpr, tpr = (
        rate_of(_count(scores, threshold, side), len(scores), significance=each)
        for scores in judged
    )
    return TradeoffBound(
        mu_lower_bound=max(0.0, gaussian_quantile(tpr.lower) - gaussian_quantile(fpr.upper)),
        threshold=threshold,
        side=side,
        tpr=tpr,
        fpr=fpr,
        n_selection=min(map(len, chosen)),
        significance=significance,
    )


def _halves(without: Array, with_record: Array) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """The draws that choose and those that judge, sorted; every other draw, so both run along."""
    for name, scores in (("without", without), ("with_record", with_record)):
        if np.ndim(scores) != 1 or len(scores) < 2 or np.isnan(scores).any():
            raise InvalidArgumentError(
                f"{name} must hold at least 2 scores in one row, none NaN; got shape "
                f"{np.shape(scores)}."
            )
    chosen = np.sort(without[::2]), np.sort(with_record[::2])
    return chosen, (np.sort(without[1::2]), np.sort(with_record[1::2]))


def _thresholds(chosen: tuple[Array, Array]) -> Array:
    """Pooled quantiles, ascending."""
    return np.quantile(np.concatenate(chosen), np.linspace(0, 1, N_THRESHOLDS))


def _counts(ordered: Array, thresholds: Array, side: str) -> Array:
    """How many of the sorted scores lie strictly beyond each threshold."""
    if side == "below":
        return np.searchsorted(ordered, thresholds, side="left")
    return len(ordered) - np.searchsorted(ordered, thresholds, side="right")


def _count(ordered: Array, threshold: float, side: str) -> int:
    """The same for one threshold."""
    return int(_counts(ordered, np.array([threshold]), side)[0])


def _promised(claim: Claim, fpr: Array) -> Array:
    """Normal quantile of the true positive rate that the claim allows at each rate."""
    if isinstance(claim, TradeoffCurve):
        return ndtri(np.array([promised_rate(claim, float(rate)) for rate in fpr]))
    _check.non_negative_finite(claim=claim)
    return ndtri(fpr) + claim
