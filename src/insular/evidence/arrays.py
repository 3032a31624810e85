"""NumPy arrays as safetensors bytes, and the reference that a result keeps of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, final

from insular.errors import EvidenceError, InvalidArgumentError

if TYPE_CHECKING:
    import numpy as np

_DTYPES = (
    *("bool", "float16", "float32", "float64", "complex64"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
)


@final
@dataclass(frozen=True, kw_only=True)
class ArrayFact:
    """One array, as a file of arrays declares it."""

    name: str
    """Its key in the file."""
    dtype: str
    """NumPy's name of the element type."""
    shape: tuple[int, ...]
    """Its axes."""


@final
@dataclass(frozen=True, kw_only=True)
class ArrayRef:
    """A file of arrays, by path and digest."""

    file: str
    """Path in the run folder; it ends in the first 12 digits of the digest."""
    sha256: str
    """Digest of the file."""
    arrays: tuple[ArrayFact, ...]
    """What it holds, in alphabetical order."""


def pack(name: str, arrays: Mapping[str, "np.ndarray"]) -> tuple[ArrayRef, bytes]:
    """Turn arrays into the bytes of one safetensors file.

    Guarantees:
        * Equal arrays give equal bytes, whatever their strides, byte order and order in the
          mapping.

    Args:
        name: Stem of the file.
        arrays: Booleans or numbers, by name.

    Returns:
        The reference and the bytes.

    Raises:
        InvalidArgumentError: If an array has a dtype that the format cannot hold.
    """
    import numpy as np
    from safetensors.numpy import save

    ready: dict[str, np.ndarray] = {}
    for key, array in sorted(arrays.items()):
        if array.dtype.name not in _DTYPES:
            raise InvalidArgumentError(
                f"arrays must have a dtype of {', '.join(_DTYPES)}; got {key} of {array.dtype!s}."
            )
        ready[key] = np.asarray(array, dtype=array.dtype.newbyteorder("="), order="C")
    data = save(ready)
    digest = sha256(data).hexdigest()
    file = f"arrays/{name}-{digest[:12]}.safetensors"
    return ArrayRef(file=file, sha256=digest, arrays=_facts(ready)), data


def unpack(ref: ArrayRef, data: bytes) -> dict[str, "np.ndarray"]:
    """Read arrays from bytes, if these are the ones that the reference names.

    Guarantees:
        * Bytes with another digest are refused before they are parsed.
        * The arrays are read-only.

    Args:
        ref: What ``pack`` returned.
        data: Content of the file.

    Returns:
        The arrays by name.

    Raises:
        EvidenceError: If the digest, the names, the dtypes or the shapes differ.
    """
    found = sha256(data).hexdigest()
    if found != ref.sha256:
        raise EvidenceError(
            f"{ref.file} was changed: its sha256 is {found[:12]}, the result says "
            f"{ref.sha256[:12]}."
        )
    from safetensors.numpy import load

    arrays = load(data)
    for array in arrays.values():
        array.setflags(write=False)
    if _facts(arrays) != ref.arrays:
        raise EvidenceError(f"{ref.file} holds other arrays than the result says.")
    return arrays


def _facts(arrays: Mapping[str, "np.ndarray"]) -> tuple[ArrayFact, ...]:
    """Name, dtype and shape of each array, by name."""
    return tuple(
        ArrayFact(name=key, dtype=array.dtype.name, shape=tuple(array.shape))
        for key, array in sorted(arrays.items())
    )
