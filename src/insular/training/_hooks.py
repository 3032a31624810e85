"""Per-record gradients of linear layers from one backward pass.

Two ways to see a layer's upstream gradient, with the same product behind them: a forward hook,
which leaves the layer and its own gradient as they are, and a tap in the layer's place, which saves
the layer's own gradient: training has no use for it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, final

import torch
from torch import Tensor, nn

from insular.errors import ModelError
from insular.records.batches import TokenBatch


def linear_owners(
    model: nn.Module, parameters: dict[str, nn.Parameter]
) -> dict[nn.Linear, dict[str, str]]:
    """Each linear layer with trainable tensors: attribute to the parameter's name."""
    names = {id(p): name for name, p in parameters.items()}
    owners: dict[nn.Linear, dict[str, str]] = {}
    for module in model.modules():
        for attribute, parameter in module.named_parameters(recurse=False):
            if id(parameter) not in names:
                continue
            name = names[id(parameter)]
            if not isinstance(module, nn.Linear) or not _is_plain(module):
                raise ModelError(
                    f"the hooks engine covers trainable linear layers only, got {name} in a"
                    f" {type(module).__name__}; use the func or the loop engine."
                )
            owners.setdefault(module, {})[attribute] = name
    return owners


def _is_plain(layer: nn.Linear) -> bool:
    """Whether a linear layer computes what PyTorch's does: no forward of its own."""
    return type(layer).forward is nn.Linear.forward and "forward" not in vars(layer)


def check_reached(collected: dict[str, Tensor], summed: Tensor) -> None:
    """Refuse a parameter that the batch's gradient reaches past its layer's forward."""
    sizes = [found[0].numel() for found in collected.values()]
    for (name, found), total in zip(collected.items(), summed.split(sizes), strict=True):
        if total.any() and not found.any():
            raise past_its_layer(name)


def past_its_layer(name: str) -> ModelError:
    """The error for a parameter whose gradient the layers do not explain."""
    return ModelError(
        f"{name} is used outside its layer's forward, where no hook sees it;"
        " use the func or the loop engine."
    )


@final
class Collected:
    """One gradient for each record, filled during a backward pass. Memory is taken when it starts.

    Args:
        parameters: Name to trainable parameter, in the order of the coordinates.
        batch: The records.
    """

    def __init__(self, parameters: dict[str, nn.Parameter], batch: TokenBatch) -> None:
        self._parameters = parameters
        self._n_records = batch.n_records
        self._rows = [_run(mask) for mask in batch.attention_mask]
        self._flat: Tensor | None = None
        self._views: dict[str, Tensor] = {}

    @property
    def flat(self) -> Tensor:
        """Gradients ``[record, param]``; zero where nothing reached a parameter."""
        if self._flat is None:
            values = list(self._parameters.values())
            sizes = [p.numel() for p in values]
            dtype = values[0].dtype
            for p in values[1:]:
                dtype = torch.promote_types(dtype, p.dtype)
            self._flat = torch.zeros(
                self._n_records, sum(sizes), dtype=dtype, device=values[0].device
            )
            for (name, p), part in zip(
                self._parameters.items(), self._flat.split(sizes, dim=1), strict=True
            ):
                self._views[name] = part.unflatten(1, p.shape)
        return self._flat

    @property
    def named(self) -> dict[str, Tensor]:
        """Views ``[record, ...]`` by parameter."""
        assert self.flat is not None
        return self._views

    def add(self, names: dict[str, str], inputs: Tensor, upstream: Tensor) -> None:
        """Add one use of a layer: a product over each record's own real rows."""
        views = self.named
        for record, real in enumerate(self._rows):
            mine = upstream[record, real]
            if "weight" in names:
                views[names["weight"]][record] += mine.t() @ inputs[record, real]
            if "bias" in names:
                views[names["bias"]][record] += mine.sum(dim=0)


def _run(mask: Tensor) -> slice | Tensor:
    """Where a record's real rows are: a slice, which copies nothing, if they are neighbours."""
    rows = mask.nonzero().flatten()
    if not len(rows):
        return slice(0, 0)
    first, last = int(rows[0]), int(rows[-1])
    return slice(first, last + 1) if last - first + 1 == len(rows) else rows


def collector(
    names: dict[str, str], collected: Collected
) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
    """A forward hook that adds a layer's per-record gradients during the backward pass."""

    def hook(module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
        inputs = args[0].detach()
        _check_output(module, output)
        output.register_hook(lambda gradient: collected.add(names, inputs, gradient))

    return hook


@contextmanager
def tapped(owners: dict[nn.Linear, dict[str, str]], collected: Collected) -> Iterator[None]:
    """Let layers give per-record gradients instead of their own, for the ``with`` block.

    Autograd then finds no gradient for a parameter, unless it is used past its layer.
    """
    try:
        for layer, names in owners.items():
            vars(layer)["forward"] = _tap(layer, names, collected)
        yield
    finally:
        for layer in owners:
            vars(layer).pop("forward", None)


def _tap(layer: nn.Linear, names: dict[str, str], collected: Collected) -> Callable[..., Tensor]:
    """The forward of a linear layer, with a tap on its output."""
    learnt = [getattr(layer, attribute) for attribute in names]

    def forward(input: Tensor) -> Tensor:
        bias = None if layer.bias is None else layer.bias.detach()
        output = nn.functional.linear(input, layer.weight.detach(), bias)
        _check_output(layer, output)
        return _Tap.apply(output, input.detach(), names, collected, *learnt)  # pyright: ignore[reportReturnType]

    return forward


class _Tap(torch.autograd.Function):
    """The identity; its backward adds the layer's per-record gradients and gives none to them."""

    @staticmethod
    def forward(
        ctx: Any,
        output: Tensor,
        inputs: Tensor,
        names: dict[str, str],
        collected: Collected,
        *learnt: Tensor,
    ) -> Tensor:
        """Pass the output on; the parameters are there so that a gradient is asked for."""
        ctx.save_for_backward(inputs)
        ctx.names, ctx.collected, ctx.n_learnt = names, collected, len(learnt)
        return output.view_as(output)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Add the products; pass the gradient on."""
        (inputs,) = ctx.saved_tensors
        ctx.collected.add(ctx.names, inputs, gradients[0])
        return (gradients[0], None, None, None, *[None] * ctx.n_learnt)


def _check_output(module: nn.Module, output: Tensor) -> None:
    """Refuse a layer whose rows cannot be told apart by record."""
    if output.dim() != 3:
        raise ModelError(
            f"{type(module).__name__} must see [record, token, hidden], got"
            f" {tuple(output.shape)}; use the loop engine."
        )
