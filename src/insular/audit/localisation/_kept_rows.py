"""What of a batch's tensors belongs to each kept record: find, compare, set back."""

from collections.abc import Mapping, Sequence
from typing import Literal, final

import torch
from torch import Tensor

Layout = Literal["token", "query", "flat", "record"]
"""``[record, token, ...]``, ``[record, head, token, ...]``, ``[record * token, ...]``,
``[record, ...]``."""


@final
class KeptRows:
    """Where some records' real positions lie in every tensor of one batch.

    Args:
        mask: Real positions of the batch, ``[record, token]``.
        positions: Positions of the kept records, in an order that both batches share.
    """

    def __init__(self, mask: Tensor, positions: Sequence[int]) -> None:
        self._n_records, self._n_tokens = mask.shape
        self._places = [(position, _span(mask[position])) for position in positions]

    def layout(self, tensor: Tensor) -> Layout | None:
        """How the rows of a tensor belong to records, or None if they do not."""
        shape, sizes = tensor.shape, (self._n_records, self._n_tokens)
        if shape[:2] == sizes:
            return "token"
        if tensor.dim() > 1 and shape[0] == sizes[0]:
            return "query" if tensor.dim() == 4 and shape[2] == sizes[1] else "record"
        if tensor.dim() > 1 and shape[0] == sizes[0] * sizes[1]:
            return "flat"
        # one integer per record may as well be one per position
        return "record" if shape == sizes[:1] and tensor.is_floating_point() else None

    def rows(self, tensor: Tensor, layout: Layout) -> list[Tensor]:
        """Each kept record's rows; views where its real positions are contiguous."""
        return [self._own(tensor.detach(), layout, place) for place in self._places]

    def set_back(self, tensor: Tensor, layout: Layout, rows: Mapping[int, Tensor]) -> Tensor:
        """A copy of a tensor with the rows of some kept records replaced."""
        copy = tensor.detach().clone()
        for k, own in rows.items():
            position, real = self._places[k]
            record = self._record(copy, layout, position)
            if layout == "query":
                record[:, real] = own
            else:
                record[... if layout == "record" else real] = own
        return copy

    def _own(self, tensor: Tensor, layout: Layout, place: tuple[int, slice | Tensor]) -> Tensor:
        position, real = place
        record = self._record(tensor, layout, position)
        if layout == "record":
            return record
        return record[:, real] if layout == "query" else record[real]

    def _record(self, tensor: Tensor, layout: Layout, position: int) -> Tensor:
        """The record's part of a tensor, padding included."""
        if layout != "flat":
            return tensor[position]
        return tensor[position * self._n_tokens : (position + 1) * self._n_tokens]


def peak(rows: Tensor) -> float:
    """The largest magnitude."""
    return float(rows.abs().max()) if rows.numel() else 0.0


def relative_change(one: Tensor, two: Tensor, *, scale: float | None = None) -> float:
    """Largest change over a scale, which is by default the largest magnitude of the same row.

    Args:
        one: A record's rows in the base batch; a row lies along the last axis.
        two: The same rows in the other.
        scale: What the change is measured by.

    Returns:
        The change; infinite where a number is not finite.
    """
    kind = torch.float64 if one.dtype == torch.float64 else torch.float32
    one, two = torch.atleast_1d(one.to(kind)), torch.atleast_1d(two.to(kind))
    equal = (one == two) | (one.isnan() & two.isnan())
    change = torch.where(equal, 0.0, (one - two).abs()).amax(dim=-1)
    size = one.abs().amax(dim=-1) if scale is None else torch.full_like(change, scale)
    worst = float((change / size.clamp(min=torch.finfo(torch.float32).tiny)).max())
    return worst if worst == worst else float("inf")


def _span(mask: Tensor) -> slice | Tensor:
    """A record's real positions, as a slice if they are contiguous."""
    real = mask.nonzero().flatten()
    if not len(real):
        return slice(0, 0)
    first, last = int(real[0]), int(real[-1])
    return slice(first, last + 1) if last - first + 1 == len(real) else real
