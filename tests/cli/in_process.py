"""The command line in this process: as a user meets it, without the start of an interpreter."""

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from unittest import mock

from insular.cli.app import main


@dataclass(frozen=True)
class Done:
    """What a command left."""

    code: int
    stdout: str
    stderr: str


def insular(*arguments: str) -> Done:
    """Run ``insular`` with these arguments; an error that is not ours leaves here as it is."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["insular", *arguments]),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    return Done(code, out.getvalue(), err.getvalue())
