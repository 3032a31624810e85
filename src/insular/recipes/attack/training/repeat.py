"""One more start of a training run, on data of choice: its own loop, with a witness for optimiser.

No model is run: what is repeated is everything after the per-record gradients.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Unpack, final

import numpy as np
import torch
from torch import Tensor, nn

from insular.mechanisms.keystream import Keystream, SeededStream
from insular.recipes.train.session import sampler_of
from insular.recipes.train.spec import TrainSpec
from insular.training.batching import Units
from insular.training.contributions import ClippedSum
from insular.training.executed_log import LogHead, ReleaseFacts
from insular.training.liveness import LivenessWatch
from insular.training.loop import PrivateLoop
from insular.training.noise import GaussianNoise
from insular.training.optimisers import Optimiser
from insular.training.results import PlannedRun
from insular.training.sampling import Sampler

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
    model, stream = Coordinates(n_params), SeededStream(seed)
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


def sampler_like(spec: TrainSpec, plan: PlannedRun) -> Callable[[int, Keystream], Sampler]:
    """The run's sampler at the run's rate, for other numbers of units.

    Args:
        spec: The run.
        plan: What it did.

    Returns:
        A function of the units that there are, and a stream.
    """
    public = plan.sampler.n_units

    def sampler(n_drawn_from: int, stream: Keystream) -> Sampler:
        return sampler_of(spec, n_drawn_from, public=public, stream=stream)

    return sampler


@final
class Coordinates(nn.Module):
    """A model that is nothing but its parameters."""

    def __init__(self, n_params: int) -> None:
        """So many coordinates."""
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(n_params))


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
