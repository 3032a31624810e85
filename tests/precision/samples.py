"""Activations with outliers, masks of every kind, and bitsandbytes' own operator as the oracle."""

import bitsandbytes as bnb
import torch
from torch import Tensor, nn

from insular.precision.linear import Int8Linear, llm_int8_linear
from insular.precision.outliers import OutlierRule
from insular.precision.ownership import RowOwnership


def activations(*shape: int, seed: int, share: float = 0.01) -> Tensor:
    """Normal values; a share of the cells is fifteen times as large, and so mostly an outlier."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(*shape, generator=generator)
    loud = torch.rand(*shape, generator=generator) < share
    return torch.where(loud, values * 15, values)


def weight_and_bias(out: int, hidden: int, *, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(out, hidden, generator=generator) * 0.1
    return weight, torch.randn(out, generator=generator)


def bitsandbytes_layer(weight: Tensor, bias: Tensor | None, threshold: float) -> nn.Module:
    layer = llm_int8_linear(weight, bias, threshold=threshold)
    assert type(layer) is bnb.nn.Linear8bitLt
    return layer


def announced(mask: Tensor) -> RowOwnership:
    ownership = RowOwnership()
    ownership.announce(mask)
    return ownership


def int8_layer(
    weight: Tensor, bias: Tensor | None, rule: OutlierRule, mask: Tensor | None = None
) -> Int8Linear:
    ownership = RowOwnership() if mask is None else announced(mask)
    return Int8Linear(weight, bias, rule=rule, ownership=ownership)


def mask_of(lengths: list[int], *, width: int, side: str, seed: int = 0) -> Tensor:
    """Real positions on the left, on the right, or (``mixed``) anywhere."""
    mask = torch.zeros(len(lengths), width, dtype=torch.bool)
    generator = torch.Generator().manual_seed(seed)
    for record, length in enumerate(lengths):
        if side == "right":  # padding on the right
            mask[record, :length] = True
        elif side == "left":
            mask[record, width - length :] = True
        else:
            mask[record, torch.randperm(width, generator=generator)[:length]] = True
    return mask
