"""A training run repeated on two fixed neighbouring batches, where coupled arithmetic shows."""

from collections.abc import Sequence
from functools import partial
from typing import final

import numpy as np
import torch
from torch import Tensor

from insular.errors import InvalidArgumentError
from insular.recipes.attack.training.repeat import TrainingParts, noisy_sums, sampler_like
from insular.recipes.train.spec import TrainSpec
from insular.records import TokenisedRecord
from insular.training.batching import Units
from insular.training.contributions import ClippedSum
from insular.training.results import PlannedRun

FULL_VECTOR = 16_384
"""Sums of more coordinates get noise along their difference alone. Independent noise of one size on
every coordinate has the same law along any direction, and the rest tells nothing."""
_OTHERS, _RECORD = "others", "record"

Array = np.ndarray


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
        if len(difference) > FULL_VECTOR:
            sums = (np.zeros(1, np.float32), np.array([self.distance], np.float32))
            difference = sums[1].astype(np.float64)
        self.n_params = len(difference)
        """Coordinates that get noise."""
        self._direction = difference / float(np.linalg.norm(difference))
        self._start = float(sums[0].astype(np.float64) @ self._direction)
        values = [torch.from_numpy(one) for one in sums]
        self.parts = TrainingParts(
            plan=plan,
            sampler=sampler_like(spec, plan),
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
