"""Checks of matrices whose rows are records, pairs or candidates."""

import torch
from torch import Tensor

from insular.errors import InvalidArgumentError


def checked_rows(rows: Tensor, *, name: str, hidden_size: int | None = None) -> Tensor:
    """The rows in float64, if they are finite numbers in rows of the size that is asked for."""
    if rows.ndim != 2:
        raise InvalidArgumentError(
            f"{name} must have two axes, rows and hidden, got shape {tuple(rows.shape)}; give one "
            f"row as {name}[None]."
        )
    if not rows.dtype.is_floating_point:
        raise InvalidArgumentError(f"{name} must be floating point, got {name} of {rows.dtype}.")
    if rows.shape[1] == 0:
        raise InvalidArgumentError(f"{name} must have a hidden size of at least 1, got 0.")
    if hidden_size is not None and rows.shape[1] != hidden_size:
        raise InvalidArgumentError(
            f"{name} must have hidden size {hidden_size}, got {rows.shape[1]}."
        )
    found = rows.detach().to(torch.float64)
    # a finite sum proves finite terms; the other way round needs the slow look
    if not bool(torch.isfinite(found.sum())) and not bool(torch.isfinite(found).all()):
        raise InvalidArgumentError(f"{name} must be finite, got NaN or infinity in it.")
    return found
