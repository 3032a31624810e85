"""Progress on standard error: one line an arm on a terminal, plain lines elsewhere."""

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self, final

if TYPE_CHECKING:
    from rich.progress import TaskID


@final
class ArmProgress:
    """Shows what each arm is doing. Say nothing with ``quiet``.

    On a terminal the arms are lines that change in place. Elsewhere a line is printed when an arm
    starts and when it ends, so that a log stays short.
    """

    def __init__(self, n_steps: int, *, quiet: bool) -> None:
        """``n_steps`` is how many lines an arm reports, about."""
        self._n_steps = n_steps
        self._quiet = quiet
        self._bars: dict[str, TaskID] = {}
        self._started: dict[str, float] = {}
        self._live = None
        if not quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            self._live = Progress(
                TextColumn("{task.description:<14}"),
                BarColumn(bar_width=20),
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

    def __call__(self, arm: str, line: str) -> None:
        """Take one line of one arm; an empty arm is the preparation."""
        if self._quiet:
            return
        if self._live is None:
            self._print(arm, line)
            return
        name = arm or "preparing"
        if name not in self._bars:
            total = self._n_steps if arm else None
            self._bars[name] = self._live.add_task(name, total=total, doing=line)
        done = line.startswith("done")
        if arm and "" not in self._bars and "preparing" in self._bars:
            self._live.update(self._bars["preparing"], total=1, completed=1, doing="done")
        if done:
            self._live.update(self._bars[name], completed=self._n_steps, doing=line)
        else:
            self._live.update(self._bars[name], advance=1, doing=line)

    def _print(self, arm: str, line: str) -> None:
        """A line at the start and at the end of an arm."""
        if not arm:
            print(f"  {line}", file=sys.stderr, flush=True)  # noqa: T201
        elif line.startswith("done"):
            seconds = time.monotonic() - self._started.get(arm, time.monotonic())
            print(f"  {arm}: {line}, {seconds:.0f} s", file=sys.stderr, flush=True)  # noqa: T201
        elif arm not in self._started:
            self._started[arm] = time.monotonic()
            print(f"  {arm}: running", file=sys.stderr, flush=True)  # noqa: T201
