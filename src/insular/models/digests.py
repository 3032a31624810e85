"""Name a model by the bytes of its files."""

import hashlib
from pathlib import Path


def file_digest(path: Path) -> str:
    """SHA-256 of a file.

    Args:
        path: The file.

    Returns:
        The digest in hex.
    """
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def folder_digest(folder: Path) -> str:
    """SHA-256 over the names and digests of a model folder's configuration and weights.

    Guarantees:
        * It depends on ``config.json``, ``*.safetensors`` and their index: names and bytes. Other
          files, times and the folder's own name do not matter.

    Args:
        folder: A model folder.

    Returns:
        The digest in hex.
    """
    files = {
        *folder.glob("config.json"),
        *folder.glob("*.safetensors"),
        *folder.glob("*.safetensors.index.json"),
    }
    total = hashlib.sha256()
    for path in sorted(files):
        total.update(f"{path.name}\0{file_digest(path)}\n".encode())
    return total.hexdigest()
