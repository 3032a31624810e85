"""What a private hyperparameter search will cost, fixed before its first run."""

from dataclasses import dataclass, replace
from typing import final

from insular.accounting import PrivacyCost, RepeatAndSelectEvent, noise_for_epsilon, spend
from insular.evidence import InputFact
from insular.recipes.inputs import Progress
from insular.recipes.train.plan import Plan
from insular.recipes.train.search.spec import SearchSpec
from insular.recipes.train.session import open_session
from insular.recipes.train.spec import TrainSpec
from insular.training.sampled_events import event_of, planned_entries

ACCOUNTANT = "rdp"
"""The only accountant with a rule for repeating and selecting."""


@final
@dataclass(frozen=True, kw_only=True)
class PlannedSearch:
    """What the search will cost."""

    plan: Plan
    """One run."""
    event: RepeatAndSelectEvent
    """All of it."""
    cost: PrivacyCost
    """Of all of it."""
    inputs: tuple[InputFact, ...]
    """Text and model, for the manifest."""

    @property
    def as_plan(self) -> Plan:
        """The plan at the price of the search, for the ledger."""
        return replace(self.plan, cost=self.cost)


@final
@dataclass(frozen=True, kw_only=True)
class _Selection:
    """The search as a function of its noise, for calibration."""

    plan: Plan
    search: SearchSpec

    def event(self, noise_multiplier: float) -> RepeatAndSelectEvent:
        """The search with this noise."""
        run = self.plan.run
        one = event_of(
            run.sampler,
            n_releases=planned_entries(run.sampler, steps=run.steps),
            noise_multiplier=noise_multiplier,
            relation=self.plan.relation,
            unit=self.plan.unit,
            noise_source=run.noise_source,
        )
        return RepeatAndSelectEvent(
            event=one, mean_runs=self.search.mean_runs, shape=self.search.shape
        )


def plan_search(train: TrainSpec, search: SearchSpec, *, progress: Progress) -> PlannedSearch:
    """Find the noise with which the whole search keeps the promise.

    Guarantees:
        * The search, not one run, costs at most ``train.epsilon``.

    Args:
        train: What all runs share.
        search: The law of the number of runs.
        progress: Called before long steps.

    Returns:
        The plan.

    Raises:
        UnsupportedEventError: If the sampler has no rule under the accountant of selections.
        AccountingError: If the target is out of reach.
    """
    session = open_session(
        replace(train, ledger="", population=""), progress=lambda line: progress("", line)
    )
    selection = _Selection(plan=session.plan, search=search)
    delta, noise = session.plan.delta, train.noise_multiplier
    if train.epsilon:
        noise = noise_for_epsilon(
            selection, epsilon=train.epsilon, delta=delta, accountant=ACCOUNTANT
        ).noise_multiplier
    event = selection.event(noise)
    cost = spend(event, delta=delta, accountant=ACCOUNTANT)
    run = replace(session.plan.run, event=event.event, noise_multiplier=noise)
    return PlannedSearch(
        plan=replace(session.plan, run=run), event=event, cost=cost, inputs=session.inputs
    )
