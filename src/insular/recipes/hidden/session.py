"""What every run on hidden states does first: model, prompts, folder, states."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from insular import _check
from insular.errors import InvalidArgumentError
from insular.evidence import InputFact, RunStore
from insular.recipes.hidden.bench import Bench, bench_of, forget_bench
from insular.recipes.hidden.spec import SweepSpec
from insular.recipes.hidden.states import States, prepare_states
from insular.recipes.inputs import Progress
from insular.recipes.parallel import intra_op_threads
from insular.recipes.run_folder import begin_or_continue, run_status
from insular.recipes.tasks import Task, run_tasks
from insular.recipes.text import check_context

if TYPE_CHECKING:
    from insular.models.loading import Decoder

STATES = "states"
"""Folder of the states within a run's, unless another one is named."""


@final
@dataclass(frozen=True, kw_only=True)
class HiddenRun:
    """A run whose states are there."""

    store: RunStore
    """Its folder."""
    folder: Path
    """Folder of its states."""
    states: States
    """The states."""
    model_digest: str
    """Digest of the model's files."""
    workers: int
    """Processes that may work side by side."""
    report: Progress
    """Progress of the whole run."""

    def run(self, tasks: list[Task], name: str) -> list[Any]:
        """Run tasks under one line of progress.

        Args:
            tasks: The tasks.
            name: Name of the line.

        Returns:
            Every result, in the order of the tasks.
        """
        told = _counted(name, len(tasks), self.report)
        return run_tasks(tasks, self.store, workers=self.workers, progress=told)


@contextmanager
def hidden_run(
    kind: str,
    spec: SweepSpec,
    out: Path,
    *,
    states: Path | None,
    command: Sequence[str],
    workers: int,
    report: Progress,
    settings: object | None = None,
) -> Iterator[HiddenRun]:
    """Open a run, extract what is missing of its states, and finish it when the work is done.

    Args:
        kind: What runs.
        spec: The settings.
        out: Folder of the evidence: new, empty, or an unfinished run of the same spec.
        states: Folder of the states; None for one within ``out``.
        command: The command as typed, for the manifest.
        workers: Processes, of one thread each.
        report: Called from this process.
        settings: What ``run.toml`` says, where that is more than ``spec``.

    Yields:
        The run.

    Raises:
        InvalidArgumentError: If a layer is none of the model's, its states are too small for the
            rank, or its context for the prompts.
        RecordError: If the text has too few prompts.
        EvidenceError: If a folder holds something else.
    """
    _check.at_least(1, workers=workers)
    folder = states or out / STATES
    bench = bench_of(spec, folder)
    facts = _inputs(bench, workers, report)
    store = begin_or_continue(
        kind,
        out,
        settings or spec,
        command=command,
        inputs=facts,
        other="another text or model",
        repeat="with the same options",
    )
    with run_status(store, stage=kind):
        with intra_op_threads(workers):
            extracted = prepare_states(
                spec,
                folder,
                bench.prompts,
                decoder=bench.decoder,
                split=bench.split,
                command=command,
                progress=lambda line: report("states", line),
            )
        report("states", "done")
        digest = bench.decoder.digest
        del bench
        if workers > 1:
            forget_bench()  # they hold models of their own
        try:
            yield HiddenRun(
                store=store,
                folder=folder,
                states=extracted,
                model_digest=digest,
                workers=workers,
                report=report,
            )
        finally:
            forget_bench()
        store.finish("complete")


def _inputs(bench: Bench, workers: int, report: Progress) -> tuple[InputFact, ...]:
    """Load the model and choose the prompts: what is wrong with either fails first."""
    spec = bench.spec
    report("", f"loading {spec.model}")
    with intra_op_threads(workers):
        bench.split.check_layers(*spec.layers)
    _check_fits(spec, bench.decoder)
    report("", f"reading {spec.text}")
    model = InputFact(name="model", source=spec.model, sha256=bench.decoder.digest)
    return bench.prompts.fact, model


def _check_fits(spec: SweepSpec, decoder: "Decoder") -> None:
    """Refuse subspaces as large as the states, and prompts longer than the context."""
    check_context(spec.tokens, context_tokens=decoder.context_tokens)
    size = decoder.model.get_input_embeddings().weight.shape[1]
    if spec.rank >= size:
        raise InvalidArgumentError(
            f"rank must be below the {size} numbers of a state, got rank={spec.rank}; choose a "
            "smaller --rank."
        )


def _counted(name: str, n: int, report: Progress) -> Callable[[str, str], None]:
    """Progress that counts tasks instead of naming each."""
    done = 0

    def tell(task: str, line: str) -> None:
        nonlocal done
        if line.startswith("done"):
            done += 1
            report(name, "done" if done == n else f"{done} of {n}")

    return tell
