"""What a layer's states are made of, as tasks: parts, transplants, and the states' rounding."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from insular.hidden.states.numerics_results import NumericsResult
from insular.recipes.hidden.bench import bench_of
from insular.recipes.hidden.geometry.components_results import ComponentsResult
from insular.recipes.hidden.spec import SweepSpec
from insular.recipes.hidden.sweep.layers import without_arrays
from insular.recipes.parallel import Job, intra_op_threads
from insular.recipes.tasks import Output, Task
from insular.records import TokenisedRecord

if TYPE_CHECKING:
    import torch

Report = Callable[[str], None]

N_CERTIFIED = 8
"""Calibration prompts whose states are computed in several ways."""
N_NEAREST = 200
"""Queries whose nearest candidate is looked up."""
PADDING_TOKENS = 16
"""Padding added to a prompt alone, where the context has room for it."""
COPIED_PARAMS = 1_000_000_000
"""A larger model is not copied into bfloat16: the copy needs the model's memory again."""


def component_tasks(spec: SweepSpec, states: Path) -> list[Task]:
    """One task a layer.

    Args:
        spec: The settings of a sweep.
        states: Folder of its states.

    Returns:
        The tasks, in the order of the layers.
    """
    return [
        Task(
            job=Job(name=f"components-{layer}", work=run_components, args=(spec, states, layer)),
            slug=f"components-{layer}",
            kind=ComponentsResult,
            attach=without_arrays,
        )
        for layer in spec.layers
    ]


def numerics_task(spec: SweepSpec, states: Path) -> Task:
    """The certificate of all layers: one forward gives the states of each.

    Args:
        spec: The settings of a sweep.
        states: Folder of its states.

    Returns:
        The task.
    """
    return Task(
        job=Job(name="numerics", work=run_numerics, args=(spec, states)),
        slug="numerics",
        kind=NumericsResult,
        attach=without_arrays,
    )


def run_components(spec: SweepSpec, states: Path, layer: int, *, progress: Report) -> Output:
    """Take a layer's calibration states apart, on one thread.

    The basis holds the top ``rank`` eigenvectors of the Fisher matrix of the fitting prompts, so no
    prompt that it is tried on shaped it.

    Args:
        spec: The settings of a sweep.
        states: Folder of its states.
        layer: The layer.
        progress: Not needed.

    Returns:
        A :class:`ComponentsResult`.
    """
    import torch

    from insular.hidden.utility.projections import measure_projections, measure_transplants

    del progress
    with intra_op_threads(1), torch.no_grad():
        bench = bench_of(spec, states)
        here = bench.at(layer)
        basis = here.random.fisher.top(spec.rank)
        uncentred, centred = (
            measure_projections(
                bench.split,
                bench.calibration,
                basis,
                layer=layer,
                centre=centre,
                seed=spec.seed,
                significance=spec.significance,
            )
            for centre in (None, here.random.mean)
        )
        transplants = measure_transplants(
            bench.split,
            bench.calibration,
            basis,
            layer=layer,
            seed=spec.seed,
            significance=spec.significance,
        )
        nearest = nearest_distances(here.bank, n_queries=min(spec.queries, N_NEAREST))
    return Output(
        result=ComponentsResult(
            layer=layer,
            uncentred=uncentred,
            centred=centred,
            transplants=transplants,
            nearest_relative=float(nearest.min()),
            nearest_median_relative=float(nearest.median()),
            n_nearest=len(nearest),
        )
    )


def run_numerics(spec: SweepSpec, states: Path, *, progress: Report) -> Output:
    """Compute the states of a few calibration prompts in several ways, on one thread.

    Args:
        spec: The settings of a sweep.
        states: Folder of its states.
        progress: Not needed.

    Returns:
        A :class:`insular.hidden.states.numerics_results.NumericsResult`.
    """
    from insular.hidden.states.numerics import certify_numerics

    del progress
    with intra_op_threads(1):
        bench = bench_of(spec, states)
        decoder, records = bench.decoder, certified_prompts(bench.prompts.calibration)
        room = decoder.context_tokens - max(len(one.tokens) for one in records)
        n_params = sum(param.numel() for param in decoder.model.parameters())
        found = certify_numerics(
            bench.split,
            records,
            layers=spec.layers,
            pad_token_id=decoder.pad_token_id,
            extra_padding_tokens=max(1, min(PADDING_TOKENS, room)),
            bfloat16=spec.dtype != "bfloat16" and n_params <= COPIED_PARAMS,
        )
    return Output(result=found)


def certified_prompts(records: Sequence[TokenisedRecord]) -> list[TokenisedRecord]:
    """Prompts from the shortest to the longest, so that a batch of them needs padding.

    Args:
        records: Prompts with the token that follows each; at least two.

    Returns:
        At most :data:`N_CERTIFIED` of them, evenly spaced by length, without that token.
    """
    ordered = sorted(records, key=lambda one: (len(one.tokens), one.id))
    n = min(len(ordered), N_CERTIFIED)
    places = (round(i * (len(ordered) - 1) / (n - 1)) for i in range(n))
    return [replace(ordered[place], tokens=ordered[place].tokens[:-1]) for place in places]


def nearest_distances(bank: "torch.Tensor", *, n_queries: int) -> "torch.Tensor":
    """Distance of each query's state to the nearest other one, over the longer one's length.

    Args:
        bank: One state a row; the queries come first.
        n_queries: How many they are.

    Returns:
        One number a query.
    """
    import torch

    queries, lengths = bank[:n_queries], bank.norm(dim=1)
    # by differences: products lose small distances where massive coordinates make states long
    apart = torch.cdist(queries, bank, compute_mode="donot_use_mm_for_euclid_dist")
    apart /= torch.maximum(lengths[:n_queries, None], lengths[None])
    apart.fill_diagonal_(torch.inf)
    return apart.min(1).values
