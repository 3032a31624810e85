"""The private training loop: draw, gradients, clip, sum, noise, log, step. Each part is an object.

draw      who is in this step                          sampling
sum       per-record gradients, clipped and added      contributions
noise     drawn once for the whole logical batch       noise
log       on disk before the noisy sum is used         executed_log
step      noisy sum over a public divisor              optimisers
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, Unpack, final, runtime_checkable

import torch
from torch import nn

from insular.training.batching import Units
from insular.training.contributions import ClippedSum
from insular.training.executed_log import LogHead, ReleaseFacts
from insular.training.liveness import LivenessWatch
from insular.training.noise import GaussianNoise
from insular.training.optimisers import Optimiser
from insular.training.results import PlannedRun, StepTelemetry
from insular.training.sampling import Sampler


@runtime_checkable
class ReleaseLog(Protocol):
    """Where each release is noted before it is used: ``ExecutedLog``, for whatever leaves."""

    @property
    def head(self) -> LogHead:
        """The last line."""
        ...

    def append(self, **facts: Unpack[ReleaseFacts]) -> object:
        """Note a release, before it happens."""
        ...


@final
@dataclass(frozen=True, kw_only=True)
class PrivateLoop:
    """One private training run, as the objects that it is made of.

    Guarantees:
        * Each release is on disk, in the log, before its noisy sum reaches the parameters.
        * An empty draw takes a noisy step like any other.
        * The sum is divided by the plan's public divisor, never by what was drawn.
        * The number of releases over all starts never exceeds the planned steps: a run that was
          killed in the middle of a step ends with fewer steps, not with more spent.
    """

    model: nn.Module
    """Trainable parameters beside frozen layers."""
    units: Units
    """What a draw's numbers stand for."""
    plan: PlannedRun
    """Clip norm, noise, divisor, steps."""
    sampler: Sampler
    """Who is in a step."""
    clipped_sum: Callable[[Units], ClippedSum]
    """Per-record gradients of the drawn units, clipped and added."""
    noise: GaussianNoise
    """What hides one unit."""
    optimiser: Optimiser
    """What a gradient does to the parameters."""
    learning_rate: Callable[[int], float]
    """Of each step."""
    watch: LivenessWatch
    """Whether every tensor learns."""
    log: ReleaseLog
    """What ran."""
    start: int = 1
    """Number of this start of the run."""

    def run(self, first_step: int = 0) -> Iterator[StepTelemetry]:
        """Take the steps that are left.

        Args:
            first_step: The step to begin with.

        Yields:
            After each step, what it looked like inside: private.
        """
        step = first_step
        while step < self.plan.steps and self.log.head.number < self.plan.steps:
            began = time.perf_counter()
            draw = self.sampler.draw(step, start=self.start)
            drawn = [self.units[number] for number in draw.units]
            found = self.clipped_sum(drawn)
            self.watch.saw(found.value, n_units=len(drawn))
            noise = self.noise.draw(
                found.value.numel(), noise_std=self.plan.noise_std, step=step, start=self.start
            )
            self.log.append(
                start=self.start,
                step=step,
                sampler=self.sampler.facts,
                slot=draw.slot,
                n_units=len(drawn),
                n_records=sum(map(len, drawn)),
                clip_norm=found.clip_norm,
                influence=self.plan.influence,
                noise_std=noise.std,
                noise_rms=noise.rms,
                n_params=found.value.numel(),
                divisor=self.plan.divisor,
                noise_source=self.noise.source,
            )
            gradient = self.noise.add(found.value, noise) / self.plan.divisor
            rate = self.learning_rate(step)
            self.optimiser.step(gradient, learning_rate=rate)
            yield _telemetry(step, found, noise_rms=noise.rms, rate=rate, began=began)
            step += 1


def _telemetry(
    step: int, found: ClippedSum, *, noise_rms: float, rate: float, began: float
) -> StepTelemetry:
    """What one step looked like inside."""
    norms = found.norms[torch.isfinite(found.norms)]
    return StepTelemetry(
        step=step,
        n_units=found.n_units,
        loss_nats=float(found.losses.double().mean()) if len(found.losses) else None,
        n_clipped=found.n_clipped,
        n_non_finite=found.n_non_finite,
        median_norm=float(norms.median()) if len(norms) else None,
        signal_norm=float(torch.linalg.vector_norm(found.value, dtype=torch.float64)),
        noise_norm=noise_rms * found.value.numel() ** 0.5,
        learning_rate=rate,
        seconds=time.perf_counter() - began,
    )
