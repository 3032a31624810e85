"""An interrupt that is neither lost nor answered with a traceback.

Python alone loses some: what is raised inside a finaliser is printed and dropped, and a library may
catch it. The run then goes on, and its exit code is a verdict's. Only :func:`watch`, which the
process of the command line calls, changes how interrupts are taken; without it nothing here does.
"""

import _thread
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, final

EXIT_CODE = 130
ONE_PRESS_S = 1.0
"""A launcher passes on the interrupt that the terminal has sent already: that is one press."""


@final
class _Watch:
    """What is known about the interrupts of this process."""

    def __init__(self) -> None:
        self.on = False
        self.main_thread = 0
        self.first_s: float | None = None
        self.again = False
        """Whether the last one was dropped and has to come again."""
        self.told = False
        self.unraisable: Callable[[Any], object] = sys.unraisablehook


_watch = _Watch()


def watch() -> None:
    """Take interrupts from here to the end of the process; call it in the main thread.

    Guarantees:
        * The first one raises ``KeyboardInterrupt``, once more if a finaliser dropped it.
        * While what it stopped is being tidied up, the same press does not disturb; a later press
          ends the process at once, with its worker processes.
        * A process that was started to ignore interrupts ignores them.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return
    _watch.main_thread = _thread.get_ident()
    _watch.unraisable, sys.unraisablehook = sys.unraisablehook, _unraisable
    signal.signal(signal.SIGINT, _on_interrupt)
    _watch.on = True


def noticed() -> bool:
    """Whether an interrupt came, even if something dropped it."""
    return _watch.first_s is not None


def check() -> None:
    """Raise a noticed interrupt again: whoever calls this in the main thread was to be stopped."""
    if noticed() and _thread.get_ident() == _watch.main_thread:
        raise KeyboardInterrupt


def leave(how: str = "") -> int:
    """Say once that the command was interrupted; from here on nothing interrupts it.

    Args:
        how: How to go on.

    Returns:
        The exit code.
    """
    ignore()
    exec("")  # an interrupt that went through exec() of a text has Python end by signal 2 otherwise
    if not _watch.told:
        sys.stderr.write(f"insular: interrupted{how and '; '}{how or '.'}\n")
        sys.stderr.flush()
    if _watch.on:
        _watch.told = True
        _end_workers()
    return EXIT_CODE


def ignore() -> None:
    """The command has ended: what its process still does is not interrupted."""
    if _watch.on:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _on_interrupt(number: int, frame: FrameType | None) -> None:
    """Stop what runs; at a later press, the process."""
    now = time.monotonic()
    if _watch.first_s is None or _watch.again:
        _watch.first_s, _watch.again = now, False
        raise KeyboardInterrupt
    if now - _watch.first_s > ONE_PRESS_S:
        _end_workers()
        show_cursor = b"\x1b[?25h\n" if os.isatty(2) else b""  # which a progress bar hides
        line = b"" if _watch.told else b"insular: interrupted twice; nothing was tidied up.\n"
        os.write(2, show_cursor + line)  # sys.stderr may be in the middle of a line
        os._exit(EXIT_CODE)


def _unraisable(dropped: Any) -> None:
    """Send an interrupt again that a finaliser dropped, once that has ended."""
    if issubclass(dropped.exc_type, KeyboardInterrupt):
        _watch.again = True
        _thread.start_new_thread(_send_again, ())  # threading's locks may be held at this moment
    else:
        _watch.unraisable(dropped)


def _send_again() -> None:
    """To the main thread, so that it also ends a wait there."""
    time.sleep(0.01)
    signal.pthread_kill(_watch.main_thread, signal.SIGINT)


def _end_workers() -> None:
    """Worker processes do not take interrupts themselves."""
    processes = sys.modules.get("multiprocessing")
    for child in processes.active_children() if processes else ():
        with contextlib.suppress(ProcessLookupError):  # joblib's have no kill()
            os.kill(child.pid, signal.SIGKILL)
