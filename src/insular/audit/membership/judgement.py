"""What the scores of members and non-members prove: rates, bounds, areas. Torch-free.

Every score is such that more speaks for membership. Scores stand in an order that has nothing to do
with their values (the recipe takes a hash of the record's id), because every other one chooses
thresholds and the rest judges them.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.special import expit

from insular import _check
from insular.accounting import TradeoffCurve
from insular.audit.membership.rates import (
    advantage,
    area_under_curve,
    operating_point,
    roc_points,
)
from insular.audit.membership.results import (
    MembershipClaim,
    ScoreFinding,
    ScoreName,
    allowed_rate,
)
from insular.audit.statistics.rates import bonferroni
from insular.audit.statistics.scores import epsilon_bounds, tradeoff_bound
from insular.errors import InvalidArgumentError

Array = np.ndarray


def attack_scores(
    *, loss: Array, lowest: Array, zlib_bytes: Array, reference: Array | None
) -> dict[ScoreName, Array]:
    r"""The four scores of each record; in each, more speaks for membership.

    With :math:`\ell` the mean loss of a record's tokens, :math:`z` the length of its text after
    zlib, :math:`r` its reference loss and :math:`m` the mean loss of its least likely tokens:
    :math:`-\ell`, :math:`-\ell / z`, :math:`r - \ell` and :math:`-m`.

    Args:
        loss: Nats per token.
        lowest: Nats per token, of the least likely ones.
        zlib_bytes: Bytes.
        reference: Nats per token under the reference, or None.

    Returns:
        The scores by name.

    Source:
        Yeom et al. (2018); Carlini et al. (2021), Extracting training data, section 5; Watson et
        al. (2022) for the difference to a reference; Shi et al. (2024), Min-K% Prob.
    """
    scores: dict[ScoreName, Array] = {"loss": -loss, "zlib": -loss / zlib_bytes}
    if reference is not None:
        scores["reference"] = reference - loss
    scores["lowest"] = -lowest
    return scores


def unit_means(scores: Array, owners: Sequence[str]) -> tuple[Array, tuple[str, ...]]:
    """One score for each owner: the mean of its records'.

    Args:
        scores: One for each record.
        owners: Owner of each record.

    Returns:
        The means, and the owners in the order in which they first appear.
    """
    places: dict[str, int] = {}
    at = np.array([places.setdefault(owner, len(places)) for owner in owners], dtype=np.int64)
    totals = np.bincount(at, weights=scores, minlength=len(places))
    return totals / np.bincount(at, minlength=len(places)), tuple(places)


def join_by_id(
    found: Mapping[str, float] | Sequence[tuple[str, float]], ids: Sequence[str], *, what: str
) -> Array:
    """Values in the order of the ids that they belong to.

    Guarantees:
        * The order in which values come does not matter.
        * A value that is missing, doubled or not a number is an error, never skipped.

    Args:
        found: Values by id, or pairs.
        ids: The wanted ids.
        what: What the error calls the values.

    Returns:
        One value for each id.

    Raises:
        InvalidArgumentError: Naming ids that are missing, doubled or not numbers.
    """
    pairs = list(found.items()) if isinstance(found, Mapping) else list(found)
    values = dict(pairs)
    seen: set[str] = set()
    doubled = [name for name, _ in pairs if name in seen or seen.add(name)]
    missing = [name for name in ids if name not in values]
    bad = [name for name in ids if name in values and not np.isfinite(values[name])]
    problems = [
        f"{len(names)} {words}: {', '.join(names[:5])}{' ...' if len(names) > 5 else ''}"
        for words, names in (("doubled", doubled), ("missing", missing), ("not finite", bad))
        if names
    ]
    if problems:
        raise InvalidArgumentError(
            f"{what} must have exactly one finite value for each record id, got"
            f" {'; '.join(problems)}; correct the file."
        )
    return np.array([values[name] for name in ids], dtype=np.float64)


def judge_score(
    score: ScoreName,
    members: Array,
    non_members: Array,
    *,
    wanted_fprs: Sequence[float],
    claim: MembershipClaim | None,
    delta: float,
    significance: float,
    n_tests: int,
) -> ScoreFinding:
    """Hold one score against the promise, and say what else it shows.

    Guarantees:
        * A promise that holds is refuted with probability ``significance`` at most over all
          ``n_tests``, if records are independent and members and non-members are alike.
        * Scores that are lower for members refute as well as higher ones.

    Args:
        score: Which.
        members: Their scores.
        non_members: Theirs.
        wanted_fprs: False positive rates, fixed beforehand.
        claim: The promise, or None.
        delta: Of the bound on epsilon.
        significance: Of all tests together, and of each interval.
        n_tests: Tests that share it; see ``count_tests``.

    Returns:
        The finding.
    """
    each = bonferroni(significance, n_tests)
    curve = 0.0 if claim is None else claim.curve
    bound = tradeoff_bound(non_members, members, claim=curve, significance=each)
    return ScoreFinding(
        score=score,
        points=tuple(
            operating_point(
                members,
                non_members,
                wanted_fpr=rate,
                claim=claim,
                significance=significance,
                tested=each,
            )
            for rate in wanted_fprs
        ),
        tradeoff=bound,
        allowed=allowed_rate(claim, bound.fpr.upper),
        epsilon=epsilon_bounds(non_members, members, deltas=(delta,), significance=each)[0],
        advantage=advantage(members, non_members, significance=significance),
        auc=area_under_curve(members, non_members, significance=significance),
        roc=roc_points(members, non_members),
    )


def count_tests(n_scores: int, n_points: int) -> int:
    """How many tests share the error probability: curve, epsilon and points of each score.

    Args:
        n_scores: Scores.
        n_points: Wanted false positive rates.

    Returns:
        Their number.
    """
    return n_scores * (2 + n_points)


def perfect_attack_refutes(
    claim: MembershipClaim,
    *,
    n_members: int,
    n_non_members: int,
    wanted_fprs: Sequence[float],
    significance: float,
    n_tests: int,
) -> bool:
    """Whether an attack that tells all members apart would refute the promise.

    Args:
        claim: The promise.
        n_members: Scores of members.
        n_non_members: Scores of non-members.
        wanted_fprs: False positive rates.
        significance: Of all tests.
        n_tests: Their number.

    Returns:
        False where so few records decide nothing.
    """
    finding = judge_score(
        "loss",
        np.arange(n_members) + 1.0,
        -np.arange(n_non_members) - 1.0,
        wanted_fprs=wanted_fprs,
        claim=claim,
        delta=claim.delta,
        significance=significance,
        n_tests=n_tests,
    )
    return finding.refutes


def point_curve(epsilon: float, delta: float) -> TradeoffCurve:
    r"""All that the one point (epsilon, delta) promises.

    At a false positive rate x the true positive rate is at most
    :math:`\min(1, \delta + e^\epsilon x, 1 - e^{-\epsilon} (1 - \delta - x))`.

    Args:
        epsilon: In nats.
        delta: From 0 to 1.

    Returns:
        The curve, sampled closely around its corner.

    Source:
        Kairouz, Oh and Viswanath (2015); Dong, Roth and Su (2022), proposition 2.5.
    """
    _check.non_negative_finite(epsilon=epsilon)
    _check.probability(delta=delta)
    corner = (1 - delta) * expit(-epsilon)
    end = min(1.0, 1 - delta) or 1.0
    rates = np.unique([0.0, *np.linspace(0, corner, 9), *np.geomspace(1e-7, 1, 57), corner, end])
    direct = delta + np.exp(min(epsilon, 700.0)) * rates
    mirrored = 1 - np.exp(-epsilon) * (1 - delta - rates)
    found = np.clip(np.minimum(direct, mirrored), rates, 1.0)
    return TradeoffCurve(
        false_positive_rates=tuple(float(x) for x in rates),
        true_positive_rates=tuple(float(y) for y in found),
        advantage=float(delta + (1 - delta) * np.tanh(epsilon / 2)),
        exact=True,
    )
