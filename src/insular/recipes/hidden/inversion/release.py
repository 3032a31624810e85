"""The mechanisms of an inversion as tasks: fit, scale to the measured KL, keep as a file."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, final

from insular.errors import InvalidArgumentError
from insular.evidence import ArrayRef, RunStore
from insular.hidden.inversion.results import InversionStatus
from insular.hidden.utility.intervals import MeanInterval
from insular.recipes.hidden.inversion.bench import Bench, Shared, bench_of
from insular.recipes.hidden.spec import NO_MECHANISM
from insular.recipes.parallel import Job, intra_op_threads
from insular.recipes.tasks import Output, Task

if TYPE_CHECKING:
    from insular.hidden.utility.calibration_results import CalibrationResult

Report = Callable[[str], None]

ONE_MORE = "one more"
"""What a task says of each piece that it has done."""
_TOLERANCE = 0.05


@final
@dataclass(frozen=True, kw_only=True)
class ScaledRelease:
    """What became of one mechanism at one layer."""

    layer: int
    """The layer."""
    mechanism: str
    """Its name."""
    status: InversionStatus
    """Whether it has a release at the measured KL; if so, that is a file of the run."""
    reason: str = ""
    """Why it was not fitted."""
    scale: float | None = None
    """Noise over that of the nominal budget."""
    kl: MeanInterval | None = None
    """Measured KL there, in nats, over the calibration prompts."""
    budget_nats: float | None = None
    """First-order budget at that scale."""


def release_tasks(shared: Shared, store: RunStore) -> list[Task]:
    """Every mechanism at every layer; those of one layer follow each other.

    Args:
        shared: The inversion.
        store: Its run, which lists the files of the releases.

    Returns:
        The tasks.
    """
    return [
        Task(
            job=Job(
                name=f"release-{layer}-{mechanism}",
                work=run_release,
                args=(shared, layer, mechanism),
            ),
            slug=f"release-{layer}-{mechanism}",
            kind=ScaledRelease,
            attach=partial(_adopted, shared, store),
        )
        for layer in shared.spec.layers
        for mechanism in shared.spec.chosen
        if mechanism != NO_MECHANISM
    ]


def run_release(shared: Shared, layer: int, mechanism: str, *, progress: Report) -> Output:
    """Fit one mechanism, scale it to the measured KL and save it, on one thread.

    Args:
        shared: The inversion.
        layer: The layer.
        mechanism: Its name.
        progress: Told when it is done.

    Returns:
        A :class:`ScaledRelease`.
    """
    with intra_op_threads(1):
        found = _scaled(bench_of(shared), layer, mechanism)
    progress(ONE_MORE)
    return Output(result=found)


def _scaled(bench: Bench, layer: int, mechanism: str) -> ScaledRelease:
    """Fit, scale, save; a mechanism without such a release says why."""
    from insular.hidden.mechanisms import save_release
    from insular.hidden.states.prompts import prompt_digest
    from insular.hidden.utility.calibration import calibrate_scale
    from insular.recipes.hidden.mechanisms import NEAR, mechanism_named
    from insular.recipes.hidden.spec import SweepSpec

    spec = bench.spec
    geometry = bench.geometry(layer, near=mechanism in NEAR)
    try:
        kind = mechanism_named(mechanism, SweepSpec(rank=spec.rank))
        nominal = kind.fit(geometry, budget_nats=spec.kl_nats)
    except InvalidArgumentError as error:
        return ScaledRelease(
            layer=layer, mechanism=mechanism, status="not fitted", reason=str(error)
        )
    found = calibrate_scale(
        bench.split,
        bench.scaled_on(layer),
        layer=layer,
        sampler=nominal,
        target_kl_nats=spec.kl_nats,
        evaluation_digests=[prompt_digest(one.truth or ()) for one in bench.inputs.trajectories],
        seed=spec.seed,
        tolerance=_TOLERANCE,
    )
    if found.scale is None:
        return ScaledRelease(layer=layer, mechanism=mechanism, status=found.status)
    release = nominal.scaled(found.scale**2)
    save_release(release, bench.shared.release_path(layer, mechanism))
    return ScaledRelease(
        layer=layer,
        mechanism=mechanism,
        status="reached",
        scale=found.scale,
        kl=_interval(found, significance=spec.significance),
        budget_nats=release.budget_nats,
    )


def _interval(found: "CalibrationResult", *, significance: float) -> MeanInterval:
    """The measured KL with its error over prompts and draws."""
    from scipy.special import ndtri

    assert found.kl_nats is not None and found.kl_standard_error_nats is not None
    error = found.kl_standard_error_nats if math.isfinite(found.kl_standard_error_nats) else 0.0
    reach = float(ndtri(1 - significance / 2)) * error
    return MeanInterval(
        mean=found.kl_nats,
        low=max(0.0, found.kl_nats - reach),
        high=found.kl_nats + reach,
        standard_error=error,
        n=found.n_prompts,
        significance=significance,
        method="normal",
    )


def _adopted(
    shared: Shared, store: RunStore, result: ScaledRelease, refs: Mapping[str, ArrayRef]
) -> ScaledRelease:
    """List the file of a release in the manifest, before its result."""
    del refs
    if result.status == "reached":
        store.adopt(shared.release_path(result.layer, result.mechanism).name)
    return result
