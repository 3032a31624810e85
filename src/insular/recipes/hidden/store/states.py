"""States from a file, for a store."""

from pathlib import Path

from torch import Tensor

from insular.errors import RecordError
from insular.recipes.hidden.inversion.prompts import read_tensors


def read_matrix(path: Path) -> Tensor:
    """The one matrix of a safetensors file.

    Args:
        path: The file.

    Returns:
        Float32 rows.

    Raises:
        RecordError: If it cannot be read, or holds none or several.
    """
    tensors = read_tensors(path).values()
    found = [one for one in tensors if one.ndim == 2 and one.is_floating_point()]
    if len(found) != 1:
        raise RecordError(f"{path} must hold one matrix of states, got {len(found)}.")
    return found[0].float()
