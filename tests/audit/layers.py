"""Layers and rules with one coupling in them each, and their clean twins."""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from insular.precision.outliers import NoOutliers, OutlierSplit, RecordOutliers, ResidualProduct
from insular.precision.ownership import RowOwnership
from insular.precision.product import int8_product, quantise_weight


class PaddedRecordOutliers(RecordOutliers.__mro__[1]):  # the shared threshold test
    """Bug: one set per record, from its rows with the padding counted."""

    name = "record, padding counted"

    def assign(
        self, loud: Tensor, over: Tensor | None, scale: Tensor, ownership: RowOwnership
    ) -> OutlierSplit:
        if over is None or ownership.mask is None:
            return OutlierSplit(scale=scale)
        n_records, n_tokens = ownership.mask.shape
        products = []
        for i in range(n_records):
            rows = slice(i * n_tokens, (i + 1) * n_tokens)
            columns = over[(loud >= rows.start) & (loud < rows.stop)].any(dim=0).nonzero().flatten()
            products.append(ResidualProduct(rows=rows, columns=columns))
        return OutlierSplit(scale=scale, products=tuple(products))


class PerTensorInt8(nn.Module):
    """Bug: dynamic int8, one activation scale for the whole batch; straight-through backward."""

    def __init__(self, layer: nn.Module, *, per_row: bool = False) -> None:
        super().__init__()
        self.layer, self.per_row = layer, per_row

    def forward(self, x: Tensor) -> Tensor:
        peak = (
            x.detach().abs().amax(dim=-1, keepdim=True) if self.per_row else x.detach().abs().max()
        )
        scale = peak / 127
        rounded = (x.detach() / scale).round() * scale
        return self.layer(x + (rounded - x.detach()))


class BatchNormOverBatch(nn.Module):
    """Bug: statistics over every row of the batch."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(hidden, affine=False, track_running_stats=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x.flatten(0, -2)).view(x.shape)


class DropoutByPosition(nn.Module):
    """Bug: the mask comes from the position in the batch, also in evaluation."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.dropout(x, p=0.2, training=True)


class _ScaledGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:  # type: ignore[override]
        scale = grad_output.abs().max() / 127
        return (grad_output / scale).round() * scale


class PerTensorGradient(nn.Module):
    """Bug: exact forward, grad_output rounded with one scale for the whole batch."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return _ScaledGradient.apply(self.layer(x))


def literal_residual(weight: Tensor, *, threshold: float) -> Callable[[Tensor], Tensor]:
    """Bug: record-owned sets, but one residual product over the batch's union of columns.

    Columns that a record does not own hold zeros there; only the order of the sum depends on them.
    """
    quantised = quantise_weight(weight)
    dense = quantised.codes * quantised.scale.unsqueeze(1) / 127

    def layer(x: Tensor) -> Tensor:
        own = (x.abs() >= threshold).any(dim=1, keepdim=True)
        inner = int8_product(
            x.masked_fill(own, 0.0), quantised, None, rule=NoOutliers(), ownership=RowOwnership()
        )
        union = own.any(dim=0).flatten().nonzero().flatten()
        return inner + x.masked_fill(~own, 0.0)[..., union] @ dense[:, union].t()

    return layer


def owned_residual(weight: Tensor, *, threshold: float) -> Callable[[Tensor], Tensor]:
    """Clean: the same sets, one residual product per record."""
    quantised, ownership = quantise_weight(weight), RowOwnership()

    def layer(x: Tensor) -> Tensor:
        ownership.announce(torch.ones(x.shape[:2], dtype=torch.bool))
        rule = RecordOutliers(threshold)
        return int8_product(x, quantised, None, rule=rule, ownership=ownership)

    return layer


def experts(*, capacity: bool) -> Callable[[Tensor], Tensor]:
    """Top-1 routing by the sign of the first entry; with a capacity, later tokens are dropped."""

    def layer(x: Tensor) -> Tensor:
        rows = x.flatten(0, -2)
        chosen = (rows[:, 0] > 0).long()
        outputs = rows * (chosen + 2).unsqueeze(1)
        if capacity:
            one_hot = functional.one_hot(chosen, 2)
            place = (one_hot.cumsum(dim=0) * one_hot).sum(dim=1)
            outputs[place > -(-len(rows) // 2)] = 0
        return outputs.view(x.shape)

    return layer


def quantize_dynamic(weight: Tensor) -> nn.Module:
    """torch.ao's dynamic int8 linear layer: one activation scale per call."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    layer.weight.data = weight
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.ao announces its own end
        return torch.ao.quantization.quantize_dynamic(
            nn.Sequential(layer), {nn.Linear}, dtype=torch.qint8
        )
