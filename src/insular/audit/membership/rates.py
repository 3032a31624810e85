"""Rates of an attacker who compares scores with a threshold: areas, points, curves. Torch-free.

Every score is such that more speaks for membership.
"""

import numpy as np
from scipy.special import expit, logit, ndtri

from insular import _check
from insular.audit.membership.results import (
    Advantage,
    Area,
    MembershipClaim,
    OperatingPoint,
    RocPoint,
    allowed_rate,
)
from insular.audit.statistics.rates import (
    bonferroni,
    clopper_pearson,
    lower_rate,
    rate_of,
    upper_rate,
)
from insular.errors import InvalidArgumentError

Array = np.ndarray
LEAST = 4
"""Fewest members, and non-members, that can be judged: two choose, two judge."""
_ROC_POINTS = 80
_FEW_PAIRS = 5


def area_under_curve(members: Array, non_members: Array, *, significance: float = 0.05) -> Area:
    r"""The probability that a member scores above a non-member, with DeLong's interval.

    The interval is on the logit scale. Near 0 and 1 DeLong's variance is too small, and 0 where all
    members score above all non-members; where fewer than 5 of min(m, n) disjoint pairs would be
    lost, or won, the interval is Clopper and Pearson's for those pairs.

    Guarantees:
        * Ties count half; the area of swapped arguments is 1 minus this one.
        * Equal for any order of the scores.

    Args:
        members: Their scores.
        non_members: Theirs.
        significance: Error probability of the interval.

    Returns:
        The area.

    Source:
        DeLong, DeLong and Clarke-Pearson (1988).
    """
    _check_scores(members, non_members)
    m, n = len(members), len(non_members)
    above = _wins(members, np.sort(non_members)) / n
    below = _wins(non_members, np.sort(members)) / m
    area = float(above.mean())
    variance = float(above.var(ddof=1) / m + below.var(ddof=1) / n)
    pairs = min(m, n)
    method = "DeLong, logit scale"
    if variance > 0 and min(area, 1 - area) * pairs >= _FEW_PAIRS:
        half = -ndtri(significance / 2) * np.sqrt(variance) / (area * (1 - area))
        lower, upper = expit(logit(area) - half), expit(logit(area) + half)
    else:
        lower = lower_rate(area * pairs, pairs, significance / 2)
        upper = upper_rate(area * pairs, pairs, significance / 2)
        method = f"Clopper-Pearson on {pairs} pairs"
    return Area(
        area=area,
        lower=float(lower),
        upper=float(upper),
        significance=significance,
        n_members=m,
        n_non_members=n,
        method=method,
    )


def operating_point(
    members: Array,
    non_members: Array,
    *,
    wanted_fpr: float,
    claim: MembershipClaim | None = None,
    significance: float = 0.05,
    tested: float | None = None,
) -> OperatingPoint:
    r"""How many members lie above the threshold that a wanted share of non-members may exceed.

    The threshold is the score of the non-member with ``floor(wanted_fpr * n)`` others above it, so
    that its false positive rate has a Beta law, whose upper bound is Clopper and Pearson's.

    Guarantees:
        * At most the wanted share of the non-members is above, however many scores are tied.
        * Both proven bounds hold together with probability 1 - ``tested``, for a share that was
          fixed before the scores were seen.

    Args:
        members: Their scores.
        non_members: Theirs.
        wanted_fpr: The wanted share.
        claim: The promise, or None.
        significance: Error probability of the interval of each rate.
        tested: Error probability of the test; None for the same.

    Returns:
        The point.
    """
    _check_scores(members, non_members)
    _check.probability(wanted_fpr=wanted_fpr)
    m, n = len(members), len(non_members)
    k = min(int(np.floor(wanted_fpr * n + 1e-9)), n - 1)
    threshold = np.sort(non_members)[n - 1 - k]
    false, true = int((non_members > threshold).sum()), int((members > threshold).sum())
    each = bonferroni(tested or significance, 2)
    # ties only lower the rate: the order statistic is that of k, not of what lies strictly above
    _, fpr = clopper_pearson(k, n, significance=each, sides="upper")
    tpr, _ = clopper_pearson(true, m, significance=each, sides="lower")
    return OperatingPoint(
        wanted_fpr=wanted_fpr,
        fpr=rate_of(false, n, significance=significance / 2),
        tpr=rate_of(true, m, significance=significance / 2),
        proven_fpr=fpr,
        proven_tpr=tpr,
        allowed=allowed_rate(claim, fpr),
    )


def advantage(members: Array, non_members: Array, *, significance: float = 0.05) -> Advantage:
    """True minus false positive rate of the best threshold, which one half chooses.

    Guarantees:
        * Judged on the other half, so that no luck of the choice is in it.

    Args:
        members: Their scores.
        non_members: Theirs.
        significance: Error probability of both bounds together.

    Returns:
        The advantage.
    """
    _check_scores(members, non_members)
    chosen = np.sort(members[::2]), np.sort(non_members[::2])
    thresholds = np.unique(np.concatenate(chosen))
    gaps = _share_above(chosen[0], thresholds) - _share_above(chosen[1], thresholds)
    threshold = thresholds[int(np.argmax(gaps))]
    each = bonferroni(significance, 4)
    tpr, fpr = (
        rate_of(int((scores > threshold).sum()), len(scores), significance=each)
        for scores in (members[1::2], non_members[1::2])
    )
    return Advantage(
        value=tpr.count / tpr.n - fpr.count / fpr.n,
        lower=tpr.lower - fpr.upper,
        upper=tpr.upper - fpr.lower,
        significance=significance,
        n_judged=min(tpr.n, fpr.n),
    )


def roc_points(members: Array, non_members: Array) -> tuple[RocPoint, ...]:
    """The curve of all thresholds, thinned to what a figure shows.

    Args:
        members: Their scores.
        non_members: Theirs.

    Returns:
        Points from the strictest threshold to the laxest.
    """
    n = len(non_members)
    allowed = np.unique(np.concatenate([[0], np.geomspace(1, n, _ROC_POINTS)]).astype(np.int64))
    ordered = np.sort(non_members)[::-1]
    thresholds = np.append(ordered, -np.inf)[allowed]
    fpr = _share_above(ordered[::-1], thresholds)
    tpr = _share_above(np.sort(members), thresholds)
    points = dict(zip(fpr.tolist(), tpr.tolist(), strict=True))
    return tuple(RocPoint(fpr=x, tpr=y) for x, y in sorted(points.items()))


def _wins(scores: Array, others: Array) -> Array:
    """For each score, how many of the sorted others it beats, ties counted half."""
    left = np.searchsorted(others, scores, side="left")
    return (left + np.searchsorted(others, scores, side="right")) / 2


def _share_above(ordered: Array, thresholds: Array) -> Array:
    """Share of the sorted scores that lie strictly above each threshold."""
    return 1 - np.searchsorted(ordered, thresholds, side="right") / len(ordered)


def _check_scores(members: Array, non_members: Array) -> None:
    """Refuse what cannot be judged."""
    for name, scores in (("members", members), ("non_members", non_members)):
        if np.ndim(scores) != 1 or len(scores) < LEAST or not np.isfinite(scores).all():
            raise InvalidArgumentError(
                f"{name} must hold at least {LEAST} finite scores in one row, got shape"
                f" {np.shape(scores)}."
            )
