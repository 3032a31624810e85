"""Progress where there is no terminal: what a log of a long run holds."""

import pytest

from insular.cli import progress
from insular.cli.progress import TaskProgress


def test_a_log_hears_of_a_task_at_its_start_its_end_and_once_a_minute(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with TaskProgress(lambda task: 100, quiet=False) as show:
        show("", "reading wikipedia")
        for second in range(0, 150, 10):
            now[0] = float(second)
            show("states", f"{second} of 150")
        now[0] = 150.0
        show("states", "done")
    assert capsys.readouterr().err.splitlines() == [
        "  reading wikipedia",
        "  states: running",
        "  states: 60 of 150",
        "  states: 120 of 150",
        "  states: done, 150 s",
    ]


def test_a_quiet_run_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with TaskProgress(lambda task: 1, quiet=True) as show:
        show("states", "1 of 1")
        show("states", "done")
    assert capsys.readouterr().err == ""
