"""What a training run will do and cost, fixed before its first release."""

import math
from dataclasses import dataclass
from typing import final

from insular import _check
from insular.accounting import (
    Event,
    NoiseSource,
    PrivacyCost,
    Relation,
    Unit,
    influence_bound,
    noise_for_epsilon,
    spend,
)
from insular.errors import InvalidArgumentError
from insular.recipes.train.spec import TrainSpec
from insular.training.results import PlannedRun, SamplerFacts
from insular.training.sampled_events import event_of, planned_entries

ACCOUNTANTS = ("pld", "rdp")
"""Who computes what a run costs; the first gives the promise."""


@final
@dataclass(frozen=True, kw_only=True)
class Plan:
    """A planned run with the promise that it is made for."""

    run: PlannedRun
    """What it will do."""
    unit: Unit
    """Whose presence is hidden."""
    relation: Relation
    """Neighbouring data sets."""
    delta: float
    """Delta."""
    delta_reason: str
    """Why."""
    cost: PrivacyCost
    """What the plan costs."""

    def event(self, n_releases: int) -> Event:
        """What some releases are.

        Args:
            n_releases: In how many of them one unit can be.

        Returns:
            The event.
        """
        return event_of(
            self.run.sampler,
            n_releases=n_releases,
            noise_multiplier=self.run.noise_multiplier,
            relation=self.relation,
            unit=self.unit,
            noise_source=self.run.noise_source,
        )


@final
@dataclass(frozen=True, kw_only=True)
class _Sampled:
    """The run as a function of its noise, for calibration."""

    facts: SamplerFacts
    n_releases: int
    relation: Relation
    unit: Unit

    def event(self, noise_multiplier: float) -> Event:
        """The run with this noise."""
        return event_of(
            self.facts,
            n_releases=self.n_releases,
            noise_multiplier=noise_multiplier,
            relation=self.relation,
            unit=self.unit,
            noise_source="not_drawn",
        )


def plan_run(spec: TrainSpec, facts: SamplerFacts, *, n_units: int, influence: float) -> Plan:
    """Fix noise, divisor and delta, and what they cost.

    Args:
        spec: The run.
        facts: Its sampler.
        n_units: Public number of protected units.
        influence: Sensitivity over C under add/remove.

    Returns:
        The plan.

    Raises:
        AccountingError: If the target is out of reach.
    """
    unit: Unit = "owner" if spec.by_owner else "record"
    delta, reason = choose_delta(spec.delta, n_units, unit=unit)
    sampled = _Sampled(
        facts=facts,
        n_releases=planned_entries(facts, steps=spec.steps),
        relation=spec.relation,
        unit=unit,
    )
    noise = spec.noise_multiplier
    if spec.epsilon:
        noise = noise_for_epsilon(sampled, epsilon=spec.epsilon, delta=delta).noise_multiplier
    source: NoiseSource = "secure" if spec.noise_seed < 0 else "seeded"
    event = event_of(
        facts,
        n_releases=sampled.n_releases,
        noise_multiplier=noise,
        relation=spec.relation,
        unit=unit,
        noise_source=source,
    )
    run = PlannedRun(
        event=event,
        sampler=facts,
        steps=spec.steps,
        clip_norm=spec.clip_norm,
        influence=influence,
        noise_multiplier=noise,
        noise_std=noise * spec.clip_norm * influence,
        divisor=divisor_of(facts, spec.batch),
        noise_source=source,
    )
    return Plan(
        run=run,
        unit=unit,
        relation=spec.relation,
        delta=delta,
        delta_reason=reason,
        cost=spend(event, delta=delta),
    )


def divisor_of(facts: SamplerFacts, batch: int) -> float:
    """The public divisor of the noisy sum.

    Args:
        facts: The sampler.
        batch: Expected units of a step, as asked.

    Returns:
        That, or all units for a full batch.
    """
    return float(facts.n_units if facts.kind == "full_batch" else batch)


def choose_delta(delta: float, n_units: int, *, unit: Unit) -> tuple[float, str]:
    """Delta with its reason, against one over the number of units and its square.

    Args:
        delta: As asked; 0 chooses the largest power of ten at most a tenth of 1 / n.
        n_units: Protected units, n.
        unit: Their kind.

    Returns:
        Delta, and the reason in one sentence.

    Raises:
        InvalidArgumentError: If delta is 1 / n or more: one unit could be published outright.
    """
    _check.at_least(1, n_units=n_units)
    scale = f"1/n = {1 / n_units:.2g} and 1/n^2 = {1 / n_units**2:.2g} for n = {n_units} {unit}s"
    if delta == 0:
        chosen = 10.0 ** math.floor(math.log10(1 / (10 * n_units)) + 1e-9)
        return chosen, f"chosen: the largest power of ten at most 1/(10 n); {scale}"
    if delta * n_units >= 1:
        raise InvalidArgumentError(
            f"delta must be below 1/n for n = {n_units} {unit}s, got delta={delta!r}: publishing "
            f"one {unit} outright would satisfy it; choose at most {0.1 / n_units:.1g}."
        )
    return delta, f"given; {scale}"


def influence_of(seats: int) -> float:
    """Sensitivity over C where the records of one forward can touch each other.

    Args:
        seats: Records that may share a forward; 1 where they are isolated.

    Returns:
        ``2 (seats - 1) + 1``.
    """
    return influence_bound(seats - 1, clip_norm=1.0, relation="add_or_remove_one")
