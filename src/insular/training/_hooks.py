"""Per-record gradients of linear layers from one backward pass, gathered by hooks."""

from collections.abc import Callable

from torch import Tensor, nn

from insular.errors import ModelError


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
            if not isinstance(module, nn.Linear) or type(module).forward is not nn.Linear.forward:
                raise ModelError(
                    f"the hooks engine covers trainable linear layers only, got {name} in a"
                    f" {type(module).__name__}; use the func or the loop engine."
                )
            owners.setdefault(module, {})[attribute] = name
    return owners


def check_reached(collected: dict[str, Tensor], summed: Tensor) -> None:
    """Refuse a parameter that the batch's gradient reaches past its layer's forward."""
    sizes = [found[0].numel() for found in collected.values()]
    for (name, found), total in zip(collected.items(), summed.split(sizes), strict=True):
        if total.any() and not found.any():
            raise ModelError(
                f"{name} is used outside its layer's forward, where no hook sees it;"
                " use the func or the loop engine."
            )


def collector(
    names: dict[str, str], collected: dict[str, Tensor], rows: list[Tensor]
) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
    """A forward hook that adds a layer's per-record gradients during the backward pass."""

    def hook(module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
        inputs = args[0].detach()
        if output.dim() != 3:
            raise ModelError(
                f"{type(module).__name__} must see [record, token, hidden], got"
                f" {tuple(output.shape)}; use the loop engine."
            )

        def collect(gradient: Tensor) -> None:
            for record, real in enumerate(rows):
                upstream = gradient[record, real]
                if "weight" in names:
                    collected[names["weight"]][record] += upstream.t() @ inputs[record, real]
                if "bias" in names:
                    collected[names["bias"]][record] += upstream.sum(dim=0)

        output.register_hook(collect)

    return hook
