"""The process of the ``insular`` command, from its first moment to its exit code."""

import sys
from typing import NoReturn

from insular.cli import interrupts


def main() -> NoReturn:
    """Run the command line and leave with its exit code.

    Guarantees:
        * An interrupt at any moment until the command has ended is one line and exit code 130.
    """
    try:
        interrupts.watch()
        code = _command()
        interrupts.ignore()
    except KeyboardInterrupt:
        code = interrupts.leave()
    sys.exit(code)


def _command() -> int | str | None:
    """The exit code; the commands are imported here, where an interrupt is already noticed."""
    try:
        from insular.cli.app import main as run

        run()
        code = 0
    except SystemExit as end:
        code = end.code
    except Exception:
        if not interrupts.noticed():
            raise
        code = None  # what an interrupt broke is not an error of its own
    return interrupts.leave() if interrupts.noticed() else code
