"""A release as one safetensors file: tensors bit for bit, settings as JSON in its header."""

import dataclasses
import json
from hashlib import sha256
from pathlib import Path

import torch

from insular.errors import EvidenceError
from insular.evidence import write_atomic
from insular.evidence.files import read_bytes
from insular.hidden.mechanisms.interface import Release
from insular.hidden.mechanisms.table import MECHANISMS

_KEY = "insular release"
_VERSION = 1


def save_release(release: Release, path: str | Path) -> None:
    """Write a release.

    Guarantees:
        * What ``load_release`` returns draws the same noise from the same generator, bit for bit.
        * The file is complete or absent.

    Args:
        release: The release.
        path: The file.
    """
    from safetensors.torch import save

    tensors = {name: tensor.contiguous() for name, tensor in release.tensors().items()}
    header = {
        "version": _VERSION,
        "kind": release.mechanism.kind,
        "settings": dataclasses.asdict(release.mechanism),
        "budget_nats": release.budget_nats,
        "tensors_sha256": sha256(save(tensors)).hexdigest(),
    }
    write_atomic(path, save(tensors, {_KEY: json.dumps(header, sort_keys=True)}))


def load_release(path: str | Path) -> Release:
    """Read a release.

    Args:
        path: What ``save_release`` wrote.

    Returns:
        The release.

    Raises:
        EvidenceError: If it is not such a file, or was changed.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load, save

    data = read_bytes(path)
    try:
        tensors = load(data)
        size = int.from_bytes(data[:8], "little")
        header = json.loads(json.loads(data[8 : 8 + size])["__metadata__"][_KEY])
        if (
            header["version"] != _VERSION
            or header["tensors_sha256"] != sha256(save(tensors)).hexdigest()
        ):
            raise EvidenceError(f"{path} is of another version, or was changed.")
        if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values()):
            raise EvidenceError(f"{path} holds numbers that are not finite.")
        mechanism = MECHANISMS[header["kind"]](**header["settings"])
        return mechanism.release_type.restored(mechanism, header["budget_nats"], tensors)
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise EvidenceError(
            f"{path} is not a release that this version reads ({type(error).__name__}); save it "
            "again with save_release."
        ) from error
