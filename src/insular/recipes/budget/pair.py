"""What a measured sensitivity costs, and what a record's guarantee means for its owner."""

import math
from typing import Literal

from insular import _check
from insular.accounting import (
    ComposedEvent,
    Event,
    GaussianEvent,
    composed_epsilon,
    group_privacy,
    implied_epsilon,
    separable_bound,
    spend,
    tradeoff_curve,
)
from insular.audit.spec import SensitivitySpec
from insular.errors import InvalidArgumentError, UnsupportedEventError
from insular.recipes.budget.results import (
    GroupResult,
    OwnerCost,
    PairResult,
    PairRow,
    PairSpec,
    check_records_per_owner,
    check_steps,
)

FEW = 0.01
"""False positive rate at which an attack is usually judged."""
_MOST_NOISE = 1e300
"""A larger noise multiplier counts as this one, which never costs less."""


def pair_price(spec: PairSpec) -> PairResult:
    """What a measured distance of two clipped sums costs, beside what was claimed.

    Guarantees:
        * At the bound, the measured row equals the claimed one.
        * The epsilon of one step is exact for the pair.

    Args:
        spec: The distance, the noise and, optionally, a run.

    Returns:
        Both rows, and whether the bound is exceeded.

    Raises:
        InvalidArgumentError: If a number breaks its rule.
    """
    _check.non_negative_finite(distance=spec.distance, repeat_distance=spec.repeat_distance)
    _check.non_negative_finite(noise_multiplier=spec.noise_multiplier)
    if (spec.sampling_prob is None) != (spec.steps is None):
        raise InvalidArgumentError(
            "sampling_prob and steps must be given together, got only one of them; leave both out"
            " for the price of one step."
        )
    bound = separable_bound(spec.relation)
    margin = SensitivitySpec.margin + 10 * spec.repeat_distance / bound
    ratio = spec.distance / bound
    return PairResult(
        spec=spec,
        bound=bound,
        margin=margin,
        exceeds=ratio > 1 + margin,
        rows=(_pair_row(spec, "claimed", bound), _pair_row(spec, "measured", spec.distance)),
    )


def group_price(epsilon: float, delta: float, *, records_per_owner: int) -> GroupResult:
    """What a guarantee for one record means for an owner of several.

    Args:
        epsilon: The record's, in nats.
        delta: The record's.
        records_per_owner: Records k of one owner.

    Returns:
        The owner's guarantee.
    """
    check_records_per_owner(records_per_owner)
    owner = owner_cost(epsilon, delta, records_per_owner, event=None)
    return GroupResult(epsilon=float(epsilon), delta=float(delta), owner=owner)


def owner_cost(epsilon: float, delta: float, n_records: int, *, event: Event | None) -> OwnerCost:
    """The guarantee of an owner: as it follows, and at the record's own delta.

    Args:
        epsilon: The record's, in nats.
        delta: The record's.
        n_records: Records of the owner.
        event: What ran, where that is known.

    Returns:
        The owner's cost.
    """
    if math.isinf(epsilon) and event is not None:
        return OwnerCost(n_records=n_records, epsilon=math.inf, delta=1.0, same_delta_epsilon=None)
    grown = group_privacy(epsilon, delta, n_records=n_records)
    same = None if event is None else _same_delta(event, delta, n_records)
    return OwnerCost(n_records=n_records, epsilon=grown[0], delta=grown[1], same_delta_epsilon=same)


def _same_delta(event: Event, delta: float, n_records: int) -> float | None:
    """The least owner's epsilon at ``delta`` that a smaller delta for the record gives, by RDP."""
    if delta == 0:
        return None

    def owner(exponent: float) -> float | None:
        try:
            cost = spend(event, delta=10**exponent, accountant="rdp")
        except UnsupportedEventError:
            return None
        if math.isinf(cost.epsilon):
            return None
        found = group_privacy(cost.epsilon, cost.delta, n_records=n_records)
        return found[0] if found[1] <= delta else None

    low, high = -300.0, math.log10(delta)
    best = owner(low)
    while best is not None and high - low > 0.1:
        middle = (low + high) / 2
        found = owner(middle)
        if found is None:
            high = middle
        else:
            low, best = middle, found
    return best


def _pair_row(spec: PairSpec, meaning: Literal["claimed", "measured"], distance: float) -> PairRow:
    """What one sensitivity costs."""
    ratio = distance / separable_bound(spec.relation)
    step_epsilon = implied_epsilon(
        ratio,
        noise_multiplier=spec.noise_multiplier,
        delta=spec.delta,
        relation=spec.relation,
    )
    seen = tradeoff_curve(_one_step(spec, distance), false_positive_rates=(FEW,))
    return PairRow(
        meaning=meaning,
        distance=float(distance),
        ratio=ratio,
        step_epsilon=step_epsilon,
        step_advantage=seen.advantage,
        step_true_positive_rate=seen.true_positive_rates[0],
        run_epsilon=_run_epsilon(spec, ratio),
    )


def _one_step(spec: PairSpec, distance: float) -> Event:
    """One Gaussian step on two sums this far apart."""
    if distance == 0:
        return ComposedEvent(events=())
    return GaussianEvent(
        noise_multiplier=min(spec.noise_multiplier / distance, _MOST_NOISE),
        relation=spec.relation,
        unit="record",
    )


def _run_epsilon(spec: PairSpec, ratio: float) -> float | None:
    """Epsilon of the run if every step had this ratio."""
    if spec.sampling_prob is None or spec.steps is None:
        return None
    check_steps(spec.steps)
    if ratio == 0:
        return 0.0
    return composed_epsilon(
        min(spec.noise_multiplier / ratio, _MOST_NOISE),
        sampling_prob=spec.sampling_prob,
        steps=spec.steps,
        delta=spec.delta,
        relation=spec.relation,
    )
