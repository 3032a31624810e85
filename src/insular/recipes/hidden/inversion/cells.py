"""The cells of an inversion as tasks of a few prompts each."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from insular.hidden.inversion.results import InversionCell, PromptInversion
from insular.hidden.inversion.spec import InversionSpec
from insular.hidden.states.storage_spec import StorageFormat
from insular.hidden.utility.intervals import MeanInterval, mean_interval
from insular.recipes.hidden.inversion.bench import Bench, Shared, bench_of
from insular.recipes.hidden.inversion.release import ONE_MORE, ScaledRelease
from insular.recipes.hidden.inversion.spec import HiddenInversionSpec
from insular.recipes.hidden.sweep.layers import without_arrays
from insular.recipes.parallel import Job, intra_op_threads
from insular.recipes.tasks import Output, Task

if TYPE_CHECKING:
    from insular.hidden.inversion.search import InvertedPrompt
    from insular.recipes.hidden.inversion.prompts import Trajectory

Report = Callable[[str], None]

_MOST_PROMPTS = 5
_MOST_TOKENS = 256
"""Tokens of one task, about: what an interrupt loses."""


class CellKey(NamedTuple):
    """Which cell."""

    layer: int
    """The layer."""
    mechanism: str
    """Name of the mechanism."""
    storage: StorageFormat
    """How states are kept."""


@final
@dataclass(frozen=True, kw_only=True)
class PromptsRead:
    """A few prompts of one cell."""

    prompts: tuple[PromptInversion, ...]
    """In their order."""


def search_spec(spec: HiddenInversionSpec) -> InversionSpec:
    """How prompts are searched.

    Args:
        spec: The run.

    Returns:
        That part of it.
    """
    return InversionSpec(prior=spec.prior, beam=spec.beam, max_candidates=spec.max_candidates)


def prompt_starts(spec: HiddenInversionSpec, n_prompts: int) -> tuple[int, ...]:
    """Where each task of a cell starts: it does not depend on who works on it.

    Args:
        spec: The run.
        n_prompts: Prompts of a cell.

    Returns:
        Places of prompts, from 0.
    """
    size = max(1, min(_MOST_PROMPTS, _MOST_TOKENS // spec.tokens))
    return tuple(range(0, n_prompts, size))


def prompt_tasks(
    shared: Shared, cell: CellKey, starts: Sequence[int], n_prompts: int
) -> list[Task]:
    """The prompts of a cell, a few in each task.

    Args:
        shared: The inversion.
        cell: A cell with a release, or without any.
        starts: Where each task starts.
        n_prompts: Prompts of the cell.

    Returns:
        The tasks.
    """
    return [_task(shared, cell, *ends) for ends in pairwise((*starts, n_prompts))]


def _task(shared: Shared, cell: CellKey, start: int, stop: int) -> Task:
    """Some prompts of one cell."""
    slug = f"prompts-{cell.layer}-{cell.mechanism}-{cell.storage}-{start}"
    return Task(
        job=Job(name=slug, work=run_prompts, args=(shared, cell, start, stop)),
        slug=slug,
        kind=PromptsRead,
        attach=without_arrays,
    )


def run_prompts(
    shared: Shared, cell: CellKey, start: int, stop: int, *, progress: Report
) -> Output:
    """Release, store and invert some prompts, on one thread.

    Guarantees:
        * A prompt's noise follows from the seed and its place alone.

    Args:
        shared: The inversion.
        cell: The cell.
        start: Place of the first prompt.
        stop: Place after the last one.
        progress: Told of each prompt.

    Returns:
        A :class:`PromptsRead`.
    """
    found = []
    with intra_op_threads(1):
        bench = bench_of(shared)
        for at in range(start, stop):
            found.append(_inverted(bench, cell, at))
            progress(ONE_MORE)
    return Output(result=PromptsRead(prompts=tuple(found)))


def _inverted(bench: Bench, cell: CellKey, at: int) -> PromptInversion:
    """One prompt."""
    from insular.hidden.inversion.search import invert_states

    one = bench.inputs.trajectories[at]
    inverted = invert_states(
        bench.split,
        bench.view(*cell, at),
        ranking=bench.ranking(*cell),
        spec=search_spec(bench.spec),
        truth=one.truth,
    )
    return _written(bench, one, inverted)


def _written(bench: Bench, one: "Trajectory", inverted: "InvertedPrompt") -> PromptInversion:
    """What is written of one prompt."""
    tokens, shown = bench.decoder.tokenizer, bench.spec.show_text
    correct = None
    if one.truth is not None:
        correct = tuple(a == b for a, b in zip(inverted.tokens, one.truth, strict=True))
    return PromptInversion(
        record_id=one.id,
        statuses=inverted.statuses,
        correct=correct,
        true_ranks=inverted.ranks,
        tried=inverted.tried,
        opened=inverted.opened,
        seconds=inverted.seconds,
        recovered_text=tokens.decode(list(inverted.tokens)) if shown and tokens else None,
        true_text=tokens.decode(list(one.truth)) if shown and tokens and one.truth else None,
    )


def judge_cell(
    spec: HiddenInversionSpec,
    cell: CellKey,
    release: ScaledRelease,
    prompts: Sequence[PromptInversion],
    *,
    rounding: float,
) -> InversionCell:
    """Counts and intervals of one cell.

    Args:
        spec: The run.
        cell: Which.
        release: What its states went through.
        prompts: All of its prompts; none if there is no such release.
        rounding: Of the model's own arithmetic at the layer.

    Returns:
        The cell.
    """
    known = [one for one in prompts if one.correct]
    ranks = [rank for one in prompts for rank in one.true_ranks if rank is not None]
    tried = [n for one in prompts for n in one.tried]
    seconds = [one.seconds / max(one.n_tokens, 1) for one in prompts]
    return InversionCell(
        layer=cell.layer,
        mechanism=release.mechanism,
        storage=cell.storage,
        every=spec.every,
        status=release.status,
        reason=release.reason,
        scale=release.scale,
        kl=release.kl,
        budget_nats=release.budget_nats,
        rounding=rounding,
        prompts=tuple(prompts),
        exact_match=_interval([float(one.exact or False) for one in known], spec, exact=True),
        token_accuracy=_interval([one.tokens_right for one in known], spec, exact=False),
        ranked_first=sum(rank == 1 for rank in ranks) / len(ranks) if ranks else None,
        candidates_per_token=sum(tried) / max(len(tried), 1),
        seconds_per_token=statistics.median(seconds) if seconds else 0.0,
    )


def _interval(
    values: Sequence[float], spec: HiddenInversionSpec, *, exact: bool
) -> MeanInterval | None:
    """A mean over prompts; None for fewer than two."""
    if len(values) < 2:
        return None
    return mean_interval(
        np.array(values),
        significance=spec.significance,
        method="binomial" if exact else "bootstrap",
        seed=spec.seed,
    )
