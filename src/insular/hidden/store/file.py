"""A store as one safetensors file: kept rows, ids and a digest of both."""

import json
from hashlib import sha256
from pathlib import Path

import numpy as np

from insular.errors import EvidenceError, InvalidArgumentError
from insular.evidence import write_atomic
from insular.evidence.files import read_bytes
from insular.hidden.mechanisms import Release
from insular.hidden.store.hidden_store import HiddenStore
from insular.hidden.store.index import IndexKind

_KEY = "insular store"
_VERSION = 1


def save_store(store: HiddenStore, path: str | Path) -> None:
    """Write a store: rows as they are read back, in float32, and ids as they were given.

    Guarantees:
        * The file is complete or absent.
        * It holds nothing of a clean state, and no noise generator.

    Args:
        store: The store.
        path: The file.
    """
    from safetensors.numpy import save

    tensors = {"rows": store.rows}
    header = {
        "version": _VERSION,
        "storage": store.storage,
        "release": _digest(store.release),
        "ids": list(store.ids),
    }
    header["sha256"] = _content(header, store.rows)
    write_atomic(path, save(tensors, {_KEY: json.dumps(header, sort_keys=True)}))


def load_store(
    path: str | Path, *, release: Release | None = None, index: IndexKind = "numpy"
) -> HiddenStore:
    """Read a store; what is written to it from now on has noise from a secure stream.

    Guarantees:
        * A search finds what it found before the store was saved.
        * Another release than that of the rows, or none, is refused.

    Args:
        path: What ``save_store`` wrote.
        release: The mechanism of the store, such as ``load_release`` returns.
        index: ``numpy`` or ``faiss``.

    Returns:
        The store.

    Raises:
        EvidenceError: If it is not such a file, or was changed.
        InvalidArgumentError: If the release is another one.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    data = read_bytes(path)
    try:
        rows = load(data)["rows"]
        size = int.from_bytes(data[:8], "little")
        header = json.loads(json.loads(data[8 : 8 + size])["__metadata__"][_KEY])
        whole = header["version"] == _VERSION and header.pop("sha256") == _content(header, rows)
        if not whole or len(rows) != len(header["ids"]):
            raise EvidenceError(f"{path} is of another version, or was changed.")
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise EvidenceError(
            f"{path} is not a store that this version reads ({type(error).__name__}); save it "
            "again with save_store."
        ) from error
    if header["release"] != _digest(release):
        raise InvalidArgumentError(
            f"release must be the one that {path} was written through, got "
            f"{'none' if release is None else 'another one'}; pass what load_release returns."
        )
    store = HiddenStore(
        hidden_size=rows.shape[1], release=release, storage=header["storage"], index=index
    )
    store._keep(header["ids"], rows)
    return store


def _digest(release: Release | None) -> str:
    """What tells a release from others; empty for none."""
    from safetensors.torch import save

    if release is None:
        return ""
    tensors = {name: tensor.contiguous() for name, tensor in release.tensors().items()}
    return sha256(release.mechanism.kind.encode() + save(tensors)).hexdigest()


def _content(header: dict[str, object], rows: np.ndarray) -> str:
    """Digest of a header without its own digest, and of the rows."""
    text = json.dumps(header, sort_keys=True)
    return sha256(text.encode() + np.ascontiguousarray(rows).tobytes()).hexdigest()
