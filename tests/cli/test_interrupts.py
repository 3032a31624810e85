"""At whatever moment an interrupt comes: one line, exit code 130, no traceback."""

import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from evidence.samples import manifest
from insular.cli.output import goes_on
from insular.evidence import RunStore

TESTS = Path(__file__).parents[1]
BARE = "insular: interrupted."
GO_ON = (
    "insular: interrupted; what was released is in the log. Go on with"
    " insular train --config a-folder/run.toml --resume"
)


def interrupted(moment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cli.interrupted_moments", moment],
        cwd=TESTS,
        capture_output=True,
        text=True,
        timeout=50,  # below the 60 s for which a lost interrupt sleeps
        # a test process that ignores interrupts would hand that on
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )


@pytest.mark.parametrize(
    ("moment", "lines"),
    [
        ("during_imports", [BARE]),
        ("while_settings_are_read", [BARE]),
        ("while_it_runs", ["tidied", GO_ON]),
        ("in_a_finaliser", [GO_ON]),
        ("where_it_is_caught", ["caught", GO_ON]),
        ("where_it_becomes_another_error", [GO_ON]),
        ("where_it_changes_nothing", ["caught", GO_ON]),
        ("in_a_text_that_is_executed", [GO_ON]),
        ("while_a_worker_goes_on", [GO_ON]),
        ("while_the_result_is_shown", [BARE]),
        ("twice", ["insular: interrupted twice; nothing was tidied up."]),
    ],
)
def test_an_interrupt_at_any_moment_until_the_command_has_ended_is_one_line_and_exit_code_130(
    moment, lines
):
    done = interrupted(moment)
    assert done.stderr.splitlines() == lines
    assert done.returncode == 130
    assert done.stdout == ""


@pytest.mark.parametrize("moment", ["after_the_end", "where_it_is_ignored"])
def test_a_command_that_has_ended_or_ignores_interrupts_keeps_its_exit_code(moment):
    done = interrupted(moment)
    assert (done.returncode, done.stderr) == (1, "")


def test_the_line_says_whether_the_run_was_complete(tmp_path):
    folder = tmp_path / "run"
    assert goes_on(folder)() == f"the same command with --out {folder} goes on from here."
    store = RunStore.create(folder, manifest())
    assert goes_on(folder)().endswith("goes on from here.")
    store.finish("complete")
    assert goes_on(folder)() == f"the run in {folder} was complete."
