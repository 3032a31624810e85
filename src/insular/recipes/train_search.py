"""Private hyperparameter search: a random number of runs, of which the best one alone leaves."""

import math
import shutil
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from insular.accounting import ComposedEvent, Event, spend
from insular.errors import EvidenceError, InvalidArgumentError
from insular.evidence import RunStore, from_toml, to_toml
from insular.mechanisms.keystream import SecureStream, SeededStream
from insular.recipes.inputs import Progress, silent
from insular.recipes.run_folder import PAGE, RESULT, SPEC_FILE, begin_run, run_status
from insular.recipes.train import ADAPTER, LOG, train_privately
from insular.recipes.train_budget import Reservation
from insular.recipes.train_results import Artifact, TrainResult
from insular.recipes.train_search_draws import RunCount, draw_choices
from insular.recipes.train_search_plan import PlannedSearch, plan_search
from insular.recipes.train_search_results import SearchDraws, SearchResult, SearchRun
from insular.recipes.train_search_spec import (
    Candidate,
    SearchSpec,
    candidates,
    check_searchable,
    run_spec,
)
from insular.recipes.train_spec import TrainSpec

KIND = "train.search"
SEARCH_FILE = "search.toml"
DRAWS = "draws"
RUNS = "runs"
LOGS = "logs"


def search_privately(
    train: TrainSpec,
    search: SearchSpec,
    out: Path,
    *,
    command: Sequence[str],
    resume: bool = False,
    progress: Progress | None = None,
) -> SearchResult:
    """Train a random number of times with settings from a public list, and keep the best adapter.

    Guarantees:
        * The number of runs and the settings are drawn before the first run, from a stream that
          no data reaches.
        * Only the loss on public text enters the choice.
        * ``train.epsilon`` is the cost of the whole search; the ledger is asked for it before the
          first run, and is charged it whatever number of runs was drawn.
        * The adapter of the winner is the only one that is left, and none is where any run was not
          what was planned.

    Args:
        train: What all runs share.
        search: The public list, and the law of the number of runs.
        out: Folder: new, empty, or with ``resume`` an unfinished search of the same settings.
        command: The command as typed, for the manifest.
        resume: Go on with an unfinished search, with what was drawn for it.
        progress: Called from this process.

    Returns:
        The result. Its runs and their number are private: see :class:`SearchResult`.

    Raises:
        InvalidArgumentError: If no public text is named, or nothing is searched.
        UnsupportedEventError: If the sampler has no rule under the accountant of selections.
        BudgetExceededError: If the ledger refuses.
        EvidenceError: If ``out`` holds another run.
    """
    check_searchable(train)
    candidates(search, train)  # refused before anything is read
    report = progress or silent
    store = _reopened(train, search, out) if resume else None
    planned = plan_search(train, search, progress=report)
    if store is None:
        store = _created(train, search, out, planned, command=command)
    elif store.manifest.inputs != planned.inputs:
        raise EvidenceError(
            f"{out} holds a search on another text or model; resume it with the same files."
        )
    store.reopen()
    with run_status(store, stage="search"):
        if store.has_result(RESULT):  # killed while tidying up
            result = store.read_result(RESULT, SearchResult)
        else:
            result = _searched(train, search, store, planned, command=command, tell=report)
            store.write_result(RESULT, result)
        shutil.rmtree(out / RUNS, ignore_errors=True)
        for file in (*(run.log_file for run in result.runs), *(a.file for a in result.artifacts)):
            store.adopt(file)
        store.finish("complete" if result.as_planned else "failed")
    return result


def read_search(path: Path) -> SearchSpec:
    """The settings of a search from a TOML file.

    Args:
        path: The file.

    Returns:
        The settings.

    Raises:
        InvalidArgumentError: If the file cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise InvalidArgumentError(
            f"search must name a TOML file that can be read, got {path}."
        ) from None
    return from_toml(SearchSpec, text, source=str(path))


def best_of(scores: Sequence[float]) -> int | None:
    """The run that is kept.

    Args:
        scores: Public loss of each run.

    Returns:
        Position of the least one, the first of equals; None if there is no finite one.
    """
    finite = [(score, place) for place, score in enumerate(scores) if math.isfinite(score)]
    return min(finite)[1] if finite else None


def _searched(
    train: TrainSpec,
    search: SearchSpec,
    store: RunStore,
    planned: PlannedSearch,
    *,
    command: Sequence[str],
    tell: Progress,
) -> SearchResult:
    """Reserve, draw, run, choose, commit."""
    reservation, listed = None, candidates(search, train)
    if train.ledger:
        release = train.release or store.path.name
        reservation = Reservation(
            train, planned.as_plan, release=release, run=store.manifest.identity
        )
        reservation.reserve()
    draws = _drawn(train, search, store, planned, n_candidates=len(listed))
    results = [
        _run(train, listed[choice], store.path, number, planned, command=command, tell=tell)
        for number, choice in enumerate(draws.choices, start=1)
    ]
    result = _chosen(train, store.path, planned, listed, draws, results)
    if reservation is None:
        return result
    if result.as_planned:
        reservation.commit(epsilon=result.epsilon, delta=result.delta, artifacts=result.artifacts)
    return replace(result, ledger=reservation.reference())


def _drawn(
    train: TrainSpec,
    search: SearchSpec,
    store: RunStore,
    planned: PlannedSearch,
    *,
    n_candidates: int,
) -> SearchDraws:
    """What was drawn for this search, once."""
    if store.has_result(DRAWS):
        return store.read_result(DRAWS, SearchDraws)
    stream = SecureStream() if train.noise_seed < 0 else SeededStream(train.noise_seed)
    n_runs = RunCount(mean_runs=search.mean_runs, shape=search.shape).draw(stream)
    draws = SearchDraws(
        noise_multiplier=planned.plan.run.noise_multiplier,
        choices=draw_choices(stream, n_runs=n_runs, n_candidates=n_candidates),
    )
    store.write_result(DRAWS, draws)
    return draws


def _run(
    train: TrainSpec,
    one: Candidate,
    out: Path,
    number: int,
    planned: PlannedSearch,
    *,
    command: Sequence[str],
    tell: Progress,
) -> TrainResult:
    """One run, or what an earlier start of the search left of it."""
    folder = out / RUNS / f"{number:03d}"
    noise = planned.plan.run.noise_multiplier
    spec = run_spec(train, one, noise_multiplier=noise, run=number)
    begun = (folder / "manifest.json").is_file()
    if begun and RunStore.open(folder).has_result(RESULT):
        return RunStore.open(folder).read_result(RESULT, TrainResult)
    result = train_privately(
        spec,
        folder,
        command=command,
        resume=begun,
        progress=lambda task, line: tell(f"run {number}: {task}" if task else "", line),
    )
    (folder / PAGE).unlink()  # it states the price of a run that nobody chose
    return result


def _chosen(
    train: TrainSpec,
    out: Path,
    planned: PlannedSearch,
    listed: tuple[Candidate, ...],
    draws: SearchDraws,
    results: Sequence[TrainResult],
) -> SearchResult:
    """Choose by public loss, and copy that adapter and all logs out of the runs."""
    kept = [
        _kept(out, number, listed[choice], result, planned)
        for number, (choice, result) in enumerate(zip(draws.choices, results, strict=True), start=1)
    ]
    winner = best_of([run.score_nats for run in kept])
    if any(run.differences for run in kept):
        winner = None
    artifacts: tuple[Artifact, ...] = ()
    if winner is not None:
        artifacts = results[winner].artifacts
        shutil.rmtree(out / ADAPTER, ignore_errors=True)
        shutil.copytree(out / RUNS / f"{winner + 1:03d}" / ADAPTER, out / ADAPTER)
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


def _kept(
    out: Path, number: int, one: Candidate, result: TrainResult, planned: PlannedSearch
) -> SearchRun:
    """What stays of a run: its log and its score."""
    log = Path(LOGS) / f"{number:03d}.jsonl"
    (out / LOGS).mkdir(exist_ok=True)
    shutil.copyfile(out / RUNS / f"{number:03d}" / LOG, out / log)
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


def _created(
    train: TrainSpec,
    search: SearchSpec,
    out: Path,
    planned: PlannedSearch,
    *,
    command: Sequence[str],
) -> RunStore:
    """A new folder with the settings."""
    store = begin_run(KIND, out, train, command=command, inputs=planned.inputs)
    store.write_text(SEARCH_FILE, to_toml(search))
    return store


def _reopened(train: TrainSpec, search: SearchSpec, out: Path) -> RunStore:
    """The unfinished search in a folder, if it has these settings."""
    store = RunStore.open(out)
    if store.manifest.kind != KIND or store.manifest.status == "complete":
        raise EvidenceError(
            f"{out} must hold an unfinished search to resume, got a {store.manifest.status} run "
            f"({store.manifest.kind})."
        )
    before = (
        from_toml(TrainSpec, store.read_text(SPEC_FILE), source=SPEC_FILE),
        from_toml(SearchSpec, store.read_text(SEARCH_FILE), source=SEARCH_FILE),
    )
    if before != (train, search):
        raise EvidenceError(
            f"{out} holds a search with other settings; resume it with those of its {SPEC_FILE} "
            f"and {SEARCH_FILE}."
        )
    return store
