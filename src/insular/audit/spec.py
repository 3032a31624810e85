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

Direction = Literal["dirac", "long"]
"""A canary's gradient: of the clip norm's length, or a hundred times as long."""


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


RADII_OVER_CLIP_NORM = (1e-3, 1e-2, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Radii at which saved gradients are clipped again, in units of the run's own clip norm."""


@final
@dataclass(frozen=True, kw_only=True)
class SensitivitySpec:
    """The settings of one sensitivity audit, all of them fixed before it starts."""

    clip_norm: float
    """Bound C of the run, in gradient units."""
    stabiliser: float = 0.0
    """Added to each norm by the clipping under test; Opacus adds 1e-6."""
    margin: float = 1e-4
    """How far a ratio must exceed 1, besides ten times the distance of an identical repeat."""
    seed: int = 0
    """Seed that is set before every evaluation."""

    def __post_init__(self) -> None:
        """Refuse values outside their rule."""
        _check.positive_finite(clip_norm=self.clip_norm, margin=self.margin)
        _check.non_negative_finite(stabiliser=self.stabiliser)
        _check.at_least(0, seed=self.seed)

    @property
    def radii(self) -> tuple[float, ...]:
        """Radii of the exploratory analysis, ascending, the run's own among them."""
        return tuple(self.clip_norm * factor for factor in RADII_OVER_CLIP_NORM)

    @property
    def validation_radii(self) -> tuple[float, float]:
        """The two radii of the fresh validation: the run's own, and a tenth of it."""
        return (self.clip_norm, self.clip_norm * 0.1)
