"""The integer product of int8 codes: exact on every path, so the path never changes a bit."""

import torch
from jaxtyping import Float, Int, Int8
from torch import Tensor

EXACT_FLOAT_COLUMNS = 1024
"""Inner columns whose int8 products sum exactly in float32: 1024 * 127^2 < 2^24."""


def int8_matmul(
    codes: Int8[Tensor, "row hidden"], weight: Int8[Tensor, "out hidden"]
) -> Int[Tensor, "row out"]:
    r"""Exact product :math:`\sum_j a_{ij} w_{kj}` of int8 codes, accumulated in int32.

    Guarantees:
        * The result equals the product in int64, on every device and path, for codes in
          [-127, 127] and fewer than 2^17 inner columns.

    Args:
        codes: Activation codes, each in [-127, 127].
        weight: Weight codes, each in [-127, 127], one row per output.

    Returns:
        The int32 products.
    """
    if native_int8_matmul(codes.device, codes.shape, weight.shape):
        return torch._int_mm(codes, weight.t())  # pyright: ignore[reportPrivateImportUsage]
    return _float_matmul(codes, weight)


def native_int8_matmul(
    device: torch.device, left: tuple[int, ...] | torch.Size, right: tuple[int, ...] | torch.Size
) -> bool:
    """Whether torch's int8 matmul is exact and fast for these shapes on this device.

    On CPU it needs AVX-512: elsewhere it falls back to scalar code. On CUDA the shapes must suit
    the tensor cores.

    Args:
        device: Where the codes live.
        left: Shape ``[row, hidden]``.
        right: Shape ``[out, hidden]``.

    Returns:
        True if ``torch._int_mm`` is used.
    """
    if device.type == "cpu":
        # With one inner column both strides of the transposed weight are 1, and torch misreads it.
        return left[1] > 1 and torch.backends.cpu.get_cpu_capability() == "AVX512"
    if device.type == "cuda":
        return left[0] > 16 and left[1] % 8 == 0 and right[0] % 8 == 0
    return False


def _float_matmul(codes: Tensor, weight: Tensor) -> Tensor:
    """The product by float32 pieces that are short enough to be exact."""
    total = torch.zeros((codes.shape[0], weight.shape[0]), dtype=torch.int32, device=codes.device)
    for left, right in zip(
        codes.split(EXACT_FLOAT_COLUMNS, dim=1),
        weight.split(EXACT_FLOAT_COLUMNS, dim=1),
        strict=True,
    ):
        piece: Float[Tensor, "row out"] = left.float() @ right.float().t()
        total += piece.to(torch.int32)
    return total
