"""What an isolation audit is asked to do."""

from dataclasses import dataclass
from typing import Literal, final

from insular import _check

Axis = Literal["content", "length", "order", "presence", "shape"]
"""What was changed around a record whose own content stayed the same.

    content    another record's tokens, at equal lengths: every tensor keeps its shape
    length     another record's number of real tokens, at equal padded shape
    order      the order of the records in the batch
    presence   one record less in the batch
    shape      the record alone, in a smaller batch, or with more padding
"""
AXES: tuple[Axis, ...] = ("content", "length", "order", "presence", "shape")
EQUAL_SHAPE_AXES: tuple[Axis, ...] = ("content", "length")
"""Axes on which every tensor keeps its shape, so that no rounding excuses a difference."""


@final
@dataclass(frozen=True, kw_only=True)
class IsolationSpec:
    """The settings of one isolation audit."""

    clip_norm: float
    """Bound C of the clipped gradients, in gradient units."""
    stabiliser: float = 0.0
    """Added to each norm by the clipping under test; Opacus adds 1e-6."""
    extra_padding_tokens: int = 16
    """Padding added by the shape axis."""
    seed: int = 0
    """Seed that is set before every evaluation, so that identical batches may repeat exactly."""

    def __post_init__(self) -> None:
        """Refuse values outside their rule."""
        _check.positive_finite(clip_norm=self.clip_norm)
        _check.non_negative_finite(stabiliser=self.stabiliser)
        _check.at_least(1, extra_padding_tokens=self.extra_padding_tokens)
        _check.at_least(0, seed=self.seed)
