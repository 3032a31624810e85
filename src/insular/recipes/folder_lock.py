"""One process at a time in a folder that several may be told to write to."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from insular.errors import EvidenceError


@contextmanager
def alone_in(folder: Path, *, doing: str, option: str) -> Iterator[None]:
    """Hold a folder, which is made if it is not there, against other processes that ask.

    Guarantees:
        * Of two processes, or two who ask within one, the second is refused at once.
        * The folder is free again at the end, also where the process is killed.
        * No file is added to it.

    Where the platform or the file system has no such locks, nothing is held.

    Args:
        folder: The folder.
        doing: What its holder does, for the error: ``extracting into``.
        option: Names the folder on the command line, for the error.

    Yields:
        Nothing.

    Raises:
        EvidenceError: If another one holds it, or it cannot be made.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        held = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise EvidenceError(
            f"cannot use {folder}: {error.strerror or error}; choose another {option}."
        ) from None
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise EvidenceError(
                    f"another run is {doing} {folder}; wait until it is done, or choose another "
                    f"{option}."
                ) from None
        yield
    finally:
        os.close(held)  # frees it
