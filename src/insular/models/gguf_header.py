"""Check a GGUF file before a model is built from it."""

from dataclasses import dataclass
from pathlib import Path
from typing import final

from insular.errors import ModelError

_MAGIC = b"GGUF"


@final
@dataclass(frozen=True, kw_only=True)
class GgufHeader:
    """What a GGUF file says of itself."""

    architecture: str
    """Architecture name, for example ``"llama"``."""
    tensor_types: tuple[str, ...]
    """Storage types of its tensors, sorted, for example ``("F32", "Q4_1")``."""
    has_tokenizer: bool
    """Whether it holds a vocabulary."""


def read_gguf_header(path: Path) -> GgufHeader:
    """Read a GGUF file's metadata and prove that its tensors are all there and readable.

    Args:
        path: The file.

    Returns:
        Architecture, tensor types and whether there is a tokenizer.

    Raises:
        ModelError: If the file is empty, is not GGUF, is cut short, or holds an architecture or
            a tensor type that transformers cannot read.
    """
    check_gguf_magic(path)
    from gguf import GGUFReader

    try:
        reader = GGUFReader(path)
        field = reader.get_field("general.architecture")
        architecture = str(field.contents()) if field is not None else ""
    except (ValueError, IndexError, KeyError, TypeError, OverflowError, MemoryError) as error:
        raise ModelError(
            f"GGUF file '{path}' is truncated or corrupt: its header does not describe its "
            f"{path.stat().st_size} bytes; copy or download it again."
        ) from error
    _check_architecture(path, architecture)
    return GgufHeader(
        architecture=architecture,
        tensor_types=_check_tensor_types(path, reader.tensors),
        has_tokenizer=reader.get_field("tokenizer.ggml.tokens") is not None,
    )


def check_gguf_magic(path: Path) -> None:
    """Refuse a file that is empty or does not start as a GGUF file does.

    Args:
        path: The file.

    Raises:
        ModelError: Naming the file and which of the two it is.
    """
    with path.open("rb") as stream:
        start = stream.read(len(_MAGIC))
    if not start:
        raise ModelError(f"GGUF file '{path}' is empty (0 bytes); copy or download it again.")
    if start != _MAGIC:
        raise ModelError(
            f"'{path}' is not a GGUF file: it must start with the bytes 'GGUF'; "
            "check that the name is of a model file."
        )


def _check_architecture(path: Path, architecture: str) -> None:
    """Refuse an architecture that transformers cannot build."""
    from transformers.modeling_gguf_pytorch_utils import GGUF_SUPPORTED_ARCHITECTURES

    # The two sides spell some names apart: qwen2moe and qwen2_moe, gpt-oss and gpt_oss.
    known = {_bare(name) for name in GGUF_SUPPORTED_ARCHITECTURES}
    if _bare(architecture) not in known:
        raise ModelError(
            f"GGUF file '{path}' has the architecture '{architecture}', which transformers cannot "
            "read from GGUF; give the model as a folder with config.json and safetensors."
        )


def _check_tensor_types(path: Path, tensors: list) -> tuple[str, ...]:
    """Refuse a storage type that cannot be dequantised; one row of each type is tried."""
    from gguf.quants import dequantize

    kinds = {tensor.tensor_type: tensor for tensor in tensors}
    for kind, tensor in kinds.items():
        try:
            dequantize(tensor.data[:1], kind)
        except (NotImplementedError, ValueError, KeyError) as error:
            raise ModelError(
                f"GGUF file '{path}' stores the tensor '{tensor.name}' as {kind.name}, which "
                "cannot be dequantised; use a file with another quantisation."
            ) from error
    return tuple(sorted(kind.name for kind in kinds))


def _bare(name: str) -> str:
    """An architecture name without its separators."""
    return name.lower().replace("_", "").replace("-", "")
