"""Modules that couple records in one pass only, put around any module of a model."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_unflatten

from insular.audit.localisation.results import Origins
from insular.audit.subjects.subject import Subject
from insular.records.tokens import TokenisedRecord


class Planted(nn.Module):
    """A module around another; the rest of the model sees no difference but the coupling."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.inner, name)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        values, structure = tree_flatten(self.inner(*args, **kwargs))
        first = next(i for i, value in enumerate(values) if isinstance(value, Tensor))
        values[first] = self.couple(values[first])
        return tree_unflatten(values, structure)

    def couple(self, value: Tensor) -> Tensor:
        raise NotImplementedError


class ForwardOnly(Planted):
    """Adds the batch's mean; the gradient is what it was."""

    def couple(self, value: Tensor) -> Tensor:
        return value + value.detach().mean()


class Mixed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        return value.clone()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:  # type: ignore[override]
        return grad_output * (1 + grad_output.abs().sum())


class BackwardOnly(Planted):
    """Passes values as they are; scales the gradient by the batch's."""

    def couple(self, value: Tensor) -> Tensor:
        return Mixed.apply(value)


COUPLERS = {"forward": ForwardOnly, "backward": BackwardOnly}


def plant(model: nn.Module, name: str, kind: Callable[[nn.Module], nn.Module]) -> None:
    parent, _, child = name.rpartition(".")
    setattr(model.get_submodule(parent), child, kind(model.get_submodule(name)))


def run(subject: Subject) -> Callable[[Sequence[TokenisedRecord], int], Any]:
    return lambda records, width: subject.evaluate(records, width=width)


def named(found: Origins) -> list[tuple[str, str]]:
    return [(m.module, m.phase) for m in found.originating()]
