"""Progress on standard error: one line a task on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self, final

from insular.cli import interrupts

if TYPE_CHECKING:
    from rich.progress import TaskID

_SILENCE_SECONDS = 60.0
"""How long a log hears nothing of a task that goes on."""


@final
class TaskProgress:
    """Shows what each task is doing. Say nothing with ``quiet``.

    On a terminal the tasks are lines that change in place. Elsewhere a line is printed when a task
    starts, when it ends, and once a minute in between, so that a log stays short.
    """

    def __init__(self, n_lines: Callable[[str], int], *, quiet: bool) -> None:
        """``n_lines`` says about how many lines a task reports."""
        self._n_lines = n_lines
        self._quiet = quiet
        self._bars: dict[str, TaskID] = {}
        self._started: dict[str, float] = {}
        self._said: dict[str, float] = {}
        self._live = None
        if not quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            self._live = Progress(
                TextColumn("{task.description:<20.20}"),
                BarColumn(bar_width=16),
                TextColumn("{task.fields[doing]:<24.24}"),
                TimeElapsedColumn(),
                console=Console(stderr=True, width=80),
            )

    def __enter__(self) -> Self:
        """Start showing."""
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop showing."""
        if self._live is not None:
            self._live.stop()

    def __call__(self, task: str, line: str) -> None:
        """Take one line of one task; an empty task is the preparation."""
        interrupts.check()  # a library may have caught one
        if self._quiet:
            return
        if self._live is None:
            self._print(task, line)
            return
        name = task or "preparing"
        if name not in self._bars:
            total = self._n_lines(task) if task else None
            self._bars[name] = self._live.add_task(name, total=total, doing=line)
        done = line.startswith("done")
        if task and "" not in self._bars and "preparing" in self._bars:
            self._live.update(self._bars["preparing"], total=1, completed=1, doing="done")
        if done:
            self._live.update(self._bars[name], completed=self._n_lines(task), doing=line)
        else:
            self._live.update(self._bars[name], advance=1, doing=line)

    def _print(self, task: str, line: str) -> None:
        """A line at the start and at the end of a task, and sometimes in between."""
        if not task:
            print(f"  {line}", file=sys.stderr, flush=True)  # noqa: T201
            return
        now, started = time.monotonic(), self._started.get(task)
        if line.startswith("done"):
            shown = line if started is None else f"{line}, {now - started:.0f} s"
        elif started is None:
            self._started[task], shown = now, "running"
        elif now - self._said[task] >= _SILENCE_SECONDS:
            shown = line
        else:
            return
        self._said[task] = now
        print(f"  {task}: {shown}", file=sys.stderr, flush=True)  # noqa: T201
