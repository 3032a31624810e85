"""Private hyperparameter search: a random number of runs, of which the best one alone leaves."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from insular.errors import EvidenceError, InvalidArgumentError
from insular.evidence import RunStore, from_toml, to_toml
from insular.mechanisms.keystream import SecureStream, SeededStream
from insular.recipes.inputs import Progress, silent
from insular.recipes.run_folder import (
    PAGE,
    RESULT,
    SPEC_FILE,
    begin_run,
    run_status,
    write_run_page,
)
from insular.recipes.train.budget import Reservation
from insular.recipes.train.results import TrainResult
from insular.recipes.train.run import train_privately
from insular.recipes.train.search.choice import choose
from insular.recipes.train.search.draws import RunCount, draw_choices
from insular.recipes.train.search.page import search_page
from insular.recipes.train.search.plan import PlannedSearch, plan_search
from insular.recipes.train.search.results import WINNER, SearchDraws, SearchResult
from insular.recipes.train.search.spec import (
    Candidate,
    SearchSpec,
    candidates,
    check_searchable,
    run_spec,
)
from insular.recipes.train.spec import TrainSpec

KIND = "train.search"
SEARCH_FILE = "search.toml"
DRAWS = "draws"
RUNS = "runs"


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
          what was planned. Its results and its audit stay too, for the release card.

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
    write_page(store)
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


def write_page(store: RunStore) -> Path:
    """Render the page of a finished search from its evidence alone.

    Args:
        store: The search.

    Returns:
        The page's path.
    """
    result = store.read_result(RESULT, SearchResult)
    return write_run_page(
        store, lambda manifest: search_page(result, manifest, run_folder=str(store.path))
    )


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
    result = choose(
        train,
        store.path,
        folders=[_folder(store.path, number) for number in range(1, len(results) + 1)],
        planned=planned,
        listed=listed,
        draws=draws,
        results=results,
    )
    if result.winner is not None:  # what a card says of it beyond the search
        store.write_result(WINNER, results[result.winner])
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
    folder = _folder(out, number)
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


def _folder(out: Path, number: int) -> Path:
    """Folder of a run, while the search goes on."""
    return out / RUNS / f"{number:03d}"


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
