"""The folder of a run, from its first file to its page: what all recipes do the same way."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from insular.errors import EvidenceError, InsularError, InvalidArgumentError
from insular.evidence import (
    InputFact,
    RunManifest,
    RunStatus,
    RunStore,
    collect_manifest,
    from_toml,
    sha256_of,
    to_toml,
)
from insular.recipes.audit.spec import PACKAGED_MODELS, PACKAGED_TEXTS
from insular.reports.page import Page, render

SPEC_FILE = "run.toml"
RESULT = "results"
PAGE = "report.html"

T = TypeVar("T")


def begin_run(
    kind: str, out: Path, spec: Any, *, command: Sequence[str], inputs: tuple[InputFact, ...]
) -> RunStore:
    """Create the folder of a run, with its settings in it.

    Args:
        kind: What runs.
        out: The folder: new or empty.
        spec: The settings, with their seed.
        command: The command as typed.
        inputs: What is read.

    Returns:
        The store.
    """
    manifest = collect_manifest(
        kind, out.name, command=tuple(command), inputs=inputs, seed=spec.seed
    )
    store = RunStore.create(out, manifest)
    store.write_text(SPEC_FILE, to_toml(spec))
    return store


def begin_or_continue(
    kind: str,
    out: Path,
    spec: Any,
    *,
    command: Sequence[str],
    inputs: tuple[InputFact, ...],
    other: str,
    repeat: str = "",
) -> RunStore:
    """Create the folder of a run, or go on with an unfinished run of the same settings and inputs.

    Guarantees:
        * No folder that is read is written to; one that is called like a packaged text or model
          is not read.

    Args:
        kind: What runs.
        out: The folder.
        spec: The settings.
        command: The command as typed.
        inputs: What is read.
        other: What else than settings may differ, for the error.
        repeat: How to go on with the run that is there, for the error; by default as its
            ``run.toml`` says.

    Returns:
        The store.

    Raises:
        InvalidArgumentError: If the folder is one of the inputs.
        EvidenceError: If the folder holds another run.
    """
    if out.resolve() in {path.resolve() for path in _paths_read(inputs)}:
        raise InvalidArgumentError(f"--out must be another folder than what is read, got {out}.")
    if not (out / "manifest.json").is_file():
        return begin_run(kind, out, spec, command=command, inputs=inputs)
    store = RunStore.open(out)
    if store.manifest.kind != kind or store.manifest.status == "complete":
        raise EvidenceError(
            f"{out} already holds a {store.manifest.status} run ({store.manifest.kind}); choose"
            " another --out."
        )
    if read_settings(store, type(spec)) != spec or store.manifest.inputs != inputs:
        how = repeat or f"as {out / SPEC_FILE} says"
        raise EvidenceError(
            f"{out} holds an unfinished run with other settings or {other}; repeat it {how}, or"
            " choose another --out."
        )
    if store.manifest.finished:
        store.reopen()
    return store


def _paths_read(inputs: Sequence[InputFact]) -> list[Path]:
    """Inputs that are files or folders: packaged ones come first, whatever lies here."""
    sources = {fact.source for fact in inputs} - {*PACKAGED_TEXTS, *PACKAGED_MODELS}
    return [path for path in map(Path, sources) if path.exists()]


def run_fact(name: str, run: Path) -> InputFact:
    """A run that another one reads, by the digest of its results.

    Args:
        name: Its role.
        run: Its folder.

    Returns:
        The fact, for the manifest.
    """
    return InputFact(name=name, source=str(run), sha256=sha256_of(run / f"{RESULT}.json"))


def read_settings(store: RunStore, spec: type[T]) -> T:
    """The settings that a run was given.

    Args:
        store: The run.
        spec: Their class.

    Returns:
        What its ``run.toml`` says.
    """
    return from_toml(spec, store.read_text(SPEC_FILE), source=str(store.path / SPEC_FILE))


@contextmanager
def run_status(store: RunStore, *, stage: str) -> Iterator[None]:
    """Let the manifest say how a run ended, whatever ends it.

    Args:
        store: The run.
        stage: Name of the failure, if there is one.

    Yields:
        Nothing.

    Raises:
        InsularError: As it came, after it was noted.
        KeyboardInterrupt: As it came, after it was noted.
    """
    try:
        yield
    except KeyboardInterrupt:
        store.finish("interrupted")
        raise
    except InsularError as error:
        if not store.manifest.finished:
            store.record_failure(stage, str(error))
            store.finish("failed")
        raise


def write_run_page(store: RunStore, make: Callable[[RunManifest], Page]) -> Path:
    """Render the page of a finished run.

    Guarantees:
        * An interrupt leaves the run as finished as it was if it had a page, and unfinished
          otherwise, so that the same command goes on and ends with the page.

    Args:
        store: The run.
        make: The page of a manifest, which does not list the page itself.

    Returns:
        The page's path.
    """
    status = store.manifest.status
    unless_written: RunStatus = status if PAGE in store.manifest.files else "interrupted"
    store.reopen()
    try:
        listed = {name: digest for name, digest in store.manifest.files.items() if name != PAGE}
        page = make(replace(store.manifest, status=status, files=listed))
        store.write_text(PAGE, render(page))
    except BaseException:
        store.finish(unless_written)
        raise
    store.finish(status)
    return store.path / PAGE
