"""What a training run promised, against what its log says: the last word before anything leaves."""

import math
from collections.abc import Sequence
from dataclasses import replace

from insular.accounting import Event, PrivacyCost, spend
from insular.errors import UnsupportedEventError
from insular.recipes.train.plan import ACCOUNTANTS, Plan
from insular.recipes.train.results import SpentAt
from insular.training.reconciliation import executed_run
from insular.training.results import ExecutedRun, ReleaseEntry
from insular.training.sampled_events import entries_of

N_POINTS = 10
"""Points of the curve of epsilon over releases."""


def account(
    entries: Sequence[ReleaseEntry], plan: Plan, *, drawn_from: int
) -> tuple[ExecutedRun, tuple[PrivacyCost, ...]]:
    """What ran and what it cost, from the log alone.

    Guarantees:
        * Whatever the plan says, the cost is that of the log.
        * A cost above the planned one is one of the differences.

    Args:
        entries: The log.
        plan: What was planned.
        drawn_from: Units that there really were.

    Returns:
        The run, and its cost by each accountant that has a rule for it.
    """
    found = executed_run(
        entries, plan.run, relation=plan.relation, unit=plan.unit, drawn_from=drawn_from
    )
    costs = costs_of(found.event, delta=plan.delta)
    if costs[0].epsilon > plan.cost.epsilon * (1 + 1e-9):
        more = (
            f"epsilon {costs[0].epsilon:.4f} was spent, planned {plan.cost.epsilon:.4f} at delta "
            f"{plan.delta:g}."
        )
        found = replace(found, differences=(*found.differences, more))
    return found, costs


def costs_of(event: Event, *, delta: float) -> tuple[PrivacyCost, ...]:
    """What an event costs, by each accountant that has a rule for it; the promise comes first.

    Args:
        event: What ran.
        delta: Delta.

    Returns:
        At least one cost.
    """
    costs = [spend(event, delta=delta, accountant=ACCOUNTANTS[0])]
    for accountant in ACCOUNTANTS[1:]:
        try:
            costs.append(spend(event, delta=delta, accountant=accountant))
        except UnsupportedEventError:
            continue
    return tuple(costs)


def epsilon_path(entries: Sequence[ReleaseEntry], plan: Plan) -> tuple[SpentAt, ...]:
    """Epsilon as it grew with the releases, as the plan's mechanism costs it.

    Args:
        entries: The log.
        plan: What was planned.

    Returns:
        Some points, the last one after the last release.
    """
    total = len(entries)
    counts = sorted({math.ceil(total * i / N_POINTS) for i in range(1, N_POINTS + 1)})
    releases = [(entry.start, entry.step) for entry in entries]

    def spent(count: int) -> float:
        times = entries_of(plan.run.sampler, releases=releases[:count])
        return spend(plan.event(times), delta=plan.delta).epsilon

    return tuple(SpentAt(n_releases=count, epsilon=spent(count)) for count in counts if count)
