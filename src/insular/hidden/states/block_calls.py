"""How a decoder calls its blocks, overheard in one forward."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, final

from jaxtyping import Float
from torch import Tensor, nn
from transformers.cache_utils import Cache

from insular.errors import ModelError


@final
@dataclass(frozen=True, kw_only=True)
class BlockCall:
    """The arguments that one block was given besides the hidden states."""

    args: tuple[Any, ...]
    """Positional ones."""
    kwargs: dict[str, Any]
    """Named ones."""

    def run(
        self, block: nn.Module, hidden: Float[Tensor, "record token hidden"], *, cache: Any
    ) -> Float[Tensor, "record token hidden"]:
        """Call the block with these arguments and another cache."""

        def exchanged(value: Any) -> Any:
            return cache if isinstance(value, Cache) else value

        return first_output(
            block(
                hidden,
                *map(exchanged, self.args),
                **{name: exchanged(value) for name, value in self.kwargs.items()},
            )
        )

    def mapped(self, change: Callable[[Tensor], Tensor]) -> "BlockCall":
        """The same call with every tensor changed, also those in tuples."""

        def walk(value: Any) -> Any:
            if isinstance(value, Tensor):
                return change(value)
            return tuple(map(walk, value)) if isinstance(value, tuple) else value

        return BlockCall(
            args=tuple(map(walk, self.args)),
            kwargs={name: walk(value) for name, value in self.kwargs.items()},
        )


class _Enough(Exception):
    """Ends a forward whose remaining layers nobody asked for."""


@final
@dataclass(kw_only=True)
class Overheard:
    """What one forward of a decoder showed."""

    calls: dict[int, BlockCall] = field(default_factory=dict)
    """Block to its arguments."""
    outputs: dict[int, Tensor] = field(default_factory=dict)
    """Block to its output, at every position."""
    after: list[str] = field(default_factory=list)
    """Names of the trunk's parts that ran after the last block."""


@contextmanager
def overhearing(
    trunk: nn.Module,
    blocks: Sequence[nn.Module],
    *,
    layers: Sequence[int],
    stop: bool = False,
    cut: Callable[[int, Tensor], Tensor] | None = None,
) -> Iterator[Overheard]:
    """Note calls and outputs of blocks while the trunk runs; with ``stop``, end it when done."""
    heard = Overheard()
    last = len(blocks) - 1
    handles = []

    def before(index: int) -> Callable[..., None]:
        def hook(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if not args:
                raise ModelError(
                    "a block is not given its hidden states first; insular cannot replay it. Use "
                    "a Llama-like or GPT-2-like decoder."
                )
            heard.calls[index] = BlockCall(args=tuple(args[1:]), kwargs=dict(kwargs))

        return hook

    def after(index: int) -> Callable[..., None]:
        def hook(_: nn.Module, __: object, output: Any) -> None:
            if index in layers:
                hidden = first_output(output)
                heard.outputs[index] = cut(index, hidden) if cut else hidden
            if stop and index == max(layers):
                raise _Enough

        return hook

    def part(name: str) -> Callable[..., None]:
        def hook(*_: object) -> None:
            if last in heard.calls:
                heard.after.append(name)

        return hook

    for index, block in enumerate(blocks):
        handles.append(block.register_forward_pre_hook(before(index), with_kwargs=True))
        handles.append(block.register_forward_hook(after(index)))
    for name, child in trunk.named_children():
        if not isinstance(child, nn.ModuleList):
            handles.append(child.register_forward_hook(part(name)))
    try:
        yield heard
    except _Enough:
        pass
    finally:
        for handle in handles:
            handle.remove()


def first_output(output: Any) -> Tensor:
    """The hidden states among what a block returns."""
    return output[0] if isinstance(output, tuple) else output
