"""Jobs side by side: what an interrupt of the terminal reaches."""

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from insular.recipes.parallel import Job, run_jobs

TESTS = Path(__file__).parents[1]
N_JOBS = 4


def named(*, progress) -> str:
    progress("works")
    return "done"


def blocked(*, progress) -> bool:
    """Whether this process would hold back an interrupt."""
    progress("asked")
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def endless(*, progress) -> None:
    progress("started")
    signal.pause()


def jobs(work) -> list[Job]:
    return [Job(name=f"job {i}", work=work, args=()) for i in range(N_JOBS)]


@pytest.mark.parametrize("workers", [1, 2])
def test_finished_is_called_in_this_process_once_a_job_for_any_number_of_workers(workers):
    seen = []
    run_jobs(
        jobs(named),
        workers=workers,
        progress=lambda *_: None,
        finished=lambda name, output: seen.append((os.getpid(), name, output)),
    )
    assert sorted(seen) == [(os.getpid(), f"job {i}", "done") for i in range(N_JOBS)]


def test_an_interrupt_reaches_this_process_alone():
    found = {}
    run_jobs(jobs(blocked), workers=2, progress=lambda *_: None, finished=found.__setitem__)
    assert list(found.values()) == [True] * N_JOBS
    assert not blocked(progress=print)


def test_an_interrupt_ends_the_workers_and_they_print_nothing():
    code = (
        "from recipes.test_parallel import endless, jobs\n"
        "from insular.recipes.parallel import run_jobs\n"
        "try:\n"
        "    run_jobs(jobs(endless), workers=2, finished=print,\n"
        "             progress=lambda *line: print(*line, flush=True))\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=TESTS,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # a test process that ignores interrupts would hand that on
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout is not None
    assert process.stdout.readline().endswith("started\n")
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)  # a worker that lives on keeps the pipes open
    assert process.returncode == 0, err
    assert out.splitlines()[-1] == "interrupted" and err == ""
