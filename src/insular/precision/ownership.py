"""Which rows of a flattened activation belong to which record, told to layers before a forward."""

from dataclasses import dataclass, field
from typing import final

import torch
from jaxtyping import Bool
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from insular.errors import InvalidArgumentError

Rows = slice | Tensor
"""Rows of one record: a slice where they are contiguous, else their indices."""


@final
@dataclass
class RowOwnership:
    """The mask of the batch in flight, shared by every layer that asks whose a row is.

    A model's forward sets it through :func:`announce_masks`; nothing else should.
    """

    mask: Bool[Tensor, "record token"] | None = None
    """True where a position holds a real token of the record; None before the first batch."""
    rows: tuple[Rows, ...] = field(default=(), repr=False)
    """Real rows of each record in the flattened batch, in batch order."""
    padding: Tensor | None = field(default=None, repr=False)
    """Indices of the padding rows, or None without padding."""

    def announce(self, mask: Bool[Tensor, "record token"]) -> None:
        """Declare the batch whose activations come next."""
        n_tokens = mask.shape[1]
        self.mask = mask
        self.rows = tuple(
            _shift(_real_positions(row), record * n_tokens) for record, row in enumerate(mask)
        )
        padded = (~mask).flatten().nonzero().flatten()
        self.padding = padded if padded.numel() else None

    def forget(self) -> None:
        """Declare that whose the next rows are is not known."""
        self.mask, self.rows, self.padding = None, (), None

    def require(self, n_rows: int, *, layer: str) -> None:
        """Refuse activations that cannot be the announced batch.

        Raises:
            InvalidArgumentError: If no batch was announced or its size differs.
        """
        if self.mask is None:
            raise InvalidArgumentError(
                f"layer {layer} must know whose each row is, got no batch mask; call the model as"
                " model(input_ids=..., attention_mask=...) with a mask [record, token]."
            )
        if self.mask.numel() != n_rows:
            raise InvalidArgumentError(
                f"layer {layer} must receive one row per announced position, got {n_rows} rows for"
                f" a mask of shape {tuple(self.mask.shape)}."
            )


def announce_masks(model: nn.Module, ownership: RowOwnership) -> RemovableHandle:
    """Make every forward of ``model`` announce its batch's mask to ``ownership``.

    Guarantees:
        * Without an ``attention_mask`` every position counts as real.
        * A mask that is not ``[record, token]`` says nothing about ownership: nothing is announced,
          and a layer that must know refuses.

    Args:
        model: The root whose forward receives ``input_ids`` (or ``inputs_embeds``) and
            ``attention_mask``, by keyword or as first and second argument.
        ownership: Shared with the layers of the model.

    Returns:
        The hook's handle; its ``remove()`` ends the announcements.
    """

    def hook(module: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        del module
        tokens = kwargs.get("input_ids", kwargs.get("inputs_embeds", args[0] if args else None))
        mask = kwargs.get("attention_mask", args[1] if len(args) > 1 else None)
        if mask is None and isinstance(tokens, Tensor):
            mask = torch.ones(tokens.shape[:2], dtype=torch.bool, device=tokens.device)
        if isinstance(mask, Tensor) and mask.dim() == 2:
            ownership.announce(mask.bool())
        else:
            ownership.forget()

    return model.register_forward_pre_hook(hook, with_kwargs=True)


def _real_positions(mask: Tensor) -> Rows:
    """The True positions of one record's mask, as a slice if they are contiguous."""
    positions = mask.nonzero().flatten()
    if positions.numel() == 0:
        return slice(0, 0)
    first, last = int(positions[0]), int(positions[-1])
    return slice(first, last + 1) if last - first + 1 == positions.numel() else positions


def _shift(rows: Rows, offset: int) -> Rows:
    """The same rows, counted from the start of the flattened batch."""
    if isinstance(rows, slice):
        return slice(rows.start + offset, rows.stop + offset)
    return rows + offset
