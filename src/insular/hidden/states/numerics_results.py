"""How far the same state moves when only the way of computing it changes. Torch-free."""

from dataclasses import dataclass
from typing import Literal, final

Way = Literal[
    "repeat", "batched", "batched_left", "padded", "padded_left", "incremental", "bfloat16"
]
"""How states were computed, against each record alone, without padding, in one pass.

    repeat         the same again
    batched        all records in one batch, padded right
    batched_left   all records in one batch, padded left
    padded         alone, with more padding right
    padded_left    alone, with more padding left
    incremental    alone, token by token with a cache
    bfloat16       alone, with the model's weights and products in bfloat16
"""


@final
@dataclass(frozen=True, kw_only=True)
class StateShift:
    """How far states moved under one way, over all records and positions."""

    way: Way
    """What was changed."""
    layer: int
    """The output of that block, from 0."""
    max_abs: float
    """Largest change of a coordinate."""
    max_relative: float
    """Largest norm of a state's change over the state's norm."""
    n_bitwise_equal: int
    """Records whose states are all equal to the last bit."""


@final
@dataclass(frozen=True, kw_only=True)
class LayerRoom:
    """How near distinct prompts come to each other, to hold a shift against."""

    layer: int
    """The output of that block, from 0."""
    nearest_relative: float
    """Smallest distance of two records' last states over the norm of one of them."""


@final
@dataclass(frozen=True, kw_only=True)
class NumericsResult:
    """A certificate for one model on one path; it holds for that path alone."""

    n_records: int
    """Distinct records."""
    batch_tokens: int
    """Tokens of the one batch, padding included."""
    extra_padding_tokens: int
    """Padding added to records alone."""
    device: str
    """Where it ran."""
    dtype: str
    """What the model computed in, save under ``bfloat16``."""
    attention: str
    """Attention kernel."""
    threads: int
    """Threads of the CPU products."""
    shifts: tuple[StateShift, ...]
    """Way by way, layer by layer."""
    rooms: tuple[LayerRoom, ...]
    """One per layer."""
    tail_max_abs_logit: float
    """Largest difference of a tail's logits from the full model's, over the layers."""

    def shift(self, way: Way, layer: int) -> StateShift:
        """One entry.

        Args:
            way: What was changed.
            layer: Which layer.

        Returns:
            It.

        Raises:
            KeyError: If that way or layer was not measured.
        """
        for one in self.shifts:
            if (one.way, one.layer) == (way, layer):
                return one
        raise KeyError((way, layer))

    def separates(self, way: Way, layer: int) -> bool:
        """Whether records stay apart: twice the shift is below the nearest distance.

        Args:
            way: What was changed.
            layer: Which layer.

        Returns:
            True if no two of these records could be taken for each other.
        """
        room = next(one.nearest_relative for one in self.rooms if one.layer == layer)
        return 2 * self.shift(way, layer).max_relative < room
