"""Which operators really ran, as torch's dispatcher saw them."""

from collections import Counter
from typing import Any, final

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

_PRODUCTS = ("mm", "addmm", "bmm", "_int_mm", "linear", "embedding_bag", "_embedding_bag")
"""aten operators worth counting; every operator of another namespace is counted."""


@final
class OperatorTrace(TorchDispatchMode):
    """Counts the products and the library operators that run inside the ``with`` block.

    aten products are counted with the element type of their first argument, so that a bfloat16
    product and a float32 one are told apart.
    """

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Count, then run."""
        del types
        namespace, _, operator = func.name().partition("::")
        operator = operator.partition(".")[0]
        if namespace != "aten":
            self.counts[f"{namespace}::{operator}"] += 1
        elif operator in _PRODUCTS:
            self.counts[f"aten::{operator}[{_dtype(args)}]"] += 1
        return func(*args, **(kwargs or {}))


def _dtype(args: tuple[Any, ...]) -> str:
    """Element type of the last tensor argument, which is a factor of the product."""
    tensors = [a for a in args if isinstance(a, Tensor)]
    return str(tensors[-1].dtype).removeprefix("torch.") if tensors else "none"
