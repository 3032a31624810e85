"""Jobs side by side in worker processes, with progress from all of them."""

import contextlib
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from insular.recipes.inputs import Progress

if TYPE_CHECKING:
    from queue import Queue


@final
@dataclass(frozen=True, kw_only=True)
class Job:
    """A piece of work that a process of its own can do."""

    name: str
    """Unique in its run; progress and evidence carry it."""
    work: Callable[..., Any]
    """An importable function, called with ``args`` and ``progress=``."""
    args: tuple[Any, ...]
    """What it works on; picklable."""


def run_jobs(
    jobs: Sequence[Job],
    *,
    workers: int,
    progress: Progress,
    finished: Callable[[str, Any], None],
) -> None:
    """Run jobs, in processes of their own when there are several workers.

    Guarantees:
        * ``finished`` is called in this process, once a job, as soon as it ends.
        * The numbers do not depend on ``workers``.
        * An interrupt reaches this process alone; it ends the workers, and they print nothing.

    Args:
        jobs: The jobs; the first ones start first.
        workers: Largest number of processes.
        progress: Called in this process with a job's name and a line.
        finished: Called with a job's name and what it returned.
    """
    if min(workers, len(jobs)) <= 1:
        if workers > 1:
            _dismiss_workers()  # a job alone may need the memory that idle ones still hold
        for job in jobs:
            finished(job.name, job.work(*job.args, progress=_tell(progress, job.name)))
        return
    import multiprocessing

    from joblib import Parallel, delayed

    with _interrupts_wait():
        server = multiprocessing.Manager()
    with server as manager, warnings.catch_warnings():
        # joblib replaces a worker whose memory grew, and says so; it does so between jobs
        warnings.filterwarnings("ignore", message="A worker stopped while some jobs")
        # and advises whoever does not wait for all jobs, such as an interrupt
        warnings.filterwarnings("ignore", message=r"\d+ tasks ")
        lines = manager.Queue()
        listener = threading.Thread(target=_relay, args=(lines, progress), daemon=True)
        listener.start()
        pool = Parallel(n_jobs=workers, return_as="generator_unordered", pre_dispatch="n_jobs")
        with _interrupts_wait():
            outputs: Any = pool(delayed(_in_worker)(job, lines) for job in jobs)
        with contextlib.closing(outputs):
            for name, output in outputs:
                finished(name, output)
        lines.put(None)
        listener.join()


@contextlib.contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Block the interrupt in this thread; processes that start here keep it blocked for good.

    A terminal sends it to workers too. One that is still importing would print a traceback, and one
    that waits for a job would break the pool before this process has ended it.
    """
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # Python's own unblocks the interrupt when it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def intra_op_threads(n: int) -> Iterator[None]:
    """Let torch compute with so many threads, and with as many as before afterwards.

    Args:
        n: Threads inside one operation.

    Yields:
        Nothing.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _dismiss_workers() -> None:
    """End the processes of an earlier call, which joblib keeps for the next one."""
    from joblib.externals.loky import get_reusable_executor

    get_reusable_executor().shutdown(wait=True)


def _in_worker(job: Job, lines: "Queue[tuple[str, str] | None]") -> tuple[str, Any]:
    """One job in a worker process."""
    return job.name, job.work(*job.args, progress=lambda line: lines.put((job.name, line)))


def _relay(lines: "Queue[tuple[str, str] | None]", progress: Progress) -> None:
    """Hand the workers' lines to the caller's progress until told to stop."""
    with contextlib.suppress(EOFError, OSError):  # an interrupt ends the queue's own process too
        while (item := lines.get()) is not None:
            progress(*item)


def _tell(progress: Progress, name: str) -> Callable[[str], None]:
    """Progress of one job."""
    return lambda line: progress(name, line)
