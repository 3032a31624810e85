"""How far one record can move a sum of clipped contributions, and what that means for its owner."""

import math
from typing import TYPE_CHECKING, Literal

from insular import _check

if TYPE_CHECKING:
    from dp_accounting import NeighboringRelation

Relation = Literal["add_or_remove_one", "replace_one"]
"""Which data sets count as neighbours."""

RELATIONS: tuple[Relation, ...] = ("add_or_remove_one", "replace_one")


def separable_bound(relation: Relation, *, clip_norm: float = 1.0) -> float:
    """The furthest that a sum of independently clipped contributions moves between neighbours.

    ``C`` to add or remove a record, ``2C`` to replace one.

    Guarantees:
        * Equal to ``influence_bound(0, ...)``.

    Args:
        relation: Which data sets are neighbours.
        clip_norm: Bound C on one contribution (Opacus: ``max_grad_norm``; jax_privacy:
            ``l2_clip_norm``).

    Returns:
        The bound, in the unit of ``clip_norm``.
    """
    return influence_bound(0, relation=relation, clip_norm=clip_norm)


def influence_bound(n_altered: int, *, relation: Relation, clip_norm: float = 1.0) -> float:
    """The furthest that the sum moves if ``m`` common contributions may change as well.

    ``(2m + 1) C`` to add or remove a record, ``2 (m + 1) C`` to replace one: each common
    contribution can swing from one end of its ball to the other.

    Guarantees:
        * Attained: there are contributions that move the sum exactly this far.

    Args:
        n_altered: Common contributions m that may change with the record; 0 in a separable sum.
        relation: Which data sets are neighbours.
        clip_norm: Bound C on one contribution.

    Returns:
        The bound, in the unit of ``clip_norm``.
    """
    _check.at_least(0, n_altered=n_altered)
    _check.one_of(RELATIONS, relation=relation)
    _check.positive_finite(clip_norm=clip_norm)
    contributions = 2 * n_altered + (1 if relation == "add_or_remove_one" else 2)
    return contributions * clip_norm


def group_privacy(epsilon: float, delta: float, *, n_records: int) -> tuple[float, float]:
    """What a guarantee for one record means for an owner of k records.

    ``(k epsilon, delta (e^(k epsilon) - 1) / (e^epsilon - 1))``; the factor of delta is k where
    epsilon is 0.

    Guarantees:
        * One record changes nothing.
        * Never below the truth: the owner's guarantee follows from the record's for every
          mechanism. A clip per owner is usually far better.

    Args:
        epsilon: The record's epsilon, in nats.
        delta: The record's delta.
        n_records: Records k of the owner.

    Returns:
        The owner's epsilon and delta; a delta of 1 means that nothing is promised.

    Source:
        Dwork and Roth (2014), Theorem 2.2; Vadhan (2017), Lemma 2.2, for delta.
    """
    _check.non_negative_finite(epsilon=epsilon)
    _check.probability(delta=delta)
    _check.at_least(1, n_records=n_records)
    if n_records == 1 or delta == 0:
        return n_records * epsilon, float(delta)
    if epsilon == 0:
        return 0.0, min(1.0, n_records * delta)
    # (e^(k eps) - 1) / (e^eps - 1), in logarithms: e^(k eps) overflows early
    log_factor = (n_records - 1) * epsilon + math.log(
        math.expm1(-n_records * epsilon) / math.expm1(-epsilon)
    )
    log_delta = math.log(delta) + log_factor
    return n_records * epsilon, 1.0 if log_delta >= 0 else math.exp(log_delta)


def neighboring_relation(relation: Relation) -> "NeighboringRelation":
    """The member of dp_accounting's enumeration that our word means.

    Args:
        relation: Our word.

    Returns:
        dp_accounting's.
    """
    from dp_accounting import NeighboringRelation  # slow: only when a number is asked for

    _check.one_of(RELATIONS, relation=relation)
    return NeighboringRelation[relation.upper()]
