"""How states are kept: at which precision, and of which positions. Part of the threat model."""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from insular import _check
from insular.errors import InvalidArgumentError
from insular.hidden.states.storage_spec import STORAGE_FORMATS, StorageFormat

_LARGEST_CODE = {"int8": 127, "int4": 7}
_BF16_BITS = 8  # of the mantissa, the leading one included


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class StoredStates:
    """What a reader of the storage sees."""

    values: Float[Tensor, "token hidden"]
    """The states as read back, float32; NaN at positions that were not kept."""
    half_cells: Float[Tensor, "token hidden"]
    """The stored state lies within this of ``values``, in each coordinate."""
    kept: Bool[Tensor, " token"]
    """Which positions were kept."""

    @property
    def rounding_variance(self) -> float:
        """Mean square that rounding adds to a coordinate, at the median kept position."""
        if not bool(self.kept.any()):
            return 0.0
        return float((self.half_cells[self.kept].square() / 3).mean(1).median())


@final
@dataclass(frozen=True, kw_only=True)
class Storage:
    """A format, and which positions are kept.

    Integer formats have one scale a state, its largest magnitude over the largest code, so that a
    state with a massive coordinate is stored coarsely.

    Guarantees:
        * What is read back lies within half a cell of what was stored, in every coordinate.
        * Storing twice changes nothing more.
    """

    format: StorageFormat = "float32"
    """Precision."""
    every: int = 1
    """Positions 0, g, 2 g, ... are kept; 1 keeps all."""

    def __post_init__(self) -> None:
        """Check the fields.

        Raises:
            InvalidArgumentError: If one breaks its rule.
        """
        _check.one_of(STORAGE_FORMATS, format=self.format)
        _check.at_least(1, every=self.every)

    def store(self, states: Tensor) -> StoredStates:
        """Keep the states of one prompt and read them back.

        Args:
            states: One row a position.

        Returns:
            What is read back, on the CPU.

        Raises:
            InvalidArgumentError: If they are not rows of finite numbers.
        """
        if states.ndim != 2 or not bool(states.isfinite().all()):
            raise InvalidArgumentError(
                "states must be finite numbers, one row a position, got shape "
                f"{tuple(states.shape)}; give a matrix, also for one position."
            )
        values, half_cells = round_states(states.float().cpu(), self.format)
        kept = torch.zeros(len(states), dtype=torch.bool)
        kept[:: self.every] = True
        return StoredStates(
            values=values.masked_fill(~kept[:, None], torch.nan), half_cells=half_cells, kept=kept
        )


def round_states(
    states: Float[Tensor, "record hidden"], precision: StorageFormat
) -> tuple[Float[Tensor, "record hidden"], Float[Tensor, "record hidden"]]:
    """Round states as a format keeps them.

    Args:
        states: Float32 states.
        precision: The format.

    Returns:
        The rounded states, and half the width of each coordinate's cell.
    """
    if precision == "float32":
        return states, torch.zeros_like(states)
    if precision == "bf16":
        values = states.bfloat16().float()
        exponent = torch.frexp(values).exponent
        half = torch.ldexp(torch.full_like(values, 0.5), exponent - _BF16_BITS)
        return values, half.masked_fill(values == 0, 0.0)
    most = _LARGEST_CODE[precision]
    step = states.abs().amax(1, keepdim=True) / most
    width = torch.where(step > 0, step, 1.0)
    values = (states / width).round().clamp(-most, most) * step
    return values, (step / 2).expand_as(states)


def state_bytes(precision: StorageFormat, *, hidden_size: int) -> int:
    """Bytes that a format takes for one state, its float32 scale included.

    Args:
        precision: The format.
        hidden_size: Numbers in a state.

    Returns:
        Bytes.
    """
    bits = {"float32": 32, "bf16": 16, "int8": 8, "int4": 4}[precision]
    return -(-hidden_size * bits // 8) + (4 if precision in _LARGEST_CODE else 0)
