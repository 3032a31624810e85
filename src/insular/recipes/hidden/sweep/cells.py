"""The cells of a sweep as tasks: fit, scale to a measured KL, measure the use, attack."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from insular.recipes.hidden.bench import Bench, bench_of
from insular.recipes.hidden.spec import SweepSpec
from insular.recipes.hidden.sweep.layers import without_arrays
from insular.recipes.hidden.sweep.results import SweepCell
from insular.recipes.parallel import Job, intra_op_threads
from insular.recipes.tasks import Output, Task

if TYPE_CHECKING:
    from insular.hidden.mechanisms import Release
    from insular.hidden.retrieval.results import RetrievalResult

Report = Callable[[str], None]

N_FORETOLD = 200
"""Queries whose distances to all candidates foretell retrieval."""


def cell_tasks(spec: SweepSpec, states: Path) -> list[Task]:
    """Every cell of a sweep; those of one layer and mechanism follow each other.

    Args:
        spec: The sweep.
        states: Folder of its states.

    Returns:
        The tasks.
    """
    return [
        _task(spec, states, layer=layer, mechanism=mechanism, kl=kl, repeat=repeat)
        for layer in spec.layers
        for mechanism in spec.chosen
        for kl in spec.kl_nats
        for repeat in range(spec.repeats)
    ]


def _task(
    spec: SweepSpec, states: Path, *, layer: int, mechanism: str, kl: float, repeat: int
) -> Task:
    """One cell."""
    slug = f"cell-{layer}-{mechanism}-{kl:.15g}-{repeat}"
    return Task(
        job=Job(name=slug, work=run_cell, args=(spec, states, layer, mechanism, kl, repeat)),
        slug=slug,
        kind=SweepCell,
        attach=without_arrays,
    )


def run_cell(
    spec: SweepSpec,
    states: Path,
    layer: int,
    mechanism: str,
    kl: float,
    repeat: int,
    *,
    progress: Report,
) -> Output:
    """Scale one mechanism to one measured KL and attack it, on one thread.

    Args:
        spec: The sweep.
        states: Folder of its states.
        layer: The layer.
        mechanism: Name of the mechanism.
        kl: Target of the measured KL, in nats.
        repeat: Seed of the noise, from 0.
        progress: Not needed: a cell takes seconds.

    Returns:
        A :class:`SweepCell`.
    """
    del progress
    started = time.perf_counter()
    with intra_op_threads(1):
        bench = bench_of(spec, states)
        cell = _cell(bench, layer=layer, mechanism=mechanism, kl=kl, repeat=repeat)
    return Output(result=replace(cell, seconds=time.perf_counter() - started))


def _cell(bench: Bench, *, layer: int, mechanism: str, kl: float, repeat: int) -> SweepCell:
    """Fit, scale, measure, attack."""
    from insular.hidden.utility.measure import measure_utility

    def cell(status, **found) -> SweepCell:  # noqa: ANN001, ANN003
        return SweepCell(
            layer=layer,
            mechanism=mechanism,
            target_kl_nats=kl,
            repeat=repeat,
            status=status,
            **found,
        )

    seed = bench.spec.seed + 3 * repeat  # three streams a cell
    scaled = bench.scaled(
        layer, mechanism, kl_nats=kl, judged_on=bench.evaluation.digests, seed=seed
    )
    nominal, search, release = scaled.nominal, scaled.search, scaled.release
    if nominal is None or search is None:
        return cell(scaled.status, gaussian=False, reason=scaled.reason)
    if release is None or search.scale is None:
        return cell(scaled.status, gaussian=nominal.gaussian)
    utility = measure_utility(
        bench.split,
        bench.evaluation,
        layer=layer,
        sampler=nominal,
        scale=search.scale,
        seed=seed + 1,
        calibrated_on=bench.seen_before,
        significance=bench.spec.significance,
    )
    return cell(
        "reached",
        gaussian=release.gaussian,
        scale=search.scale,
        scale_error=search.scale_relative_error,
        calibrated_kl_nats=search.kl_nats,
        utility=utility,
        attacks=attacks_on(bench, layer, release, seed=seed + 2),
        **_foretold(bench, layer, release),
    )


def attacks_on(
    bench: Bench, layer: int, release: "Release", *, seed: int
) -> "tuple[RetrievalResult, ...]":
    """Release the queries once and let every attacker search.

    Guarantees:
        * A query that shaped or scaled a release is refused.

    Args:
        bench: The sweep.
        layer: The layer.
        release: The mechanism at its scale.
        seed: Of the noise.

    Returns:
        What each attacker found: plain, within the subspace that the model reads, aware.

    Raises:
        InvalidArgumentError: If a query did.
    """
    import torch

    from insular.hidden.retrieval.attackers import (
        AwareAttacker,
        EuclideanAttacker,
        SubspaceAttacker,
    )
    from insular.hidden.retrieval.search import retrieve
    from insular.hidden.states.prompts import check_disjoint

    here, n = bench.at(layer), bench.spec.queries
    check_disjoint(bench.seen_before, here.identities[:n])
    generator = torch.Generator().manual_seed(seed)
    released = release.sample(here.bank[:n], generator=generator)
    attackers = (
        EuclideanAttacker(size=here.bank.shape[1]),
        SubspaceAttacker(basis=here.random.fisher.top(bench.spec.rank)),
        AwareAttacker(release=release),
    )
    return tuple(
        retrieve(
            here.prepared(attacker, keep=not isinstance(attacker, AwareAttacker)),
            released,
            torch.arange(n),
            release=release,
            significance=bench.spec.significance,
        )
        for attacker in attackers
    )


def _foretold(bench: Bench, layer: int, release: "Release") -> dict[str, float]:
    """What distances between clean states say of retrieval and of epsilon; empty without noise."""
    from insular.hidden.mechanisms import GaussianRelease
    from insular.hidden.mechanisms.distance_epsilon import exact_epsilon
    from insular.hidden.retrieval.forecast import forecast_top_1, query_distances

    if not isinstance(release, GaussianRelease):
        return {}
    if release.covariance.rank < release.hidden_size:
        return {"predicted_top1": 1.0}
    apart = query_distances(
        release, bench.at(layer).bank, n_queries=min(N_FORETOLD, bench.spec.queries)
    )
    typical = float(apart[~apart.isinf()].median())
    near = float(apart.min(1).values.median())
    delta = bench.spec.delta
    return {
        "predicted_top1": forecast_top_1(apart),
        "distance": typical,
        "near_distance": near,
        "epsilon": exact_epsilon(typical**2, delta=delta),
        "near_epsilon": exact_epsilon(near**2, delta=delta),
    }
