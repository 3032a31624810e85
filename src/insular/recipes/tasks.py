"""The pieces of an audit that run, are stored and are resumed one by one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

from insular.evidence import ArrayRef, RunStore
from insular.recipes.audit.sources import forget_built
from insular.recipes.inputs import Progress
from insular.recipes.parallel import Job, run_jobs

if TYPE_CHECKING:
    import numpy as np


@final
@dataclass(frozen=True, kw_only=True)
class Output:
    """What a task hands back."""

    result: Any
    """A result, without references to its arrays."""
    arrays: "dict[str, dict[str, np.ndarray]]" = field(default_factory=dict)
    """Files of arrays to save, by name."""


@final
@dataclass(frozen=True, kw_only=True)
class Task:
    """A piece of work whose result is one file of evidence."""

    job: Job
    """Returns an :class:`Output`."""
    slug: str
    """Name of the result's file."""
    kind: type
    """Class of the result."""
    attach: Callable[[Any, Mapping[str, ArrayRef]], Any]
    """Puts the references of the saved arrays into the result."""


def run_tasks(
    tasks: Sequence[Task], store: RunStore, *, workers: int, progress: Progress
) -> list[Any]:
    """Run what is not done yet; each result is stored as soon as it is there.

    Guarantees:
        * A task whose result is stored does not run again.
        * The arrays of a result are stored before it.

    Args:
        tasks: The tasks; the first ones start first.
        store: The run.
        workers: Largest number of processes.
        progress: Called with a task's name and a line.

    Returns:
        Every result, in the order of the tasks.
    """
    waiting = [task for task in tasks if not store.has_result(task.slug)]
    for task in tasks:
        if task not in waiting:
            progress(task.job.name, "done before")

    def store_it(task: Task, output: Output) -> None:
        refs = {name: store.write_arrays(name, arrays) for name, arrays in output.arrays.items()}
        store.write_result(task.slug, task.attach(output.result, refs))

    _run(waiting, store_it, workers=workers, progress=progress)
    return [store.read_result(task.slug, task.kind) for task in tasks]


def repeat_tasks(tasks: Sequence[Task], *, workers: int, progress: Progress) -> list[Any]:
    """Run every task again and store nothing.

    Args:
        tasks: The tasks.
        workers: Largest number of processes.
        progress: Called with a task's name and a line.

    Returns:
        Every result, without references to arrays, in the order of the tasks.
    """
    found: dict[str, Any] = {}

    def keep(task: Task, output: Output) -> None:
        found[task.slug] = output.result

    _run(tasks, keep, workers=workers, progress=progress)
    return [found[task.slug] for task in tasks]


def _run(
    tasks: Sequence[Task],
    take: Callable[[Task, Output], None],
    *,
    workers: int,
    progress: Progress,
) -> None:
    """Run tasks side by side; take each output as it comes."""
    by_name = {task.job.name: task for task in tasks}

    def finished(name: str, output: Output) -> None:
        take(by_name[name], output)
        progress(name, "done")

    try:
        run_jobs(
            [task.job for task in tasks], workers=workers, progress=progress, finished=finished
        )
    finally:
        forget_built()
