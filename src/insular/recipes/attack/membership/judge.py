"""What a model's losses prove of a promise: scores of records, then of owners, then bounds."""

from collections.abc import Sequence

import numpy as np

from insular.audit.membership.judgement import (
    attack_scores,
    count_tests,
    judge_score,
    point_curve,
    unit_means,
)
from insular.audit.membership.likelihood_ratio import ShadowScores, one_sided_ratio, two_sided_ratio
from insular.audit.membership.results import MembershipClaim, ScoreFinding, ScoreName
from insular.errors import InvalidArgumentError
from insular.recipes.attack.attacked_model import AttackedModel
from insular.recipes.attack.membership.inputs import AttackInputs, order_key
from insular.recipes.attack.membership.spec import MembershipSpec
from insular.recipes.attack.training.games import claimed_curve
from insular.records import Record

USUAL_DELTA = 1e-5
"""Delta of the bound on epsilon where nothing is promised."""

Array = np.ndarray


def claim_of(spec: MembershipSpec, attacked: AttackedModel) -> MembershipClaim | None:
    """The promise that is tested: the training run's, or the one that was given.

    Args:
        spec: The attack.
        attacked: The model.

    Returns:
        The promise; None if there is none.

    Raises:
        InvalidArgumentError: If there are two.
    """
    made = attacked.claim
    if made is not None and spec.epsilon > 0:
        raise InvalidArgumentError(
            f"epsilon must be 0 for a training run, which promises {made.epsilon:.4g} itself, got"
            f" epsilon={spec.epsilon!r}; leave it out."
        )
    if made is not None:
        return MembershipClaim(
            source=f"the training run {spec.run}",
            epsilon=made.epsilon,
            delta=made.delta,
            unit=made.unit,
            relation=made.relation,
            curve=claimed_curve(made.event),
            whole=True,
            caveat=made.caveat,
        )
    if spec.epsilon == 0:
        return None
    return MembershipClaim(
        source="whoever released the model",
        epsilon=spec.epsilon,
        delta=spec.delta,
        unit="owner" if spec.unit else "record",
        relation=None,
        curve=point_curve(spec.epsilon, spec.delta),
        whole=False,
        caveat="",
    )


def scores_of(
    inputs: AttackInputs, arrays: dict[str, Array], shadows: ShadowScores | None
) -> dict[ScoreName, Array]:
    """Every score of every record.

    Args:
        inputs: The records.
        arrays: What the model says of them, members first.
        shadows: What shadow models say of them, in that order; None without any.

    Returns:
        The scores by name.
    """
    sizes = [*inputs.members.zlib_bytes, *inputs.non_members.zlib_bytes]
    scores = attack_scores(
        loss=arrays["loss"],
        lowest=arrays["lowest"],
        zlib_bytes=np.array(sizes, dtype=np.float64),
        reference=arrays.get("reference"),
    )
    if shadows is not None:
        scores["one-sided likelihood ratio"] = one_sided_ratio(arrays["loss"], shadows)
        if shadows.has_members:
            scores["likelihood ratio"] = two_sided_ratio(arrays["loss"], shadows)
    return scores


def judge_scores(
    spec: MembershipSpec,
    inputs: AttackInputs,
    scores: dict[ScoreName, Array],
    claim: MembershipClaim | None,
) -> tuple[ScoreFinding, ...]:
    """Hold each score against the promise.

    Args:
        spec: The attack.
        inputs: Its records.
        scores: One value for each record, members first.
        claim: The promise, or None.

    Returns:
        One finding for each score.
    """
    n_members = len(inputs.members.texts)
    n_tests = count_tests(len(scores), len(spec.fprs))
    findings = []
    for name, values in scores.items():
        parts = (
            _by_unit(values[:n_members], inputs.members.texts, spec.seed),
            _by_unit(values[n_members:], inputs.non_members.texts, spec.seed),
        )
        findings.append(
            judge_score(
                name,
                *parts,
                wanted_fprs=spec.fprs,
                claim=claim,
                delta=claim.delta if claim else spec.delta or USUAL_DELTA,
                significance=spec.significance,
                n_tests=n_tests,
            )
        )
    return tuple(findings)


def _by_unit(scores: Array, records: Sequence[Record], seed: int) -> Array:
    """One score for each owner, in an order that has nothing to do with the scores."""
    means, owners = unit_means(scores, [record.owner for record in records])
    return means[sorted(range(len(owners)), key=lambda i: order_key(owners[i], seed))]
