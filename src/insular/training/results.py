"""What private training executed and measured. Torch-free: an auditor reads it without a GPU."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, final

from insular.accounting import Event, NoiseSource

SamplerKind = Literal["poisson", "truncated_poisson", "shuffled", "full_batch"]


@final
@dataclass(frozen=True, kw_only=True)
class SamplerFacts:
    """How the units of a step were chosen. Public."""

    kind: SamplerKind
    """Which sampler ran."""
    n_units: int
    """Units to choose from; a public number."""
    sampling_prob: float | None = None
    """Probability with which each unit enters; None where the sampler has none."""
    max_batch_size: int | None = None
    """Units kept at most, for ``truncated_poisson``."""
    slots: int | None = None
    """Steps of one pass over the units, for ``shuffled``."""
    records_per_unit: int | None = None
    """Most records of one unit, where records are sampled and owners are protected; else None."""


@final
@dataclass(frozen=True, kw_only=True)
class ReleaseEntry:
    """One line of the executed log, on disk before its noisy sum is used. Private: it has counts.

    What the accountant reads. Nothing here is what was planned: each value comes from the object
    that acted.
    """

    number: int
    """1, 2, 3, ... over all starts of the run."""
    previous: str
    """SHA-256 of the line before; empty for the first."""
    start: int
    """1 for the first start of the run, one more for each resume."""
    step: int
    """Optimiser step that it is for, from 0. After a kill, the same step may be released again."""
    time_utc: datetime
    """When it was written."""
    sampler: SamplerFacts
    """Sampler that drew."""
    slot: int | None
    """Part of the pass, for ``shuffled``."""
    n_units: int
    """Units drawn."""
    n_records: int
    """Their records."""
    clip_norm: float
    """Bound C of one unit's contribution."""
    influence: float
    """Sensitivity over C under add/remove: 1 where records are isolated, 2m + 1 otherwise."""
    noise_std: float
    """Standard deviation of the noise added to each coordinate of the sum."""
    noise_rms: float
    """Root mean square of the noise vector that was drawn."""
    n_params: int
    """Coordinates of the sum."""
    divisor: float
    """What the noisy sum was divided by."""
    noise_source: NoiseSource
    """Generator of noise and draws."""


@final
@dataclass(frozen=True, kw_only=True)
class StepTelemetry:
    """What one step looked like inside. Private, and outside every guarantee: do not publish."""

    step: int
    """Optimiser step, from 0."""
    n_units: int
    """Units drawn."""
    loss_nats: float | None
    """Mean loss of the drawn records; None for an empty draw."""
    n_clipped: int
    """Units whose contribution was longer than C."""
    n_non_finite: int
    """Units whose gradient was not finite; each contributed zero."""
    median_norm: float | None
    """Median length of the units' contributions before clipping; None for an empty draw."""
    signal_norm: float
    """Length of the clipped sum."""
    noise_norm: float
    """Length of the noise vector."""
    learning_rate: float
    """Of this step."""
    seconds: float
    """Wall-clock time."""


@final
@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """What the run was to do, fixed before the first release. Public."""

    event: Event
    """Mechanism of the whole run as planned."""
    sampler: SamplerFacts
    """Sampler."""
    steps: int
    """Optimiser steps."""
    clip_norm: float
    """Bound C."""
    influence: float
    """Sensitivity over C under add/remove."""
    noise_multiplier: float
    """Noise standard deviation over C times ``influence``."""
    noise_std: float
    """Standard deviation of the noise on the sum."""
    divisor: float
    """Public divisor of the noisy sum."""
    noise_source: NoiseSource
    """Generator."""


@final
@dataclass(frozen=True, kw_only=True)
class ExecutedRun:
    """What the log says, and where it differs from the plan."""

    event: Event
    """Mechanism of the whole run, made of the log alone."""
    n_releases: int
    """Lines of the log: every noisy sum that may have been seen."""
    n_steps: int
    """Distinct optimiser steps among them."""
    n_starts: int
    """Starts of the run; more than 1 means that it was resumed."""
    n_empty: int
    """Releases of an empty draw: noise alone."""
    noise_rms_over_std: float
    """Measured size of all noise over its planned standard deviation; close to 1."""
    differences: tuple[str, ...]
    """Each way in which what ran was not what was planned; empty if none."""


@final
@dataclass(frozen=True, kw_only=True)
class Liveness:
    """Whether training happened: what moved, what got gradients, what was saved."""

    n_tensors: int
    """Trainable tensors."""
    unmoved: tuple[str, ...]
    """Tensors that are bit for bit what they were at the start."""
    without_gradient: tuple[str, ...]
    """Tensors for which no record ever had a gradient other than zero."""
    saved_differs: tuple[str, ...]
    """Tensors of the saved adapter that are not the trained ones."""

    @property
    def alive(self) -> bool:
        """Whether everything moved, had gradients and was saved."""
        return not (self.unmoved or self.without_gradient or self.saved_differs)
