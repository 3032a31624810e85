"""Where a record's computation first parts from its base run, forward or backward.

A difference that enters as the rounding of another shape is some 1e-7 of its row; one that enters
because another record decided something is a quantisation step or more. Later modules amplify
both, so only the entry tells them apart.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import final

import torch
from torch import Tensor, nn

from insular.audit.measure import same_values
from insular.audit.results import FirstDifference

ROUNDING_STEPS = 256
"""float32 steps by which a reordered sum may move, relative to the largest entry of its row."""
STORAGE_STEPS = 4
"""Steps of a module's own dtype by which a result may move when it is stored."""


@final
@dataclass(frozen=True, kw_only=True)
class Trace:
    """Outputs of every innermost module for some records, in order of execution."""

    forward: dict[str, dict[int, Tensor]] = field(default_factory=dict)
    """Module (with its call number if called again) to record position to real rows."""
    backward: dict[str, dict[int, Tensor]] = field(default_factory=dict)
    """The same for gradients of those outputs, in order of the backward pass."""
    dtypes: dict[str, torch.dtype] = field(default_factory=dict)
    """Element type of each module's output."""


@contextmanager
def traced(model: nn.Module, mask: Tensor, positions: Sequence[int]) -> Iterator[Trace]:
    """Record what the innermost modules put out for some records while the block runs.

    Args:
        model: The model that the block runs, once.
        mask: Real positions of its batch, ``[record, token]``.
        positions: Records to observe, by position in the batch.

    Yields:
        The trace, filled when the block ends.
    """
    trace = Trace()
    calls: Counter[str] = Counter()
    rows = {position: mask[position].nonzero().flatten() for position in positions}
    handles = [
        module.register_forward_hook(_observer(name, trace, calls, rows, mask.shape))
        for name, module in model.named_modules()
        if name and not any(module.children())
    ]
    try:
        yield trace
    finally:
        for handle in handles:
            handle.remove()


def first_difference(
    base: Trace, other: Trace, *, before: int, after: int
) -> FirstDifference | None:
    """The earliest module whose output, or then whose gradient, differs for one record.

    Args:
        base: Trace of the base batch.
        other: Trace of the case.
        before: The record's position in the base batch.
        after: Its position in the case.

    Returns:
        The entry of the difference, or None if every observed tensor is equal.
    """
    phases = (("forward", base.forward, other.forward), ("backward", base.backward, other.backward))
    for phase, ours, theirs in phases:
        for name, records in ours.items():
            one, two = records.get(before), theirs.get(name, {}).get(after)
            if one is None or two is None or same_values(one, two):
                continue
            return FirstDifference(
                module=name,
                phase="forward" if phase == "forward" else "backward",
                relative=_row_relative(one, two),
                rounding_bound=rounding_bound(base.dtypes[name]),
            )
    return None


def rounding_bound(dtype: torch.dtype) -> float:
    """Largest relative change of a row that rounding in another order explains.

    Args:
        dtype: Element type of the module's output; sums are taken in float32 at least.

    Returns:
        The bound, relative to the largest magnitude of the row.
    """
    stored = STORAGE_STEPS * torch.finfo(dtype).eps
    return max(ROUNDING_STEPS * torch.finfo(torch.float32).eps, stored)


def _row_relative(one: Tensor, two: Tensor) -> float:
    """Largest change of an entry over the largest magnitude of its row."""
    if one.shape != two.shape:
        return float("inf")
    change = (one - two).abs().flatten(1).amax(dim=1)
    scale = one.abs().flatten(1).amax(dim=1).clamp(min=torch.finfo(one.dtype).tiny)
    worst = float((change / scale).max())
    return worst if worst == worst else float("inf")


def _observer(
    name: str, trace: Trace, calls: Counter[str], rows: dict[int, Tensor], shape: torch.Size
) -> Callable[[nn.Module, tuple[object, ...], object], None]:
    """A forward hook that keeps some records' rows of an output, and of its gradient."""

    def hook(module: nn.Module, args: tuple[object, ...], output: object) -> None:
        del module, args
        if not isinstance(output, Tensor) or not output.is_floating_point():
            return
        if output.dim() < 2 or output.shape[:2] != shape:
            return
        calls[name] += 1
        key = name if calls[name] == 1 else f"{name}#{calls[name]}"
        trace.dtypes[key] = output.dtype
        trace.forward[key] = _picked(output, rows)
        if output.requires_grad:

            def keep(gradient: Tensor) -> None:
                trace.backward[key] = _picked(gradient, rows)

            output.register_hook(keep)

    return hook


def _picked(tensor: Tensor, rows: dict[int, Tensor]) -> dict[int, Tensor]:
    """The real rows of the observed records, copied."""
    return {position: tensor.detach()[position, real].float() for position, real in rows.items()}
