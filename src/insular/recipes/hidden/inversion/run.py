"""``insular hidden invert``: read prompts out of stored states, by layer, mechanism and storage."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from insular import _check
from insular.errors import InvalidArgumentError
from insular.evidence import InputFact, RunStore, sha256_of
from insular.hidden.inversion.results import InversionCell, InversionResult
from insular.recipes.hidden.bench import load_model
from insular.recipes.hidden.inversion._words import input_notes
from insular.recipes.hidden.inversion.bench import (
    Bench,
    Shared,
    forget_bench,
    remember,
)
from insular.recipes.hidden.inversion.cells import (
    CellKey,
    PromptsRead,
    judge_cell,
    prompt_starts,
    prompt_tasks,
    search_spec,
)
from insular.recipes.hidden.inversion.page import inversion_page
from insular.recipes.hidden.inversion.prompts import calibration_records
from insular.recipes.hidden.inversion.release import ONE_MORE, ScaledRelease, release_tasks
from insular.recipes.hidden.inversion.spec import HiddenInversionSpec
from insular.recipes.hidden.spec import NO_MECHANISM
from insular.recipes.inputs import Progress, silent
from insular.recipes.parallel import intra_op_threads
from insular.recipes.run_folder import RESULT, begin_or_continue, run_status, write_run_page
from insular.recipes.tasks import Task, run_tasks

if TYPE_CHECKING:
    from insular.records import TokenisedRecord

__all__ = ["KIND", "calibration_records", "invert_hidden", "write_page"]

KIND = "hidden.invert"


def invert_hidden(
    spec: HiddenInversionSpec,
    out: Path,
    *,
    command: Sequence[str],
    workers: int = 1,
    progress: Progress | None = None,
) -> InversionResult:
    """Invert the stored states of prompts and count what was read.

    Guarantees:
        * No file of ``out`` holds text or tokens unless ``show_text`` is set.
        * No inverted prompt shaped a token table, a mechanism or its scale.
        * Every mechanism is scaled to the same measured KL; one that has no release there is a
          cell that says why, and the others go on.
        * Noise is drawn anew for each position of each prompt.
        * Prompts that are done are not done again; given the token tables, the numbers depend
          neither on ``workers`` nor on an interruption.

    Args:
        spec: What to invert.
        out: Folder of the evidence: new, empty, or an unfinished run of the same spec.
        command: The command as typed, for the manifest.
        workers: Processes that work side by side, of one thread each.
        progress: Called from this process.

    Returns:
        The result.

    Raises:
        InvalidArgumentError: If a layer is none of the model's, the states or the release are of
            another size, or prompts do not fit the model.
        RecordError: If the text has too few prompts.
        EvidenceError: If a file or folder holds something else.
    """
    _check.at_least(1, workers=workers)
    report = progress or silent
    try:
        with intra_op_threads(workers):
            bench, public = _opened(spec, out, lambda line: report("", line))
        store = begin_or_continue(
            KIND,
            out,
            spec,
            command=command,
            inputs=_facts(bench),
            other="other inputs",
            repeat="with the same options",
        )
        with run_status(store, stage="inversion"):
            with intra_op_threads(workers):
                rounding = _build_tables(bench, public, lambda line: report("", line))
            shared, unscaled = bench.shared, _unscaled(bench)
            lengths = [one.n_tokens for one in bench.inputs.trajectories]
            del bench
            if workers > 1:
                forget_bench()  # they hold models of their own

            def run(tasks: Sequence[Task], name: str, sizes: Sequence[int]) -> list[Any]:
                told = _counted(name, tasks, sizes, report)
                return run_tasks(tasks, store, workers=workers, progress=told)

            result = InversionResult(
                model=spec.model,
                target_kl_nats=spec.kl_nats,
                spec=search_spec(spec),
                cells=_cells(shared, unscaled, rounding, store, run, n_prompts=len(lengths)),
                seed=spec.seed,
                notes=input_notes(spec, lengths),
            )
            store.write_result(RESULT, result)
            store.finish("complete")
    finally:
        forget_bench()
    write_page(store)
    return result


def write_page(store: RunStore) -> Path:
    """Render the page of a finished run from its evidence alone.

    Args:
        store: The run.

    Returns:
        The page's path.
    """
    result = store.read_result(RESULT, InversionResult)
    return write_run_page(store, lambda manifest: inversion_page(result, manifest))


def _opened(
    spec: HiddenInversionSpec, out: Path, tell: Callable[[str], None]
) -> "tuple[Bench, list[TokenisedRecord]]":
    """Load the model and choose the prompts: what is wrong with either fails first."""
    from insular.hidden.inversion.token_table import table_key
    from insular.hidden.states.forward import SplitDecoder

    tell(f"loading {spec.model}")
    decoder = load_model(spec, progress=tell)
    split = SplitDecoder(decoder.model)
    split.check_layers(*spec.layers)
    public = calibration_records(decoder, progress=tell)
    keys = tuple(
        (
            layer,
            table_key(split, layer=layer, model_digest=decoder.digest, calibration=public),
        )
        for layer in spec.layers
    )
    shared = Shared(
        spec=spec,
        out=out.resolve(),
        reserved=tuple(one.id for one in public),
        model_digest=decoder.digest,
        tables=keys,
    )
    bench = remember(Bench(shared, loaded=(decoder, split)))
    assert bench.inputs.trajectories
    _check_release(bench)
    return bench, public


def _check_release(bench: Bench) -> None:
    """Refuse a release of another model before anything takes time."""
    if not bench.spec.release:
        return
    release = bench.release(bench.spec.layers[0], NO_MECHANISM)
    size = int(bench.decoder.model.get_input_embeddings().weight.shape[1])
    if release is not None and release.hidden_size != size:
        raise InvalidArgumentError(
            f"release must be for states of {size} numbers, as this model has, got"
            f" {release.hidden_size} in {bench.spec.release}."
        )


def _facts(bench: Bench) -> tuple[InputFact, ...]:
    """What is read, for the manifest."""
    spec = bench.spec
    model = InputFact(name="model", source=spec.model, sha256=bench.decoder.digest)
    if not spec.release:
        return (bench.inputs.fact, model)
    release = InputFact(name="release", source=spec.release, sha256=sha256_of(Path(spec.release)))
    return (bench.inputs.fact, model, release)


def _build_tables(
    bench: Bench, public: "list[TokenisedRecord]", tell: Callable[[str], None]
) -> dict[int, float]:
    """Put every layer's token table into the cache; gives the rounding of each."""
    from insular.hidden.inversion.token_table_cache import cached_token_tables

    tables = cached_token_tables(
        bench.split,
        public,
        layers=bench.spec.layers,
        model_digest=bench.decoder.digest,
        progress=tell,
    )
    return {layer: table.rounding for layer, table in tables.items()}


def _unscaled(bench: Bench) -> ScaledRelease:
    """What states went through for which nothing is fitted: nothing, or a release from a file."""
    (layer, *_), release = bench.spec.layers, bench.release(bench.spec.layers[0], NO_MECHANISM)
    if release is None:
        return ScaledRelease(layer=layer, mechanism=NO_MECHANISM, status="clean")
    return ScaledRelease(
        layer=layer,
        mechanism=release.mechanism.kind,
        status="given",
        budget_nats=release.budget_nats,
    )


def _cells(
    shared: Shared,
    unscaled: ScaledRelease,
    rounding: Mapping[int, float],
    store: RunStore,
    run: Callable[[Sequence[Task], str, Sequence[int]], list[Any]],
    *,
    n_prompts: int,
) -> tuple[InversionCell, ...]:
    """Scale every mechanism, then invert the prompts of every cell that has a release."""
    spec, fitting = shared.spec, release_tasks(shared, store)
    scaled: list[ScaledRelease] = run(fitting, "releases", [1] * len(fitting))
    releases = {(one.layer, one.mechanism): one for one in scaled}
    for layer in spec.layers:
        releases[layer, NO_MECHANISM] = replace(unscaled, layer=layer)
    keys = [
        CellKey(layer, mechanism, storage)
        for layer in spec.layers
        for mechanism in spec.chosen
        for storage in spec.storages
    ]
    able = [key for key in keys if releases[key[:2]].status in ("clean", "given", "reached")]
    starts = prompt_starts(spec, n_prompts)
    sizes = [b - a for a, b in pairwise((*starts, n_prompts))]
    tasks = [task for key in able for task in prompt_tasks(shared, key, starts, n_prompts)]
    parts: list[PromptsRead] = run(tasks, "prompts", sizes * len(able))
    return tuple(
        judge_cell(
            spec,
            key,
            releases[key[:2]],
            [one for part in _of(parts, able, key, len(starts)) for one in part.prompts],
            rounding=rounding[key.layer],
        )
        for key in keys
    )


def _of(
    parts: Sequence[PromptsRead], able: Sequence[CellKey], key: CellKey, n_parts: int
) -> Sequence[PromptsRead]:
    """The parts of one cell; none for a cell that was not attacked."""
    if key not in able:
        return ()
    first = able.index(key) * n_parts
    return parts[first : first + n_parts]


def _counted(
    name: str, tasks: Sequence[Task], sizes: Sequence[int], report: Progress
) -> Callable[[str, str], None]:
    """Progress of all tasks together, counted in pieces."""
    done, whole = 0, sum(sizes)
    size_of = {task.job.name: size for task, size in zip(tasks, sizes, strict=True)}

    def tell(task: str, line: str) -> None:
        nonlocal done
        if line == ONE_MORE:
            done += 1
        elif line == "done before":
            done += size_of[task]
        else:
            return
        report(name, "done" if done == whole else f"{done} of {whole}")

    return tell
