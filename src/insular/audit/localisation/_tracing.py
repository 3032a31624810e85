"""All that crosses the border of each module while a model runs, forward and backward.

Observing changes no bit of any result: module outputs are aliased, which adds nothing to a
gradient's sums, and what a module sends back to its inputs is read from the nodes of its own
graph, since the gradient of a shared input is the sum over everything that reads it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, final

import torch
from torch import Tensor, nn
from torch.autograd.graph import Node, get_gradient_edge
from torch.utils._pytree import tree_flatten, tree_unflatten

from insular.audit.localisation.results import ROOT

Border = Literal["input", "output", "output gradient", "input gradient"]


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Call:
    """One run of a module."""

    key: str
    """Its name, with the call's number if it was called before."""
    caller: "Call | None"
    """The module that was running; None for the outermost."""


@final
@dataclass(frozen=True, kw_only=True)
class Spot:
    """One tensor at the border of a module."""

    border: Border
    """Where it crosses."""
    slot: int
    """Its place among the arguments or the results."""
    part: int = 0
    """Which of the summands, where it is the gradient of an input that is read several times."""
    n_parts: int = 1
    """How many summands there are."""


Visit = Callable[[Call, Spot, Tensor], Tensor | None]
"""Sees a tensor at a border; may return another that goes on in its place."""


@contextmanager
def traced_calls(model: nn.Module, visit: Visit) -> Iterator[None]:
    """Show every tensor that crosses a module's border to ``visit`` while the block runs.

    Guarantees:
        * While ``visit`` returns None, results and gradients are bitwise what they are without it.
        * Forward, a module's inputs come before those of its submodules, and its outputs after;
          backward, its output gradients come before those of its submodules, and its input
          gradients after.

    Args:
        model: The model that the block runs. Modules whose ``forward`` is called directly are
            part of the code of their caller.
        visit: Called at every border.

    Yields:
        Nothing; the hooks are gone when the block ends.
    """
    hooks = _Hooks(visit)
    handles = []
    for name, module in model.named_modules():
        enter, leave = hooks.enter(name or ROOT), hooks.leave
        handles.append(module.register_forward_pre_hook(enter, with_kwargs=True))
        handles.append(module.register_forward_hook(leave, with_kwargs=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@final
class _Hooks:
    """The hooks of one traced run."""

    def __init__(self, visit: Visit) -> None:
        self._visit = visit
        self._running: list[tuple[Call, int]] = []
        self._n_calls: Counter[str] = Counter()

    def enter(self, name: str) -> Callable[..., Any]:
        """A pre-hook that shows a module's inputs."""

        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            del module
            self._n_calls[name] += 1
            key = name if self._n_calls[name] == 1 else f"{name}#{self._n_calls[name]}"
            call = Call(key=key, caller=self._running[-1][0] if self._running else None)
            values, structure = tree_flatten((args, kwargs))
            seen = [self._forward(call, "input", *pair) for pair in enumerate(values)]
            self._running.append((call, _next_number()))
            if all(new is old for new, old in zip(seen, values, strict=True)):
                return None
            return tree_unflatten(seen, structure)

        return hook

    def leave(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
    ) -> Any:
        """A hook that shows a module's outputs now, and its gradients later."""
        del module
        call, number = self._running.pop()
        values, structure = tree_flatten(output)
        seen = [self._forward(call, "output", *pair) for pair in enumerate(values)]
        for slot, value in enumerate(seen):
            if isinstance(value, Tensor) and value.requires_grad:
                # an alias's gradient is what comes back through this module's border alone
                seen[slot] = alias = value.view_as(value) if value is values[slot] else value
                alias.register_hook(self._backward(call, Spot(border="output gradient", slot=slot)))
        self._watch_readers(call, tree_flatten((args, kwargs))[0], seen, number)
        return tree_unflatten(seen, structure)

    def _forward(self, call: Call, border: Border, slot: int, value: Any) -> Any:
        """Show a value if it is a tensor; return what goes on."""
        if not isinstance(value, Tensor):
            return value
        new = self._visit(call, Spot(border=border, slot=slot), value.detach())
        if new is None:
            return value
        return _Replaced.apply(value, new) if value.requires_grad else new

    def _backward(self, call: Call, spot: Spot) -> Callable[[Tensor], Tensor | None]:
        """A tensor hook that shows a gradient."""
        return lambda gradient: self._visit(call, spot, gradient.detach())

    def _watch_readers(
        self, call: Call, inputs: list[Any], outputs: list[Any], number: int
    ) -> None:
        """Show what each node that reads an input sends back to it."""
        edges: dict[tuple[Node, int], int] = {}
        for slot, value in enumerate(inputs):
            if isinstance(value, Tensor) and value.requires_grad:
                edge = get_gradient_edge(value)
                edges.setdefault((edge.node, edge.output_nr), slot)
        if not edges:
            return
        starts = [v.grad_fn for v in outputs if isinstance(v, Tensor) and v.grad_fn is not None]
        readers = list(_readers(starts, edges, number))
        n_parts = Counter(slot for slot, _, _ in readers)
        parts: Counter[int] = Counter()
        for slot, node, place in readers:
            spot = Spot(border="input gradient", slot=slot, part=parts[slot], n_parts=n_parts[slot])
            node.register_hook(self._sent(call, spot, place))
            parts[slot] += 1

    def _sent(self, call: Call, spot: Spot, place: int) -> Callable[..., tuple[Any, ...] | None]:
        """A node hook that shows one of the gradients which the node sends on."""

        def hook(sent: tuple[Any, ...], received: tuple[Any, ...]) -> tuple[Any, ...] | None:
            del received
            if sent[place] is None:
                return None
            new = self._visit(call, spot, sent[place].detach())
            return None if new is None else (*sent[:place], new, *sent[place + 1 :])

        return hook


class _Replaced(torch.autograd.Function):
    """Other values in place of a tensor; the gradient passes as it is."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, new: Tensor) -> Tensor:
        del ctx, tensor
        return new

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        del ctx
        return grad_output, None


def _next_number() -> int:
    """The number of the next node of this thread's graphs; 0 while none are made."""
    if not torch.is_grad_enabled():
        return 0
    node = torch.ones((), requires_grad=True).view(()).grad_fn
    return 0 if node is None else node._sequence_nr() + 1


def _readers(
    starts: Iterable[Node], edges: dict[tuple[Node, int], int], number: int
) -> Iterator[tuple[int, Node, int]]:
    """Slot, node and place of every edge to an input, from nodes of this number or later."""
    waiting = [node for node in starts if node._sequence_nr() >= number]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        for place, (source, output_nr) in enumerate(node.next_functions):
            slot = edges.get((source, output_nr)) if source is not None else None
            if slot is not None:
                yield slot, node, place
            elif source is not None and source not in seen and source._sequence_nr() >= number:
                seen.add(source)
                waiting.append(source)
