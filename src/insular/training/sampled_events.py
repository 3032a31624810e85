"""What a sampler's steps are to an accountant. Torch-free: the executed log has the facts alone."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from insular import _check
from insular.accounting import (
    Event,
    GaussianEvent,
    GroupedPoissonGaussianEvent,
    NoiseSource,
    PoissonGaussianEvent,
    Relation,
    RepeatedEvent,
    TruncatedPoissonGaussianEvent,
    Unit,
)
from insular.accounting.influence import RELATIONS
from insular.errors import InvalidArgumentError, UnsupportedEventError
from insular.training.results import SamplerFacts


def event_of(
    facts: SamplerFacts,
    *,
    n_releases: int,
    noise_multiplier: float,
    relation: Relation,
    unit: Unit,
    noise_source: NoiseSource = "not_drawn",
) -> Event:
    """The event that a sampler's noisy sums realise.

    Guarantees:
        * No sampler gets an event that another one realises: a shuffle is never Poisson, and a
          missing fact is an error.
        * Full batch and shuffle under ``replace_one``: a replaced unit moves the sum by twice the
          clip norm.

    Args:
        facts: What the sampler does.
        n_releases: Noisy sums that a unit can be in, from :func:`entries_of`: every release, but
            for ``shuffled`` one for each pass.
        noise_multiplier: Noise standard deviation over the sensitivity under add/remove, which is
            the clip norm where records are isolated.
        relation: Which data sets are neighbours.
        unit: Whose presence is hidden.
        noise_source: Where the noise came from.

    Returns:
        One step's event, repeated.

    Raises:
        UnsupportedEventError: If nothing is known about the sampler under this relation or unit.
        InvalidArgumentError: If the facts are not those of a sampler.
    """
    _check.one_of(RELATIONS, relation=relation)
    _check_grouping(facts, relation=relation, unit=unit)
    step: Event
    match facts.kind:
        case "poisson" if facts.records_per_unit is not None:
            step = GroupedPoissonGaussianEvent(
                noise_multiplier=noise_multiplier,
                sampling_prob=_stated(facts, "sampling_prob"),
                records_per_unit=facts.records_per_unit,
                noise_source=noise_source,
            )
        case "poisson":
            step = PoissonGaussianEvent(
                noise_multiplier=noise_multiplier,
                sampling_prob=_stated(facts, "sampling_prob"),
                relation=relation,
                unit=unit,
                noise_source=noise_source,
            )
        case "truncated_poisson":
            step = TruncatedPoissonGaussianEvent(
                noise_multiplier=noise_multiplier,
                sampling_prob=_stated(facts, "sampling_prob"),
                max_batch_size=_stated(facts, "max_batch_size"),
                n_units=facts.n_units,
                relation=relation,
                unit=unit,
                noise_source=noise_source,
            )
        case "full_batch" | "shuffled":
            if facts.kind == "shuffled" and relation != "replace_one":
                raise UnsupportedEventError(
                    f"relation must be replace_one for the shuffled sampler, got {relation}: one "
                    "unit more moves others between the slots, so every sum may change; use the "
                    "poisson sampler."
                )
            reach = 2.0 if relation == "replace_one" else 1.0
            step = GaussianEvent(
                noise_multiplier=noise_multiplier / reach,
                relation=relation,
                unit=unit,
                noise_source=noise_source,
            )
        case _:
            raise UnsupportedEventError(
                f"a sampler must be of a known kind, got {facts.kind!r}; its cost is not known."
            )
    return RepeatedEvent(event=step, count=n_releases)


def entries_of(facts: SamplerFacts, *, releases: Iterable[tuple[int, int]]) -> int:
    """The most noisy sums that one unit can be in.

    For ``shuffled`` a unit is in one slot of each pass. A run that is started again shuffles the
    rest of a pass afresh, so each start counts its passes apart, whichever slots it reached.

    Args:
        facts: What the sampler does.
        releases: Start and step of every release, as the log has them.

    Returns:
        How many.

    Raises:
        InvalidArgumentError: If a shuffled sampler does not state its slots.
    """
    found = Counter(releases)
    if facts.kind != "shuffled":
        return found.total()
    slots = _stated(facts, "slots")
    _check.at_least(1, slots=slots)
    most: Counter[tuple[int, int]] = Counter()
    for (start, step), count in found.items():
        place = (start, step // slots)
        most[place] = max(most[place], count)
    return most.total()


def planned_entries(facts: SamplerFacts, *, steps: int) -> int:
    """As :func:`entries_of`, for a run that is never interrupted.

    Args:
        facts: What the sampler does.
        steps: Optimiser steps.

    Returns:
        The steps, or for ``shuffled`` the passes begun.
    """
    _check.at_least(0, steps=steps)
    return -(-steps // _stated(facts, "slots")) if facts.kind == "shuffled" else steps


def _check_grouping(facts: SamplerFacts, *, relation: Relation, unit: Unit) -> None:
    """Refuse records that are drawn for an owner where no event knows the cost."""
    if facts.records_per_unit is None:
        return
    if facts.kind != "poisson":
        raise UnsupportedEventError(
            "kind must be poisson where records are drawn and owners protected, got "
            f"kind={facts.kind!r}; draw whole owners."
        )
    if unit != "owner" or relation != "add_or_remove_one":
        raise UnsupportedEventError(
            "unit and relation must be owner and add_or_remove_one where records are drawn and "
            f"owners protected, got {unit} and {relation}; draw whole units."
        )


def _stated(facts: SamplerFacts, name: str) -> Any:
    """A fact that this kind of sampler must state."""
    found = getattr(facts, name)
    if found is None:
        raise InvalidArgumentError(
            f"{name} must be stated by a {facts.kind} sampler, got {name}=None."
        )
    return found
