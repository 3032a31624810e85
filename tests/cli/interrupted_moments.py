"""The command line, interrupted at a chosen moment: ``python -m cli.interrupted_moments NAME``."""

import atexit
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from insular.cli import interrupts, process


def press() -> None:
    """As the terminal does it; Python answers before the next line."""
    os.kill(os.getpid(), signal.SIGINT)


def say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def during_imports() -> None:
    class Presses:
        """Finds nothing, and is asked first."""

        def find_spec(self, name: str, *_: Any) -> None:
            if name == "insular.cli.train":
                press()

    sys.meta_path.insert(0, Presses())
    process.main()


def run_instead(work: Callable[[], int]) -> None:
    """The process with this as the work of ``insular train``."""
    from insular.cli import train

    train.settings = lambda *_: None  # type: ignore[assignment]
    train._run = lambda *_, **__: work()  # type: ignore[assignment]
    sys.argv = ["insular", "train", "--out", "a-folder"]
    process.main()


def while_settings_are_read() -> None:
    from insular.cli import train

    train.settings = lambda *_: press()  # type: ignore[assignment]
    sys.argv = ["insular", "train", "--out", "a-folder"]
    process.main()


def while_it_runs() -> None:
    def work() -> int:
        try:
            press()
            return 1
        finally:
            press()  # a launcher passes the same press on
            say("tidied")

    run_instead(work)


def in_a_finaliser() -> None:
    class Presses:
        def __del__(self) -> None:
            press()
            say("not reached")

    def work() -> int:
        thing = Presses()
        del thing
        time.sleep(60)
        return 1

    run_instead(work)


def where_it_is_caught() -> None:
    def work() -> int:
        from insular.cli.progress import TaskProgress

        with TaskProgress(lambda _: 1, quiet=True) as progress:
            try:
                press()
            except BaseException:
                say("caught")
            progress("task", "goes on")
        return 1

    run_instead(work)


def where_it_becomes_another_error() -> None:
    def work() -> int:
        try:
            press()
        except KeyboardInterrupt:
            raise RuntimeError("a worker ended") from None
        return 1

    run_instead(work)


def where_it_changes_nothing() -> None:
    def work() -> int:
        try:
            press()
        except BaseException:
            say("caught")
        return 1

    run_instead(work)


def in_a_text_that_is_executed() -> None:
    run_instead(lambda: exec("press()") or 1)  # as a dataclass is made


def while_a_worker_goes_on() -> None:
    def work() -> int:
        from joblib.externals.loky import get_reusable_executor

        endless = get_reusable_executor(max_workers=1).submit(time.sleep, 3600)
        while not endless.running():
            time.sleep(0.01)
        press()
        return 1

    run_instead(work)


def while_the_result_is_shown() -> None:
    from insular.cli import budget

    budget.print_json = lambda *_: press()  # type: ignore[assignment]
    line = "insular budget epsilon --noise-multiplier 1 --sampling-prob 0.5 --steps 1 --delta 1e-5"
    sys.argv = line.split()
    process.main()


def twice() -> None:
    interrupts.ONE_PRESS_S = 0.2

    def work() -> int:
        try:
            press()
            return 1
        finally:
            time.sleep(0.5)
            press()
            say("not reached")

    run_instead(work)


def after_the_end() -> None:
    atexit.register(press)
    run_instead(lambda: 1)


def where_it_is_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    run_instead(lambda: press() or 1)


if __name__ == "__main__":
    globals()[sys.argv.pop()]()
