"""What a private hyperparameter search may try: a public list, and how many runs are drawn."""

from dataclasses import dataclass, replace
from itertools import product
from math import inf
from typing import final

from insular import _check
from insular.errors import InvalidArgumentError
from insular.recipes.train.spec import OPTIMISERS, TrainSpec


@final
@dataclass(frozen=True, kw_only=True)
class Candidate:
    """Settings of one run of a search."""

    learning_rate: float
    """At its peak."""
    clip_norm: float
    """Bound C of a unit's contribution."""
    optimiser: str
    """``dp-adamw`` or ``dp-sgd``."""
    weight_decay: float
    """Decoupled weight decay."""
    lora_rank: int
    """Rank of the adapters."""


@final
@dataclass(frozen=True, kw_only=True)
class SearchSpec:
    """A random number of runs, each with settings drawn evenly from a public list.

    The list is every combination of the values below; an empty tuple keeps the run's own value.
    Only settings that leave the mechanism alone are here: with another batch, number of steps,
    sampler or noise, one run would cost more than another, and the theorem needs one mechanism.
    """

    mean_runs: float = 5.0
    """Mean of the random number of runs, 1 or more."""
    shape: float = 1.0
    """Its law: infinite for Poisson (which may draw no run at all), 1 for geometric, 0 for
    logarithmic, any other for truncated negative binomial."""
    learning_rates: tuple[float, ...] = ()
    """Learning rates."""
    clip_norms: tuple[float, ...] = ()
    """Clip norms. The noise multiplier stays the same, so each costs the same."""
    optimisers: tuple[str, ...] = ()
    """Optimisers."""
    weight_decays: tuple[float, ...] = ()
    """Weight decays."""
    lora_ranks: tuple[int, ...] = ()
    """Ranks of the adapters."""

    def __post_init__(self) -> None:
        """Refuse a law that is none, and values that no run would take.

        Raises:
            InvalidArgumentError: Naming the first setting that breaks its rule.
        """
        _check.positive_finite(mean_runs=self.mean_runs)
        if self.mean_runs < 1:
            raise InvalidArgumentError(
                f"mean_runs must be at least 1, got mean_runs={self.mean_runs!r}."
            )
        if self.shape != inf:
            _check.non_negative_finite(shape=self.shape)
        for rate in self.learning_rates:
            _check.positive_finite(learning_rates=rate)
        for norm in self.clip_norms:
            _check.positive_finite(clip_norms=norm)
        for name in self.optimisers:
            _check.one_of(OPTIMISERS, optimisers=name)
        for decay in self.weight_decays:
            _check.non_negative_finite(weight_decays=decay)
        for rank in self.lora_ranks:
            _check.at_least(1, lora_ranks=rank)


def candidates(search: SearchSpec, train: TrainSpec) -> tuple[Candidate, ...]:
    """The public list that settings are drawn from.

    Args:
        search: The values.
        train: What all runs share.

    Returns:
        Every combination, in the order of the fields.

    Raises:
        InvalidArgumentError: If there is only one, so that nothing is searched.
    """
    found = tuple(
        Candidate(
            learning_rate=rate, clip_norm=norm, optimiser=name, weight_decay=decay, lora_rank=rank
        )
        for rate, norm, name, decay, rank in product(
            search.learning_rates or (train.learning_rate,),
            search.clip_norms or (train.clip_norm,),
            search.optimisers or (train.optimiser,),
            search.weight_decays or (train.weight_decay,),
            search.lora_ranks or (train.lora_rank,),
        )
    )
    if len(set(found)) < 2:
        raise InvalidArgumentError(
            "a search must have at least 2 different candidates, got 1; list several values, such "
            "as learning_rates = [1e-3, 3e-3], or train without a search."
        )
    return found


def check_searchable(train: TrainSpec) -> None:
    """Refuse a run whose choice would read something private.

    Args:
        train: What all runs share.

    Raises:
        InvalidArgumentError: If no public text is named.
    """
    if train.validation == "none" or train.validation_records == 0:
        raise InvalidArgumentError(
            "validation must name public text for a search, got "
            f"validation={train.validation!r} with {train.validation_records} records: a choice by "
            "losses on the protected text would be a release that no noise covers."
        )


def run_spec(train: TrainSpec, one: Candidate, *, noise_multiplier: float, run: int) -> TrainSpec:
    """The settings of one run of a search.

    Args:
        train: What all runs share.
        one: What was drawn for it.
        noise_multiplier: That of every run.
        run: Its number, from 1.

    Returns:
        The settings: without a ledger, which is charged for the search as a whole.
    """
    return replace(
        train,
        learning_rate=one.learning_rate,
        clip_norm=one.clip_norm,
        optimiser=one.optimiser,
        weight_decay=one.weight_decay,
        lora_rank=one.lora_rank,
        epsilon=0.0,
        noise_multiplier=noise_multiplier,
        noise_seed=-1 if train.noise_seed < 0 else train.noise_seed + run,
        seed=train.seed + run,
        ledger="",
        population="",
        release="",
    )
