"""A training run's own sampler, clipping, noise and loop, repeated with planted canaries.

No model is needed: a canary's gradient is chosen, in a coordinate of its own. Everything after the
gradient is the code that trains, the loop itself included.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from insular.audit.spec import Direction
from insular.errors import InvalidArgumentError
from insular.recipes.attack.training.repeat import (
    Coordinates,
    TrainingParts,
    noisy_sums,
    sampler_like,
)
from insular.recipes.train.session import clipped_sum_of
from insular.recipes.train.spec import TrainSpec
from insular.records import TokenisedRecord
from insular.records.batches import TokenBatch
from insular.training.gradients import GradientEngine, RecordGradients, TrainingGradients
from insular.training.losses import LossName
from insular.training.results import PlannedRun

LENGTHS: dict[Direction, float] = {"dirac": 1.0, "long": 100.0}
"""Length of a canary's gradient in clip norms: within the bound, or far beyond it."""
_OWNER_RECORDS = 2
"""Records of a canary where owners are clipped as one: their gradients add up to its length."""
_OTHERS_DRAWN = 4
"""Other units that a step draws on average, where their number does not matter to the promise."""

Array = np.ndarray


@final
class CanaryTraining:
    """A training run in whose data canaries can be.

    Each canary is a unit whose gradient lies in a coordinate of its own. Under ``replace_one`` a
    canary that is absent is replaced by one with the opposite gradient. Other units fill the data.

    Args:
        spec: The run.
        plan: What it did.
        n_canaries: Canaries.
        direction: How long their gradients are.

    Raises:
        InvalidArgumentError: If the run's data cannot hold so many.
    """

    def __init__(
        self, spec: TrainSpec, plan: PlannedRun, *, n_canaries: int, direction: Direction
    ) -> None:
        self.n_canaries = n_canaries
        self.n_params = n_canaries + 1
        """Coordinates: one of each canary, and one of all others."""
        self._replaced = spec.relation == "replace_one"
        self._alone = spec.sample == "record"
        self._per_canary = 1
        if spec.by_owner:
            self._per_canary = spec.records_per_owner if self._alone else _OWNER_RECORDS
        # where records are drawn one by one, each is clipped by itself
        share = 1 if self._alone else self._per_canary
        self._length = LENGTHS[direction] * plan.clip_norm / share
        self._n_tokens = spec.tokens
        self._others = [self._unit(f"other-{i}", 1) for i in range(self._n_others(spec, plan))]
        engine = _ChosenGradients(self._rows(plan.clip_norm))
        self.parts = TrainingParts(
            plan=plan,
            sampler=sampler_like(spec, plan),
            clipped_sum=clipped_sum_of(
                replace(spec, device="cpu"),
                Coordinates(self.n_params),
                engine=engine,
                places={name: i for i, name in enumerate(engine.rows)},
                pad_token_id=0,
            ),
        )

    def __call__(self, present: Array, *, seed: int) -> Array:
        """As a ``TrainingRun``.

        Args:
            present: For each canary, whether it is in the data.
            seed: Of all randomness.

        Returns:
            The noisy sums along each canary's coordinate, in standard deviations of the noise.
        """
        units = list(self._others)
        for canary, here in enumerate(present):
            if here or self._replaced:
                records = self._unit(_name(canary, bool(here)), self._per_canary)
                units += [(record,) for record in records] if self._alone else [records]
        order = np.random.default_rng(seed).permutation(len(units))
        mixed = [units[i] for i in order]  # no canary's place in the data is special
        sums = noisy_sums(self.parts, mixed, n_params=self.n_params, seed=seed)
        return sums[:, : self.n_canaries] / self.parts.plan.noise_std

    def _n_others(self, spec: TrainSpec, plan: PlannedRun) -> int:
        """Units besides the canaries: the run's own number where the promise depends on it."""
        facts = plan.sampler
        if facts.kind in ("poisson", "full_batch"):
            rate = facts.sampling_prob if facts.kind == "poisson" else 1.0
            return max(1, min(facts.n_units, math.ceil(_OTHERS_DRAWN / max(rate or 0.0, 1e-4))))
        if self.n_canaries >= facts.n_units:
            raise InvalidArgumentError(
                f"canaries must be fewer than the run's {facts.n_units} units for sampler"
                f" {facts.kind}, got canaries={self.n_canaries}; lower --canaries."
            )
        return facts.n_units - self.n_canaries

    def _unit(self, name: str, n_records: int) -> tuple[TokenisedRecord, ...]:
        """The records of a unit. Their tokens are never read; their number is the run's longest."""
        return tuple(
            TokenisedRecord(id=f"{name}#{i}", owner=name, tokens=(1,) * self._n_tokens)
            for i in range(n_records)
        )

    def _rows(self, clip_norm: float) -> dict[str, Tensor]:
        """The gradient of every record that there can be."""
        rows = {}
        for unit in self._others:
            rows[unit[0].id] = self._gradient(self.n_canaries, clip_norm)
        for canary in range(self.n_canaries):
            for present, sign in ((True, 1.0), (False, -1.0)):
                for record in self._unit(_name(canary, present), self._per_canary):
                    rows[record.id] = self._gradient(canary, sign * self._length)
        return rows

    def _gradient(self, coordinate: int, value: float) -> Float[Tensor, " param"]:
        """One value in one coordinate."""
        found = torch.zeros(self.n_params)
        found[coordinate] = value
        return found


def _name(canary: int, present: bool) -> str:
    """A canary, or what replaces it."""
    return f"canary-{canary}" if present else f"replacement-{canary}"


@final
class _ChosenGradients(GradientEngine):
    """Gives each record the gradient that was chosen for it."""

    name = "chosen"

    def __init__(self, rows: Mapping[str, Tensor]) -> None:
        self.rows = rows

    def compute(self, model: nn.Module, batch: TokenBatch, *, loss: LossName) -> RecordGradients:
        """Refuse: there is no model to run."""
        raise NotImplementedError

    def for_training(
        self, model: nn.Module, batch: TokenBatch, *, loss: LossName
    ) -> TrainingGradients:
        """The chosen gradients of the batch."""
        return TrainingGradients(
            gradients=torch.stack([self.rows[name] for name in batch.record_ids]),
            losses=torch.zeros(batch.n_records),
        )
