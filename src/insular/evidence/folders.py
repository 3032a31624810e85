"""Where a run goes, whether a folder is free, and which names its files may have."""

import re
from datetime import UTC, datetime
from pathlib import Path

from insular.errors import EvidenceError, InvalidArgumentError
from insular.evidence.files import explained, read_bytes
from insular.evidence.manifest import RunManifest, decode_manifest

MANIFEST = "manifest.json"
"""The file that makes a folder a run."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def default_run_path(base: str | Path, stem: str, *, now: datetime | None = None) -> Path:
    """A free path such as ``runs/isolation-20260102-030405``.

    Args:
        base: Folder of all runs. It need not exist.
        stem: Start of the name.
        now: The time in its name, by default this second. It is put into UTC.

    Returns:
        A path that does not exist; ``-2``, ``-3`` and so on mark runs of the same second.
        Nothing is created.
    """
    time = (now or datetime.now(UTC)).astimezone(UTC)
    first = Path(base) / f"{checked_name(stem)}-{time:%Y%m%d-%H%M%S}"
    path, number = first, 1
    with explained(base, doing="use"):
        while path.exists():
            number += 1
            path = first.with_name(f"{first.name}-{number}")
    return path


def refuse_used(path: Path) -> None:
    """Check that a folder is new or empty, without touching it.

    Args:
        path: The folder.

    Raises:
        EvidenceError: Saying what is there and what to do.
    """
    with explained(path, doing="use"):
        if (path / MANIFEST).is_file():
            old = read_manifest(path)
            raise EvidenceError(
                f"{path} already holds a run ({old.kind}, {old.status}); open that run to resume "
                "it or choose another --out."
            )
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise EvidenceError(f"{path} exists and is not a run folder; choose another --out.")


def read_manifest(path: Path) -> RunManifest:
    """Read the manifest of a run.

    Args:
        path: The folder.

    Returns:
        The manifest.

    Raises:
        EvidenceError: If there is none or it cannot be read.
    """
    file = path / MANIFEST
    with explained(path, doing="read"):
        if not file.is_file():
            raise EvidenceError(f"{path} is not a run folder: it has no {MANIFEST}.")
    return decode_manifest(read_bytes(file), source=str(file))


def checked_name(name: str) -> str:
    """Refuse a name that could leave its folder, hide, or replace the manifest.

    Args:
        name: Name of a file in a run folder.

    Returns:
        The same name.

    Raises:
        InvalidArgumentError: If it is none.
    """
    if not _NAME.fullmatch(name) or name.lower() == MANIFEST:
        raise InvalidArgumentError(
            f"name must be letters, digits, dot, dash and underscore, start with a letter or "
            f"digit, and not be {MANIFEST}; got name={name!r}."
        )
    return name
