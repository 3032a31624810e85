"""What one forward of a batch of prompts leaves behind, to go on from any layer."""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformers.cache_utils import DynamicCache

from insular.errors import ModelError
from insular.hidden.states.block_calls import BlockCall
from insular.records.batches import TokenBatch


@final
class LastRow:
    """Takes each record's last real position out of masks, positions and rotations.

    Blocks share these tensors, so each is cut once.
    """

    def __init__(self, last: Int[Tensor, " record"], width: int) -> None:
        self._last = last
        self._width = width
        self._seen: dict[int, tuple[Tensor, Tensor]] = {}

    def __call__(self, value: Tensor) -> Tensor:
        """One position of a tensor, told by its shape."""
        if id(value) not in self._seen:
            self._seen[id(value)] = (value, self._cut(value))  # kept alive: ids are reused
        return self._seen[id(value)][1]

    def _cut(self, value: Tensor) -> Tensor:
        width, rows = self._width, torch.arange(len(self._last), device=value.device)
        if value.ndim == 4 and value.shape[2:] == (width, width):  # attention mask
            return value.expand(len(rows), -1, -1, -1)[rows, :, self._last].unsqueeze(2)
        if value.ndim in (2, 3) and value.shape[1] == width:  # positions; rotations
            full = value.expand(len(rows), *value.shape[1:])
            return full[rows, self._last].unsqueeze(1)
        if value.ndim == 1 and len(value) == width:  # places in a static cache, which is not used
            return value[-1:]
        raise ModelError(
            f"the blocks are given a tensor of shape {tuple(value.shape)} for {width} tokens, of "
            "which insular cannot tell the last position; use a Llama-like or GPT-2-like decoder."
        )


@final
class ReplayedCache:
    """Kept keys and values of the earlier positions, with the last position's exchanged.

    It stands where a block expects a cache; it is never changed.
    """

    def __init__(
        self,
        keys: dict[int, Float[Tensor, "record head token size"]],
        values: dict[int, Float[Tensor, "record head token size"]],
        at_last: Bool[Tensor, "record token"],
    ) -> None:
        self._keys = keys
        self._values = values
        self._at_last = at_last[:, None, :, None]

    def update(
        self, key: Tensor, value: Tensor, layer_idx: int, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        """Keys and values of all positions, the given ones at the last."""
        return (
            torch.where(self._at_last, key, self._keys[layer_idx]),
            torch.where(self._at_last, value, self._values[layer_idx]),
        )


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class KeptForward:
    """One forward of a batch without gradients: all that is needed to go on from a layer."""

    batch: TokenBatch
    """The prompts."""
    last: Int[Tensor, " record"]
    """Column of each record's last real token."""
    states: dict[int, Float[Tensor, "record hidden"]]
    """Layer to each record's state at its last token."""
    trajectories: dict[int, Float[Tensor, "record token hidden"]]
    """Layer to the states at every position, padding included; empty unless asked for."""
    logits: Float[Tensor, "record vocab"]
    """Scores of the token after the last one."""
    calls: dict[int, BlockCall]
    """Block to its arguments for all positions."""
    last_calls: dict[int, BlockCall]
    """Block to its arguments for the last position."""
    cache: ReplayedCache
    """Keys and values of the earlier positions."""


def last_columns(batch: TokenBatch) -> Int[Tensor, " record"]:
    """Column of the last real token of each row."""
    columns = torch.arange(batch.shape[1], device=batch.device)
    return (batch.attention_mask * columns).argmax(dim=1)


def kept_cache(
    cache: DynamicCache, calls: dict[int, BlockCall], last: Int[Tensor, " record"], *, width: int
) -> ReplayedCache:
    """Keys and values of the blocks that will be run again."""
    held = {index: cache.layers[index] for index in calls}
    return ReplayedCache(
        {index: one.keys for index, one in held.items()},  # pyright: ignore
        {index: one.values for index, one in held.items()},  # pyright: ignore
        torch.arange(width, device=last.device)[None, :] == last[:, None],
    )
