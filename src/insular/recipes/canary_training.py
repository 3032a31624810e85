"""A training run's own sampler, clipping, noise and loop, repeated with planted canaries.

No model is needed: a canary's gradient is chosen, in a coordinate of its own. Everything after the
gradient is the code that trains, the loop itself included.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Unpack, final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from insular.audit.training_attack_results import Direction
from insular.errors import InvalidArgumentError
from insular.recipes.train_session import clipped_sum_of, sampler_of
from insular.recipes.train_spec import TrainSpec
from insular.records import TokenisedRecord
from insular.records.batches import TokenBatch
from insular.training.batching import Units
from insular.training.contributions import ClippedSum
from insular.training.executed_log import LogHead, ReleaseFacts
from insular.training.gradients import (
    GradientEngine,
    RecordGradients,
    TrainingGradients,
)
from insular.training.liveness import LivenessWatch
from insular.training.loop import PrivateLoop
from insular.training.losses import LossName
from insular.training.noise import GaussianNoise
from insular.training.optimisers import Optimiser
from insular.training.randomness import Keystream, SeededStream
from insular.training.results import PlannedRun
from insular.training.sampling import Sampler

LENGTHS: dict[Direction, float] = {"dirac": 1.0, "long": 100.0}
"""Length of a canary's gradient in clip norms: within the bound, or far beyond it."""
_OWNER_RECORDS = 2
"""Records of a canary where owners are clipped as one: their gradients add up to its length."""
_OTHERS_DRAWN = 4
"""Other units that a step draws on average, where their number does not matter to the promise."""

Array = np.ndarray


@final
@dataclass(frozen=True, kw_only=True)
class TrainingParts:
    """What acts in a run, made anew for each repetition."""

    plan: PlannedRun
    """Steps, noise, divisor."""
    sampler: Callable[[int, Keystream], Sampler]
    """Who is in a step, of so many units."""
    clipped_sum: Callable[[Units], ClippedSum]
    """Gradients of drawn units, clipped and added."""
    noise: Callable[[Keystream], GaussianNoise] = GaussianNoise
    """What hides one unit."""


def noisy_sums(parts: TrainingParts, units: Units, *, n_params: int, seed: int) -> Array:
    """Train once with the run's own loop and see all that it lets out.

    Args:
        parts: What acts.
        units: The data.
        n_params: Coordinates.
        seed: Of draws and noise.

    Returns:
        The noisy sum of each step, steps by coordinates, float64.
    """
    model, stream = _Coordinates(n_params), SeededStream(seed)
    parameters = dict(model.named_parameters())
    witness = _Witness(parameters)
    loop = PrivateLoop(
        model=model,
        units=units,
        plan=parts.plan,
        sampler=parts.sampler(len(units), stream),
        clipped_sum=parts.clipped_sum,
        noise=parts.noise(stream),
        optimiser=witness,
        learning_rate=lambda step: 0.0,
        watch=LivenessWatch(parameters),
        log=_UnkeptLog(),
    )
    for _ in loop.run():
        pass
    return np.stack(witness.seen) * parts.plan.divisor


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
            sampler=partial(_sampler, replace(spec, device="cpu"), plan.sampler.n_units),
            clipped_sum=clipped_sum_of(
                replace(spec, device="cpu"),
                _Coordinates(n_canaries + 1),
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
        sums = noisy_sums(self.parts, mixed, n_params=self.n_canaries + 1, seed=seed)
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
        found = torch.zeros(self.n_canaries + 1)
        found[coordinate] = value
        return found


@final
class PairTraining:
    """A training run on two fixed neighbouring batches whose clipped sums were computed before.

    All others are in every step; the one record enters as the run's sampler draws it. The player
    sees each noisy sum along the difference of the two clipped sums.

    Args:
        spec: The run.
        plan: What it did.
        sums: Clipped sums without the record and with it, float32, in gradient units.

    Raises:
        InvalidArgumentError: If the sums are the same, or the sampler is none of single coins.
    """

    def __init__(self, spec: TrainSpec, plan: PlannedRun, *, sums: tuple[Array, Array]) -> None:
        if plan.sampler.kind not in ("poisson", "full_batch") or (
            spec.relation != "add_or_remove_one" or spec.sample == "record"
        ):
            raise InvalidArgumentError(
                "a pair's record must enter by a coin of its own, under add_or_remove_one, got"
                f" sampler={plan.sampler.kind!r} and relation={spec.relation!r}; leave out the"
                " pair."
            )
        difference = sums[1].astype(np.float64) - sums[0].astype(np.float64)
        self.distance = float(np.linalg.norm(difference))
        """Of the two clipped sums, in gradient units."""
        if not self.distance:
            raise InvalidArgumentError("sums must differ, got a distance of 0.")
        self._direction = difference / self.distance
        self._start = float(sums[0].astype(np.float64) @ self._direction)
        values = [torch.from_numpy(one) for one in sums]
        self.parts = TrainingParts(
            plan=plan,
            sampler=partial(_sampler, replace(spec, device="cpu"), plan.sampler.n_units),
            clipped_sum=partial(_either, values, plan.clip_norm),
        )

    def __call__(self, present: Array, *, seed: int) -> Array:
        """As a ``TrainingRun`` with one canary.

        Args:
            present: Whether the record is in the data.
            seed: Of all randomness.

        Returns:
            The noisy sums along the difference, in standard deviations, from the sum without it.
        """
        units = [_stand_in(_OTHERS)] + [_stand_in(_RECORD)] * bool(present[0])
        sums = noisy_sums(self.parts, units, n_params=len(self._direction), seed=seed)
        return (sums @ self._direction - self._start)[:, None] / self.parts.plan.noise_std


_OTHERS, _RECORD = "others", "record"


def _either(values: Sequence[Tensor], clip_norm: float, units: Units) -> ClippedSum:
    """The sum with the record if it was drawn, else the one without it."""
    value = values[any(records[0].id == _RECORD for records in units)]
    return ClippedSum(
        value=value,
        norms=torch.zeros(len(units), dtype=torch.float64),
        losses=torch.zeros(len(units)),
        clip_norm=clip_norm,
        n_clipped=0,
        n_non_finite=0,
    )


def _stand_in(name: str) -> tuple[TokenisedRecord]:
    """A unit that is nothing but a name."""
    return (TokenisedRecord(id=name, owner=name, tokens=(1, 1)),)


def _sampler(spec: TrainSpec, public: int, n_drawn_from: int, stream: Keystream) -> Sampler:
    """The run's sampler, at the run's rate."""
    return sampler_of(spec, n_drawn_from, public=public, stream=stream)


def _name(canary: int, present: bool) -> str:
    """A canary, or what replaces it."""
    return f"canary-{canary}" if present else f"replacement-{canary}"


@final
class _Coordinates(nn.Module):
    """A model that is nothing but its parameters."""

    def __init__(self, n_params: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(n_params))


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


@final
class _Witness(Optimiser):
    """Sees every gradient that the loop lets out, and changes nothing."""

    name = "witness"

    def __init__(self, parameters: Mapping[str, nn.Parameter]) -> None:
        super().__init__(parameters)
        self.seen: list[Array] = []

    def state(self) -> dict[str, Tensor]:
        """None."""
        return {}

    def _update(self, gradient: Tensor, learning_rate: float) -> None:
        self.seen.append(gradient.double().numpy())

    def _restore(self, state: dict[str, Tensor]) -> None:
        """Nothing to keep."""


@final
class _UnkeptLog:
    """Counts releases that nobody gets."""

    def __init__(self) -> None:
        self._n = 0

    @property
    def head(self) -> LogHead:
        """The number of the last release."""
        return LogHead(number=self._n)

    def append(self, **facts: Unpack[ReleaseFacts]) -> None:
        """Count one."""
        self._n += 1
