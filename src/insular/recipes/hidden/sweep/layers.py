"""What each layer of a sweep is before any release, as tasks."""

from collections.abc import Callable, Mapping
from pathlib import Path

from insular.evidence import ArrayRef
from insular.hidden.retrieval.prediction import feasibility_gain, squared_distance_for_top_1
from insular.recipes.hidden.bench import bench_of
from insular.recipes.hidden.spec import SweepSpec
from insular.recipes.hidden.sweep.results import LayerResult
from insular.recipes.parallel import Job, intra_op_threads
from insular.recipes.tasks import Output, Task

Report = Callable[[str], None]


def layer_tasks(spec: SweepSpec, states: Path) -> list[Task]:
    """One task a layer.

    Args:
        spec: The sweep.
        states: Folder of its states.

    Returns:
        The tasks.
    """
    return [
        Task(
            job=Job(name=f"layer-{layer}", work=run_layer, args=(spec, states, layer)),
            slug=f"layer-{layer}",
            kind=LayerResult,
            attach=without_arrays,
        )
        for layer in spec.layers
    ]


def run_layer(spec: SweepSpec, states: Path, layer: int, *, progress: Report) -> Output:
    """Measure a layer's geometry, and attack its states as they are, on one thread.

    Args:
        spec: The sweep.
        states: Folder of its states.
        layer: The layer.
        progress: Not needed.

    Returns:
        A :class:`LayerResult`.
    """
    import torch

    from insular.hidden.geometry.layer import measure_geometry
    from insular.hidden.retrieval.attackers import EuclideanAttacker
    from insular.hidden.retrieval.search import retrieve
    from insular.recipes.hidden.states import open_states

    del progress
    with intra_op_threads(1):
        extracted = open_states(states)
        arrays = extracted.layer(layer)
        here = bench_of(spec, states).at(layer)
        attacker = EuclideanAttacker(size=here.bank.shape[1])
        clean = retrieve(
            here.prepared(attacker, keep=False),
            here.bank[: spec.queries],
            torch.arange(spec.queries),
            release=None,
            significance=spec.significance,
        )
        geometry = measure_geometry(
            torch.tensor(arrays.fit),
            torch.tensor(arrays.gradients),
            rank=spec.rank,
            fisher_shrinkage=spec.shrinkage,
            seed=spec.seed,
        )
        hiding = squared_distance_for_top_1(spec.top1, n_candidates=len(here.bank))
        fisher, apart = here.random.fisher.trace(), here.random.differences.trace()
    (facts,) = (fact for fact in extracted.bank.facts if fact.layer == layer)
    return Output(
        result=LayerResult(
            layer=layer,
            facts=facts,
            gradients=tuple(
                summary
                for part in extracted.parts
                for summary in part.gradients
                if summary.layer == layer
            ),
            geometry=geometry,
            clean=(clean,),
            gain_needed=tuple(
                (
                    kl,
                    feasibility_gain(fisher, apart, budget_nats=kl, squared_distance=hiding),
                )
                for kl in spec.kl_nats
            ),
        )
    )


def without_arrays(result: object, refs: Mapping[str, ArrayRef]) -> object:
    """A result that has no arrays.

    Args:
        result: It.
        refs: None.

    Returns:
        The same.
    """
    del refs
    return result
