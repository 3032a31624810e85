"""One int8 product for every outlier rule, and its gradient with respect to the input."""

from dataclasses import dataclass
from typing import Any, final

import torch
from jaxtyping import Float, Int8
from torch import Tensor

from insular.precision.gemm import int8_matmul
from insular.precision.outliers import OutlierCells, OutlierRule, OutlierSplit, ResidualProduct
from insular.precision.ownership import RowOwnership

DEQUANTISE_PRODUCT = 6.200124e-05
"""1 / 127^2 as bitsandbytes rounds it; another constant would give other bits."""
DEQUANTISE_WEIGHT = 7.874015718698502e-3
"""1 / 127 as bitsandbytes rounds it."""


@final
@dataclass(frozen=True, kw_only=True)
class Int8Weight:
    """A frozen weight in int8: one scale per output row."""

    codes: Int8[Tensor, "out hidden"]
    """round(127 w / scale), each in [-127, 127]."""
    scale: Float[Tensor, " out"]
    """Largest magnitude of each output row, in weight units."""


def quantise_weight(weight: Float[Tensor, "out hidden"]) -> Int8Weight:
    """Quantise a weight as LLM.int8 does: through float16, one scale per output row.

    Args:
        weight: The frozen weight.

    Returns:
        Codes and scales. A row of zeros has codes 0 and scale 0.
    """
    values = weight.detach().to(torch.float16).float()
    scale = values.abs().amax(dim=1)
    return Int8Weight(codes=_codes(values, scale), scale=scale)


def int8_product(
    activations: Tensor,
    weight: Int8Weight,
    bias: Tensor | None,
    *,
    rule: OutlierRule,
    ownership: RowOwnership,
) -> Tensor:
    r"""Multiply activations by an int8 weight, outlier columns apart.

    For row i with scale :math:`s_i` and outlier columns :math:`O_i`,
    :math:`y_i = s_i s_W \sum_{j \notin O_i} q_{ij} w_j / 127^2 + \sum_{j \in O_i} a_{ij} \hat w_j`.

    Guarantees:
        * Under the batched rule the result equals bitsandbytes' ``MatMul8bitLt`` bit for bit on
          CPU; under the record rule it equals that operator run on one record at a time.
        * Under every rule but the batched one, a record's rows depend on that record alone.

    Args:
        activations: ``[row, hidden]`` or ``[record, token, hidden]``, any float dtype.
        weight: The frozen weight.
        bias: Rounded to the activations' dtype and added to the int8 part before that is, or None.
        rule: Which columns leave the int8 product.
        ownership: Whose each row is.

    Returns:
        The product, in the activations' dtype and leading shape.

    Source:
        Dettmers et al. (2022), LLM.int8(). https://arxiv.org/abs/2208.07339
    """
    return _Int8Product.apply(activations, weight, bias, rule, ownership)  # type: ignore[no-any-return]


class _Int8Product(torch.autograd.Function):
    """Forward through int8; backward through the dequantised weight, as bitsandbytes does."""

    @staticmethod
    def forward(
        ctx: Any,
        activations: Tensor,
        weight: Int8Weight,
        bias: Tensor | None,
        rule: OutlierRule,
        ownership: RowOwnership,
    ) -> Tensor:
        ctx.weight = weight
        flat = activations.reshape(-1, activations.shape[-1])
        values = flat.to(torch.float16).float()
        split = rule.split(values, _row_max(values), ownership)
        codes = _codes(values, split.scale)
        _remove_outliers(codes, split)
        output = _dequantise(int8_matmul(codes, weight.codes), split.scale, weight.scale)
        if bias is not None:
            output += bias.to(flat.dtype)
        output = output.to(flat.dtype)
        for product in split.products:
            _add_columns(output, flat, product, weight)
        if split.cells is not None:
            _add_cells(output, flat, split.cells, weight)
        return output.view(*activations.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None, None, None]:  # type: ignore[override]
        codes, scale = ctx.weight.codes, ctx.weight.scale
        dense = codes.to(grad_output.dtype).mul_(scale.unsqueeze(1).mul(1.0 / 127.0))
        flat = grad_output.reshape(-1, grad_output.shape[-1])
        grad = (flat @ dense).view(*grad_output.shape[:-1], -1)
        return grad, None, None, None, None


def _row_max(values: Tensor) -> Tensor:
    """The largest magnitude of each row."""
    return values.abs().amax(dim=1)  # ten times as fast as aminmax on CPU


def _codes(values: Tensor, scale: Tensor) -> Tensor:
    """round(127 v / scale) as int8; 0 where the scale is 0."""
    factor = (127.0 / scale).masked_fill_(scale == 0, 0.0)
    return (values * factor.unsqueeze(1)).round_().to(torch.int8)


def _remove_outliers(codes: Tensor, split: OutlierSplit) -> None:
    """Zero the codes that are computed elsewhere."""
    for product in split.products:
        if isinstance(product.rows, slice):
            codes[product.rows].index_fill_(1, product.columns, 0)
        else:
            codes[product.rows.unsqueeze(1), product.columns] = 0
    if split.cells is not None:
        codes[split.cells.rows, split.cells.columns] = 0
    if split.silenced is not None:
        codes.index_fill_(0, split.silenced, 0)


def _dequantise(products: Tensor, row_scale: Tensor, out_scale: Tensor) -> Tensor:
    """Integer products times both scales, in the order of operations of bitsandbytes."""
    output = row_scale.unsqueeze(1) * out_scale.unsqueeze(0)
    return output.mul_(products).mul_(DEQUANTISE_PRODUCT)


def _weight_columns(weight: Int8Weight, columns: Tensor) -> Tensor:
    """The dequantised weight's columns, ``[out, outlier]`` in float32."""
    picked = weight.codes.index_select(1, columns)
    return (picked * weight.scale.unsqueeze(1)).mul_(DEQUANTISE_WEIGHT)


def _add_columns(
    output: Tensor, activations: Tensor, product: ResidualProduct, weight: Int8Weight
) -> None:
    """Add one dense product over the outlier columns of some rows."""
    columns = _weight_columns(weight, product.columns).to(activations.dtype).t()
    picked = activations[product.rows].index_select(1, product.columns)
    if isinstance(product.rows, slice):
        output[product.rows].addmm_(picked, columns)
    else:
        output[product.rows] = output[product.rows].addmm(picked, columns)


def _add_cells(
    output: Tensor, activations: Tensor, cells: OutlierCells, weight: Int8Weight
) -> None:
    """Add each row's own outlier cells, in ascending column order."""
    needed, position = cells.columns.unique(return_inverse=True)
    table = _weight_columns(weight, needed).to(activations.dtype).t().contiguous()
    counts = torch.bincount(cells.rows, minlength=output.shape[0])
    offsets = counts.cumsum(0) - counts
    output += torch.nn.functional.embedding_bag(
        position,
        table,
        offsets,
        mode="sum",
        per_sample_weights=activations[cells.rows, cells.columns],
    )
