"""Where a record's computation parts from its base run, forward or backward.

A difference that enters as the rounding of another shape is some 1e-7 of its row; one that enters
because another record decided something is a quantisation step or more. Later modules amplify
both, so only the entry tells them apart. And a rounding that enters early would hide a decision
that enters later: so a run can be *pinned* to the base run, every rounding of the record is set
back where it enters, and what remains is no rounding.
"""

from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, final

import torch
from torch import Tensor, nn

from insular.audit.isolation.measure import same_values
from insular.audit.isolation.results import FirstDifference

ROUNDING_STEPS = 256
"""float32 steps by which a reordered sum may move, relative to the largest entry of its row."""
STORAGE_STEPS = 4
"""Steps of a module's own dtype by which a result may move when it is stored."""
CANCELLING_GRADIENTS = 8
"""Gradients before this one, in the order of the backward pass, that it may be made from."""


@final
@dataclass(frozen=True, kw_only=True)
class Trace:
    """Inputs and outputs of every innermost module for one record, in order of execution."""

    pinned: bool = False
    """Whether roundings were set back to the base run's values as they entered."""
    forward: dict[str, Tensor] = field(default_factory=dict)
    """Module (with its call number if called again) to the record's real rows."""
    backward: dict[str, Tensor] = field(default_factory=dict)
    """The same for gradients of the outputs, in order of the backward pass."""


@contextmanager
def traced(
    model: nn.Module, mask: Tensor, position: int, *, pin: Trace | None = None
) -> Iterator[Trace]:
    """Record what the innermost modules see and put out for one record while the block runs.

    Args:
        model: The model that the block runs, once.
        mask: Real positions of its batch, ``[record, token]``.
        position: The record's position in the batch.
        pin: Trace of the base batch. The record's values are set back to it wherever they differ
            by a rounding only.

    Yields:
        The trace, filled when the block ends.
    """
    watch = _Watch(mask, position, pin)
    handles = []
    for name, module in model.named_modules():
        if name and not any(module.children()):
            handles.append(module.register_forward_pre_hook(watch.on_input(name)))
            handles.append(module.register_forward_hook(watch.on_output(name)))
    try:
        yield watch.trace
    finally:
        for handle in handles:
            handle.remove()


def first_difference(base: Trace, other: Trace) -> FirstDifference | None:
    """The earliest module whose output, or then whose gradient, differs.

    Guarantees:
        * Of a pinned trace it is the earliest that rounding does not explain, if there is one.

    Args:
        base: Trace of the record in the base batch.
        other: Trace of the same record in the case.

    Returns:
        The entry of the difference, or None if every observed tensor is equal.
    """
    found = list(_differences(base, other))
    unexplained = (d for d in found if other.pinned and not d.explained_by_rounding)
    return next(unexplained, found[0] if found else None)


def rounding_bound(trace: Trace) -> float:
    """Largest relative change of a row that rounding in another order explains.

    The coarsest element type of the run counts, since a float32 adapter may read bfloat16 values.

    Args:
        trace: Trace of the base batch; sums are taken in float32 at least.

    Returns:
        The bound, relative to the largest magnitude of the row.
    """
    stored = [STORAGE_STEPS * torch.finfo(rows.dtype).eps for rows in trace.forward.values()]
    return max([ROUNDING_STEPS * torch.finfo(torch.float32).eps, *stored])


def _differences(base: Trace, other: Trace) -> Iterator[FirstDifference]:
    """Every tensor that differs, forward, then backward."""
    bound = rounding_bound(base)
    for name, one in base.forward.items():
        two = other.forward.get(name)
        if two is not None and not same_values(one, two):
            yield FirstDifference(
                module=name, phase="forward", relative=_relative(one, two), rounding_bound=bound
            )
    scales = _gradient_scales(base)
    for name, one in base.backward.items():
        two = other.backward.get(name)
        if two is not None and not same_values(one, two):
            relative = _relative(one, two, scale=scales[name])
            yield FirstDifference(
                module=name, phase="backward", relative=relative, rounding_bound=bound
            )


def _gradient_scales(base: Trace) -> dict[str, float]:
    """What each gradient's rounding is measured by: itself, or what it may have cancelled from."""
    recent: deque[float] = deque(maxlen=CANCELLING_GRADIENTS)
    scales = {}
    for name, rows in base.backward.items():
        recent.append(float(rows.abs().max()) if rows.numel() else 0.0)
        scales[name] = max(recent)
    return scales


def _relative(one: Tensor, two: Tensor, *, scale: float | None = None) -> float:
    """Largest change over a scale, which is by default the largest magnitude of the same row."""
    if one.shape != two.shape:
        return float("inf")
    one, two = one.double().flatten(1), two.double().flatten(1)
    change = torch.where(one.isnan() & two.isnan(), 0.0, (one - two).abs()).amax(dim=1)
    tiny = torch.finfo(torch.float32).tiny
    size = one.abs().amax(dim=1) if scale is None else torch.full_like(change, scale)
    worst = float((change / size.clamp(min=tiny)).max())
    return worst if worst == worst else float("inf")


class _PinnedRows(torch.autograd.Function):
    """Some rows of a record set to given values; the gradient passes as it is."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, position: int, real: Tensor, rows: Tensor) -> Tensor:
        del ctx
        return _with_rows(tensor, position, real, rows)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None, None]:  # type: ignore[override]
        del ctx
        return grad_output, None, None, None


@final
class _Watch:
    """The hooks of one traced run."""

    def __init__(self, mask: Tensor, position: int, pin: Trace | None) -> None:
        self.trace = Trace(pinned=pin is not None)
        self._shape = mask.shape
        self._position = position
        self._real = mask[position].nonzero().flatten()
        self._pin = pin
        self._scales = {} if pin is None else _gradient_scales(pin)
        self._bound = 0.0 if pin is None else rounding_bound(pin)
        self._calls: Counter[str] = Counter()

    def on_input(self, name: str) -> Any:
        """A pre-hook that keeps and pins the first argument."""

        def hook(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
            del module
            if not args or not self._observable(args[0]):
                return None
            return self._seen(f"{name} (input)", args[0])[1], *args[1:]

        return hook

    def on_output(self, name: str) -> Any:
        """A hook that keeps and pins an output, and its gradient later."""

        def hook(module: nn.Module, args: tuple[Any, ...], output: Any) -> Tensor | None:
            del module, args
            if not self._observable(output):
                return None
            key, output = self._seen(name, output)
            if output.requires_grad:
                output.register_hook(lambda gradient: self._gradient(key, gradient))
            return output

        return hook

    def _observable(self, value: object) -> bool:
        """Whether a value has one row per position of the batch."""
        return (
            isinstance(value, Tensor)
            and value.is_floating_point()
            and value.dim() > 2
            and value.shape[:2] == self._shape
        )

    def _seen(self, name: str, tensor: Tensor) -> tuple[str, Tensor]:
        """Keep the record's rows; return their key, and the tensor to go on with."""
        self._calls[name] += 1
        key = name if self._calls[name] == 1 else f"{name}#{self._calls[name]}"
        rows = self.trace.forward[key] = tensor.detach()[self._position, self._real].clone()
        wanted = None if self._pin is None else self._pin.forward.get(key)
        if wanted is None or not self._is_rounding(wanted, rows):
            return key, tensor
        return key, _PinnedRows.apply(tensor, self._position, self._real, wanted)  # type: ignore[return-value]

    def _gradient(self, key: str, gradient: Tensor) -> Tensor | None:
        """Keep the record's rows of a gradient; return what to go on with if it is not itself."""
        rows = self.trace.backward[key] = gradient.detach()[self._position, self._real].clone()
        wanted = None if self._pin is None else self._pin.backward.get(key)
        if wanted is None or not self._is_rounding(wanted, rows, scale=self._scales[key]):
            return None
        return _with_rows(gradient, self._position, self._real, wanted)

    def _is_rounding(self, one: Tensor, two: Tensor, *, scale: float | None = None) -> bool:
        """Whether two sets of rows differ, and by a rounding only."""
        return not same_values(one, two) and _relative(one, two, scale=scale) <= self._bound


def _with_rows(tensor: Tensor, position: int, real: Tensor, rows: Tensor) -> Tensor:
    """A copy with some rows of one record replaced."""
    copy = tensor.clone()
    copy[position, real] = rows
    return copy
