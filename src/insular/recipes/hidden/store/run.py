"""``insular hidden store``: a vector index whose writes are released states, as a run."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from insular.evidence import InputFact, RunStore, sha256_of
from insular.recipes.hidden.session import hidden_run
from insular.recipes.hidden.store.cells import file_tasks, text_tasks
from insular.recipes.hidden.store.page import store_page
from insular.recipes.hidden.store.results import HiddenStoreResult, StoreCells
from insular.recipes.hidden.store.spec import HiddenStoreSpec
from insular.recipes.inputs import Progress, silent
from insular.recipes.run_folder import RESULT, begin_or_continue, run_status, write_run_page
from insular.recipes.tasks import run_tasks

KIND = "hidden.store"


def store_hidden(
    spec: HiddenStoreSpec,
    out: Path,
    *,
    states: Path | None = None,
    command: Sequence[str],
    workers: int = 1,
    progress: Progress | None = None,
) -> HiddenStoreResult:
    """Measure what each mechanism and storage format costs an index, and what the index tells.

    Guarantees:
        * Mechanisms are compared at equal measured KL, and no prompt that shaped or scaled one is
          in the index.
        * Recall and attack of a cell are those of one index.
        * A mechanism whose cells are done is not fitted again.
        * No file of the run holds record text; the states' folder is as private as the text.

    Args:
        spec: What to measure.
        out: Folder of the evidence: new, empty, or an unfinished run of the same spec.
        states: Folder of extracted states, which later runs can share; by default within ``out``.
        command: The command as typed, for the manifest.
        workers: Processes that work side by side, of one thread each.
        progress: Called from this process.

    Returns:
        The result.

    Raises:
        InvalidArgumentError: If a layer is none of the model's, or states and release do not fit.
        RecordError: If the text has too few prompts, or the file of states cannot be read.
        EvidenceError: If a folder holds something else.
    """
    report = progress or silent
    if spec.states:
        return _store_file(spec, out, command=command, report=report)
    with hidden_run(
        KIND,
        spec.sweep,
        out,
        states=states,
        command=command,
        workers=workers,
        report=report,
        settings=spec,
    ) as run:
        parts: list[StoreCells] = run.run(text_tasks(spec, run.folder), "indexes")
        result = _result(spec, parts, model=spec.model, digest=run.model_digest, source=spec.text)
        run.store.write_result(RESULT, result)
    write_page(run.store)
    return result


def write_page(store: RunStore) -> Path:
    """Render the page of a finished run from its evidence alone.

    Args:
        store: The run.

    Returns:
        The page's path.
    """
    result = store.read_result(RESULT, HiddenStoreResult)
    return write_run_page(store, lambda manifest: store_page(result, manifest))


def _store_file(
    spec: HiddenStoreSpec, out: Path, *, command: Sequence[str], report: Progress
) -> HiddenStoreResult:
    """States of a file: nothing is extracted, fitted or scaled."""
    with _file_run(spec, out, command=command) as store:
        parts = run_tasks(file_tasks(spec), store, workers=1, progress=report)
        result = _result(spec, parts, model="", digest="", source=spec.states)
        store.write_result(RESULT, result)
    write_page(store)
    return result


@contextmanager
def _file_run(spec: HiddenStoreSpec, out: Path, *, command: Sequence[str]) -> Iterator[RunStore]:
    """A run that reads states, and perhaps a release; what is wrong with either fails first."""
    from insular.hidden.mechanisms import load_release
    from insular.recipes.hidden.store.states import read_matrix

    matrix = read_matrix(Path(spec.states))
    facts = [_fact("states", spec.states, n_records=len(matrix))]
    if spec.release:
        load_release(spec.release)
        facts.append(_fact("release", spec.release))
    store = begin_or_continue(
        KIND, out, spec, command=command, inputs=tuple(facts), other="other states or release"
    )
    with run_status(store, stage=KIND):
        yield store
        store.finish("complete")


def _fact(name: str, path: str, **more: Any) -> InputFact:
    """A file that is read."""
    return InputFact(name=name, source=path, sha256=sha256_of(Path(path)), **more)


def _result(
    spec: HiddenStoreSpec, parts: Sequence[StoreCells], *, model: str, digest: str, source: str
) -> HiddenStoreResult:
    """All indexes in their order."""
    return HiddenStoreResult(
        model=model,
        model_digest=digest,
        source=source,
        significance=spec.significance,
        cells=tuple(cell for part in parts for cell in part.cells),
    )
