"""Arms side by side in worker processes, with progress from all of them."""

import contextlib
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from insular.recipes.arm import ArmOutput, run_arm
from insular.recipes.inputs import Progress
from insular.recipes.spec import AuditSpec

if TYPE_CHECKING:
    from queue import Queue

    from insular.recipes.text import AuditText


def run_parallel(
    spec: AuditSpec,
    stacks: Sequence[str],
    text: "AuditText",
    *,
    workers: int,
    progress: Progress,
    finished: Callable[[str, ArmOutput], None],
) -> None:
    """Run arms, each in a process of its own when there are several workers.

    Guarantees:
        * ``finished`` is called in this process, once an arm, as soon as it ends.
        * The numbers do not depend on ``workers``.

    Args:
        spec: The audit.
        stacks: Names of the arms.
        text: Base batch and spares.
        workers: Largest number of processes.
        progress: Called in this process with an arm and a line.
        finished: Called with an arm and what it found.
    """
    if min(workers, len(stacks)) <= 1:
        for stack in stacks:
            finished(stack, run_arm(spec, stack, text, progress=_tell(progress, stack)))
        return
    import multiprocessing

    from joblib import Parallel, delayed

    with multiprocessing.Manager() as manager:
        lines = manager.Queue()
        listener = threading.Thread(target=_relay, args=(lines, progress), daemon=True)
        listener.start()
        jobs = (delayed(_worker)(spec, stack, text, lines) for stack in stacks)
        pool = Parallel(n_jobs=min(workers, len(stacks)), return_as="generator_unordered")
        with warnings.catch_warnings():
            # joblib replaces a worker whose memory grew, and says so; an arm is one job, so fine
            warnings.filterwarnings("ignore", message="A worker stopped while some jobs")
            for stack, output in pool(jobs):  # pyright: ignore[reportGeneralTypeIssues]
                finished(stack, output)
        lines.put(None)
        listener.join()


def _worker(
    spec: AuditSpec, stack: str, text: "AuditText", lines: "Queue[tuple[str, str] | None]"
) -> tuple[str, ArmOutput]:
    """One arm in a worker process."""
    return stack, run_arm(spec, stack, text, progress=lambda line: lines.put((stack, line)))


def _relay(lines: "Queue[tuple[str, str] | None]", progress: Progress) -> None:
    """Hand the workers' lines to the caller's progress until told to stop."""
    with contextlib.suppress(EOFError, OSError):  # an interrupt ends the queue's own process too
        while (item := lines.get()) is not None:
            progress(*item)


def _tell(progress: Progress, stack: str) -> Callable[[str], None]:
    """Progress of one arm."""
    return lambda line: progress(stack, line)
