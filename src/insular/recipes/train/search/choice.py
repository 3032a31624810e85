"""Which run of a search is kept, and what stays of the others."""

import math
import shutil
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from insular.accounting import ComposedEvent, Event, spend
from insular.recipes.train.isolation import FOLDER as AUDIT
from insular.recipes.train.results import Artifact, TrainResult
from insular.recipes.train.run import ADAPTER, LOG
from insular.recipes.train.search.plan import PlannedSearch
from insular.recipes.train.search.results import SearchDraws, SearchResult, SearchRun
from insular.recipes.train.search.spec import Candidate
from insular.recipes.train.spec import TrainSpec

LOGS = "logs"
"""Folder of the logs that stay."""


def choose(
    train: TrainSpec,
    out: Path,
    *,
    folders: Sequence[Path],
    planned: PlannedSearch,
    listed: tuple[Candidate, ...],
    draws: SearchDraws,
    results: Sequence[TrainResult],
) -> SearchResult:
    """Choose by public loss, and copy that adapter, its audit and all logs out of the runs.

    Guarantees:
        * Where any run was not what was planned, none is chosen.

    Args:
        train: What all runs share.
        out: Folder of the search.
        folders: Folder of each run.
        planned: What the search was planned to cost.
        listed: The public list.
        draws: Which of it each run took.
        results: What each run gave.

    Returns:
        The result, without a ledger.
    """
    kept = [
        _kept(out, folder, number, listed[choice], result, planned)
        for number, (folder, choice, result) in enumerate(
            zip(folders, draws.choices, results, strict=True), start=1
        )
    ]
    winner = best_of([run.score_nats for run in kept])
    if any(run.differences for run in kept):
        winner = None
    artifacts: tuple[Artifact, ...] = ()
    if winner is not None:
        artifacts = results[winner].artifacts
        for part in (ADAPTER, AUDIT):
            shutil.rmtree(out / part, ignore_errors=True)
            shutil.copytree(folders[winner] / part, out / part)
    plan = planned.plan
    made: Event = ComposedEvent(events=tuple(result.executed.event for result in results))
    base = next((result.utility.before_nats for result in results if result.utility), None)
    return SearchResult(
        target_epsilon=train.epsilon or None,
        delta=plan.delta,
        delta_reason=plan.delta_reason,
        noise_multiplier=plan.run.noise_multiplier,
        event=planned.event,
        cost=planned.cost,
        one_run=spend(planned.event.event, delta=plan.delta),
        all_runs=spend(made, delta=plan.delta) if results else None,
        candidates=listed,
        base_nats=base,
        scored_on=train.validation,
        runs=tuple(kept),
        winner=winner,
        n_deleted=len(results) - (winner is not None),
        artifacts=artifacts,
        ledger=None,
    )


def best_of(scores: Sequence[float]) -> int | None:
    """The run that is kept.

    Args:
        scores: Public loss of each run.

    Returns:
        Position of the least one, the first of equals; None if there is no finite one.
    """
    finite = [(score, place) for place, score in enumerate(scores) if math.isfinite(score)]
    return min(finite)[1] if finite else None


def _kept(
    out: Path,
    folder: Path,
    number: int,
    one: Candidate,
    result: TrainResult,
    planned: PlannedSearch,
) -> SearchRun:
    """What stays of a run: its log and its score."""
    log = Path(LOGS) / f"{number:03d}.jsonl"
    (out / LOGS).mkdir(exist_ok=True)
    shutil.copyfile(folder / LOG, out / log)
    differences = list(result.executed.differences)
    if result.planned.event != planned.event.event:
        differences.append("its mechanism is not the one that the search was planned with.")
    if not result.liveness.alive:
        differences.append("not every tensor learnt.")
    score = result.utility.after_nats if result.utility else math.inf
    return SearchRun(
        settings=one,
        score_nats=score if math.isfinite(score) else math.inf,
        n_releases=result.executed.n_releases,
        log_file=str(log),
        log_sha256=sha256((out / log).read_bytes()).hexdigest(),
        differences=tuple(differences),
    )
