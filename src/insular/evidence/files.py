"""Files that are either the old one or the new one, and digests of what they hold."""

import contextlib
import errno
import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from insular.errors import EvidenceError, InvalidArgumentError

if TYPE_CHECKING:
    import numpy as np

_REMEDIES = {
    errno.ENOSPC: " Free some space and run again.",
    errno.EDQUOT: " Free some space and run again.",
    errno.EROFS: " Choose a folder that can be written.",
    errno.EACCES: " Choose a folder that you may use.",
    errno.EPERM: " Choose a folder that you may use.",
}


def write_atomic(path: str | Path, data: bytes | str) -> None:
    """Put ``data`` at ``path`` whole, or leave what was there.

    The data goes to a hidden file in the same folder, reaches the disk, and then takes the name.

    Guarantees:
        * Whoever opens ``path``, at any moment and after any crash, finds the complete old
          content or the complete new content.
        * A write that fails (disk full, folder read-only, interrupted) leaves no other file. One
          that is killed can leave its hidden file, which ``remove_leftovers`` deletes.

    Args:
        path: The file. Its folder must exist.
        data: Bytes, or text that is written as UTF-8 with its newlines as they are.

    Raises:
        EvidenceError: Naming the path and the system's reason.
    """
    path = Path(path)
    content = data.encode("utf-8") if isinstance(data, str) else data
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    with explained(path, doing="write"):
        try:
            with open(temporary, "xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
    _sync_folder(path.parent)


def remove_leftovers(folder: Path) -> None:
    """Delete the hidden files that killed writes left in a folder.

    Args:
        folder: A folder in which nobody writes now.
    """
    with explained(folder, doing="tidy"):
        for leftover in folder.glob(".*.tmp"):
            leftover.unlink(missing_ok=True)


def read_bytes(path: str | Path) -> bytes:
    """The content of a file.

    Args:
        path: The file.

    Returns:
        Its bytes.

    Raises:
        EvidenceError: Naming the path and the system's reason.
    """
    with explained(path, doing="read"):
        return Path(path).read_bytes()


def sha256_of(path: str | Path) -> str:
    """The SHA-256 of a file.

    Args:
        path: The file, read in pieces.

    Returns:
        64 hexadecimal digits.

    Raises:
        EvidenceError: Naming the path and the system's reason.
    """
    with explained(path, doing="read"), open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_array(array: "np.ndarray") -> str:
    """The SHA-256 of an array's dtype, shape and elements.

    Guarantees:
        * Arrays of equal dtype, shape and bits have equal digests, whatever their strides and
          byte order.
        * 0.0 and -0.0 differ, as do a row and a column of the same numbers.

    Args:
        array: Booleans, integers, floats or complex numbers.

    Returns:
        64 hexadecimal digits.

    Raises:
        InvalidArgumentError: If the elements are of another kind.
    """
    import numpy as np

    if array.dtype.kind not in "biufc" or array.dtype.char in "gG":  # g, G: padded long doubles
        raise InvalidArgumentError(f"array must hold plain numbers, got dtype={array.dtype!s}.")
    little = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
    digest = hashlib.sha256(f"{little.dtype.str} {little.shape} ".encode())
    digest.update(little.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


@contextmanager
def explained(path: str | Path, *, doing: str) -> Iterator[None]:
    """Turn an error of the system into one clear line.

    Args:
        path: The file or folder that the line names.
        doing: The verb: ``"read"``, ``"write"``.

    Yields:
        Nothing.

    Raises:
        EvidenceError: Naming the path and the system's reason.
    """
    try:
        yield
    except EvidenceError:
        raise
    except OSError as error:
        reason = error.strerror or type(error).__name__
        remedy = _REMEDIES.get(error.errno or 0, "")
        raise EvidenceError(f"cannot {doing} {path}: {reason}.{remedy}") from error


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut, where the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
