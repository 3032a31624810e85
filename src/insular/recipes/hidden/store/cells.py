"""The indexes of a run as tasks: a mechanism is scaled once, and written through in each format."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from insular.recipes.hidden.bench import bench_of
from insular.recipes.hidden.spec import NO_MECHANISM
from insular.recipes.hidden.store.results import StoreCell, StoreCells
from insular.recipes.hidden.store.spec import HiddenStoreSpec
from insular.recipes.hidden.sweep.cells import Report
from insular.recipes.hidden.sweep.layers import without_arrays
from insular.recipes.parallel import Job, intra_op_threads
from insular.recipes.tasks import Output, Task

if TYPE_CHECKING:
    import torch

    from insular.hidden.mechanisms import Release

_NOISE = 1
"""Added to the seed of the scale: another stream for what is written."""


def text_tasks(spec: HiddenStoreSpec, states: Path) -> list[Task]:
    """One task for each layer, mechanism and target, with every storage format in it.

    Args:
        spec: The run.
        states: Folder of its states.

    Returns:
        The tasks; those of one layer follow each other.
    """
    return [
        _task(f"store-{layer}-{mechanism}-{kl or 0:.15g}", write_prompts, spec, states, layer,
              mechanism, kl)
        for layer in spec.layers
        for mechanism in spec.mechanisms
        for kl in (spec.kl_nats if mechanism != NO_MECHANISM else (None,))
    ]  # fmt: skip


def file_tasks(spec: HiddenStoreSpec) -> list[Task]:
    """Clean states of a file, and the same through a release.

    Args:
        spec: The run.

    Returns:
        One or two tasks.
    """
    names = ("store-clean", *(("store-release",) if spec.release else ()))
    return [_task(name, write_file, spec, name == "store-release") for name in names]


def write_prompts(
    spec: HiddenStoreSpec,
    states: Path,
    layer: int,
    mechanism: str,
    kl: float | None,
    *,
    progress: Report,
) -> Output:
    """Fit a mechanism, scale it, and write the bank through it in each format, on one thread.

    Args:
        spec: The run.
        states: Folder of its states.
        layer: The layer.
        mechanism: Its name, or ``none``.
        kl: Target of the measured KL; None for clean states.
        progress: Not needed.

    Returns:
        :class:`StoreCells`.
    """
    from insular.hidden.states.prompts import check_disjoint

    del progress

    def cell(status, storage, **found) -> StoreCell:  # noqa: ANN001, ANN003
        return StoreCell(
            layer=layer,
            mechanism=mechanism,
            storage=storage,
            status=status,
            target_kl_nats=kl,
            **found,
        )

    def missed(status, **found) -> Output:  # noqa: ANN001, ANN003
        return Output(result=StoreCells(cells=tuple(
            cell(status, storage, **found) for storage in spec.storages
        )))  # fmt: skip

    with intra_op_threads(1):
        bench = bench_of(spec.sweep, states)
        here = bench.at(layer)
        release, reached = None, None
        if kl is not None:
            # a document's other prompts may be in the index; what is attacked is of other ones
            check_disjoint(bench.seen_before, here.identities)
            scaled = bench.scaled(
                layer, mechanism, kl_nats=kl, judged_on=here.identities, seed=spec.seed
            )
            if scaled.release is None or scaled.search is None:
                return missed(scaled.status, reason=scaled.reason)
            release, reached = scaled.release, scaled.search.kl_nats
        return Output(
            result=StoreCells(
                cells=tuple(
                    cell("reached", storage, kl_nats=reached, **found)
                    for storage, found in _each_format(
                        spec, here.bank, release, identities=here.identities
                    )
                )
            )
        )


def write_file(spec: HiddenStoreSpec, through: bool, *, progress: Report) -> Output:
    """Write the states of a file in each format, on one thread.

    Args:
        spec: The run.
        through: Whether through its release.
        progress: Not needed.

    Returns:
        :class:`StoreCells`.
    """
    from insular.hidden.mechanisms import load_release
    from insular.recipes.hidden.store.states import read_matrix

    del progress
    with intra_op_threads(1):
        matrix = read_matrix(Path(spec.states))
        release = load_release(spec.release) if through else None
        return Output(
            result=StoreCells(
                cells=tuple(
                    StoreCell(
                        layer=None,
                        mechanism=NO_MECHANISM if release is None else release.mechanism.kind,
                        storage=storage,
                        status="reached",
                        **found,
                    )
                    for storage, found in _each_format(spec, matrix, release, identities=None)
                )
            )
        )


def _each_format(  # noqa: ANN202
    spec: HiddenStoreSpec,
    states: "torch.Tensor",
    release: "Release | None",
    *,
    identities: Sequence[str] | None,
):
    """What every storage format costs and tells, with the same noise."""
    from insular.hidden.store.measure import measure_store

    for storage in spec.storages:
        started = time.perf_counter()
        measured = measure_store(
            states,
            release=release,
            storage=storage,
            index=spec.index,
            queries=spec.queries,
            k=spec.k,
            identities=identities,
            seed=spec.seed + _NOISE,
            significance=spec.significance,
        )
        yield storage, {"measured": measured, "seconds": time.perf_counter() - started}


def _task(slug: str, work, *args) -> Task:  # noqa: ANN001, ANN002
    """One task."""
    return Task(
        job=Job(name=slug, work=work, args=args), slug=slug, kind=StoreCells, attach=without_arrays
    )
