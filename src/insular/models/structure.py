"""The parts of a decoder, found by their shape and place rather than by a table of families."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

from torch import nn
from transformers.pytorch_utils import Conv1D

from insular.errors import ModelError

_QUERY = frozenset({"q", "query", "wq"})
_VALUE = frozenset({"v", "value", "wv"})


@final
@dataclass(frozen=True, kw_only=True)
class Blocks:
    """The repeated blocks of a decoder."""

    name: str
    """Qualified name of the list that holds them."""
    modules: tuple[nn.Module, ...]
    """The blocks, first to last."""

    def __len__(self) -> int:
        """Number of blocks."""
        return len(self.modules)


def find_blocks(model: nn.Module) -> Blocks:
    """Find the repeated decoder blocks.

    They are the ``ModuleList`` whose elements share one class, have an attention part with linear
    layers, and together hold the most linear layers. Lists inside a block (experts) hold fewer.

    Guarantees:
        * An adapted model gives the same blocks, under their new qualified name.

    Args:
        model: A decoder, adapted or not.

    Returns:
        The blocks and the qualified name of their list.

    Raises:
        ModelError: If no list qualifies.
    """
    best: tuple[int, str, nn.ModuleList] | None = None
    for name, module in model.named_modules():
        if not _is_repeated(module):
            continue
        assert isinstance(module, nn.ModuleList)
        count = sum(1 for _ in _linears(module))
        if best is None or count > best[0]:
            best = (count, name, module)
    if best is None:
        raise ModelError(
            f"{type(model).__name__} has no list of repeated blocks that share one class and hold "
            "attention with linear layers; insular needs a decoder built of such blocks."
        )
    return Blocks(name=best[1], modules=tuple(best[2]))


def block_linears(model: nn.Module) -> dict[str, nn.Module]:
    """Every linear layer inside the blocks, by qualified name and in definition order.

    Counts ``nn.Linear`` and its quantised subclasses, transformers' ``Conv1D``, and any module
    with a weight and integer ``in_features`` and ``out_features``.

    Guarantees:
        * Adapters are not listed; an adapted layer is listed as its base layer, under the name
          by which it can be replaced.

    Args:
        model: A decoder, adapted or not.

    Returns:
        Qualified name to layer.

    Raises:
        ModelError: If the model has no blocks.
    """
    name = find_blocks(model).name
    return dict(_linears(model.get_submodule(name), prefix=name))


def attention_targets(model: nn.Module) -> tuple[str, ...]:
    """Names of the layers that LoRA adapts by default: the query and value projections.

    Taken from the attention part of the blocks: the layers whose names say query and value, else
    the one fused layer that says so or that is wider than its input.

    Guarantees:
        * Every name returned is found in every block.

    Args:
        model: A decoder.

    Returns:
        Last parts of the layers' names, in definition order.

    Raises:
        ModelError: If the projections cannot be told, listing the linear names that were found.
    """
    blocks = find_blocks(model)
    per_block = [_attention_linears(block) for block in blocks.modules]
    layers = {
        name: layer
        for name, layer in per_block[0].items()
        if all(name in block for block in per_block)
    }
    words = {name: set(name.lower().split("_")) for name in layers}
    query = [name for name in layers if words[name] & _QUERY]
    value = [name for name in layers if words[name] & _VALUE]
    if len(query) == len(value) == 1:
        return tuple(name for name in layers if name in (query[0], value[0]))
    fused = [name for name in layers if "qkv" in name.lower()] or [
        name for name, layer in layers.items() if _is_wider(layer)
    ]
    if not query and not value and len(fused) == 1:
        return (fused[0],)
    found = sorted({name.rpartition(".")[2] for name, _ in _linears(blocks.modules[0])})
    raise ModelError(
        f"{type(model).__name__} has no query and value projections that can be told by name or "
        f"shape; its blocks hold the linear layers {', '.join(found)}; name the layers to adapt "
        "with --lora-targets."
    )


def embedding(model: nn.Module) -> nn.Module:
    """The module that turns token ids into vectors.

    Args:
        model: A decoder.

    Returns:
        The input embedding.

    Raises:
        ModelError: If the model names none.
    """
    return _named_part(model, "get_input_embeddings", "input embedding")


def output_head(model: nn.Module) -> nn.Module:
    """The module that turns the last hidden state into logits.

    Args:
        model: A decoder.

    Returns:
        The output head; with tied embeddings its weight is the input embedding's.

    Raises:
        ModelError: If the model names none.
    """
    return _named_part(model, "get_output_embeddings", "output head")


def is_linear(module: nn.Module) -> bool:
    """Whether a module is a linear layer, quantised or not.

    Args:
        module: Any module.

    Returns:
        Whether it computes a product with one weight matrix.
    """
    if isinstance(module, nn.Linear | Conv1D):
        return True
    features = (getattr(module, "in_features", None), getattr(module, "out_features", None))
    return all(isinstance(n, int) for n in features) and getattr(module, "weight", None) is not None


def _linears(module: nn.Module, prefix: str = "") -> Iterator[tuple[str, nn.Module]]:
    """Linear layers below a module, each adapted layer as its base layer."""
    base = getattr(module, "base_layer", None)
    if isinstance(base, nn.Module):
        yield from _linears(base, f"{prefix}.base_layer" if prefix else "base_layer")
    elif is_linear(module):
        yield prefix, module
    else:
        for name, child in module.named_children():
            yield from _linears(child, f"{prefix}.{name}" if prefix else name)


def _is_repeated(module: nn.Module) -> bool:
    """Whether a module is a list of blocks of one class, with attention in the first."""
    return (
        isinstance(module, nn.ModuleList)
        and len(module) > 0
        and len({type(element) for element in module}) == 1
        and bool(_attention_linears(module[0]))
    )


def _attention_linears(block: nn.Module) -> dict[str, nn.Module]:
    """Linear layers of a block's attention parts, by the last part of their names."""
    found: dict[str, nn.Module] = {}
    for name, module in block.named_modules():
        place = f"{name.rpartition('.')[2]} {type(module).__name__}".lower()
        # A linear layer is no attention part, even where its own name says so (c_attn).
        if not name or "att" not in place or is_linear(module) or hasattr(module, "base_layer"):
            continue
        for inner, layer in _linears(module):
            found.setdefault(inner.removesuffix(".base_layer").rpartition(".")[2], layer)
    return found


def _is_wider(layer: nn.Module) -> bool:
    """Whether a layer gives more features than it reads, as a fused projection does."""
    if isinstance(layer, Conv1D):
        rows, columns = layer.weight.shape
        return columns > rows
    return bool(layer.out_features > layer.in_features)  # pyright: ignore[reportOperatorIssue]


def _named_part(model: nn.Module, method: str, part: str) -> nn.Module:
    """What one of the model's own accessors returns."""
    accessor = getattr(model, method, None)
    found = accessor() if callable(accessor) else None
    if not isinstance(found, nn.Module):
        raise ModelError(
            f"{type(model).__name__} names no {part}: its {method}() must return a module."
        )
    return found


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """Trainable parameters by qualified name, in definition order.

    Guarantees:
        * A tensor that is shared by two modules is named once, by its first name.

    Args:
        model: Any module.

    Returns:
        Name to parameter.
    """
    return {name: p for name, p in model.named_parameters() if p.requires_grad}
