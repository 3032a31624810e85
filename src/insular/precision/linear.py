"""Linear layers over a frozen weight: insular's int8 layer, and those of bitsandbytes."""

from typing import Any, TypeVar, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from insular.precision.outliers import OutlierRule
from insular.precision.ownership import RowOwnership
from insular.precision.product import Int8Weight, int8_product, quantise_weight
from insular.precision.stock import Int8Params, Linear4bit, Linear8bitLt, Params4bit

LayerT = TypeVar("LayerT", bound=nn.Linear)


@final
class Int8Linear(nn.Linear):
    """A frozen linear layer in int8 under an outlier rule.

    It is an ``nn.Linear`` so that adapters attach to it. Its weight is the int8 codes; the scales
    are a buffer.
    """

    scale: Tensor

    def __init__(
        self,
        weight: Float[Tensor, "out hidden"],
        bias: Float[Tensor, " out"] | None,
        *,
        rule: OutlierRule,
        ownership: RowOwnership,
    ) -> None:
        """Quantise ``weight``; ``bias`` is kept as it is."""
        out_features, in_features = weight.shape
        super().__init__(in_features, out_features, bias=False, device="meta")
        quantised = quantise_weight(weight)
        self.weight = nn.Parameter(quantised.codes, requires_grad=False)
        self.register_buffer("scale", quantised.scale)
        self.bias = None if bias is None else nn.Parameter(bias.detach().clone(), False)
        self.rule = rule
        self.ownership = ownership

    def forward(self, input: Tensor) -> Tensor:
        """Multiply ``input``, ``[..., hidden]``, by the frozen weight."""
        weight = Int8Weight(codes=self.weight, scale=self.scale)
        return int8_product(input, weight, self.bias, rule=self.rule, ownership=self.ownership)

    def extra_repr(self) -> str:
        """Name the shape and the rule."""
        return f"{self.in_features}, {self.out_features}, rule={self.rule.name}"


@final
class Nf4Linear(Linear4bit):
    """The NF4 layer of bitsandbytes, kept in training mode for good.

    On CPU with AVX512-BF16, one evaluation-mode forward without gradients repacks a
    ``Linear4bit``'s weight, and every later backward through it loses the gradient silently. The
    layer has no behaviour of its own in training mode, so it never leaves it.
    """

    def train(self, mode: bool = True) -> "Nf4Linear":
        """Stay in training mode, whatever ``mode`` says."""
        del mode
        return super().train(True)


def nf4_linear(
    weight: Float[Tensor, "out hidden"], bias: Float[Tensor, " out"] | None
) -> Nf4Linear:
    """A 4-bit NF4 layer with float32 compute and nested statistics off.

    Args:
        weight: The weight to quantise, in blocks of 64.
        bias: Kept as it is, or None.

    Returns:
        The layer, on the weight's device.
    """
    out_features, in_features = weight.shape
    layer = Nf4Linear(
        in_features,
        out_features,
        bias=bias is not None,
        compute_dtype=torch.float32,
        compress_statistics=False,
        quant_type="nf4",
    )
    quantised: type[Any] = Params4bit
    layer.weight = quantised(
        weight.detach().clone(),
        requires_grad=False,
        quant_type="nf4",
        compress_statistics=False,
        module=layer,
    )
    return _finish(layer, weight, bias).train()


def llm_int8_linear(
    weight: Float[Tensor, "out hidden"], bias: Float[Tensor, " out"] | None, *, threshold: float
) -> Linear8bitLt:
    """The LLM.int8 layer of bitsandbytes, in evaluation mode.

    Evaluation mode matters on CPU: there the layer in training mode runs another operator, which
    has no outliers at all.

    Args:
        weight: The weight to quantise.
        bias: Kept as it is, or None.
        threshold: Outlier threshold, in activation units; 0 means none.

    Returns:
        The layer, on the weight's device.
    """
    out_features, in_features = weight.shape
    layer = Linear8bitLt(
        in_features,
        out_features,
        bias=bias is not None,
        has_fp16_weights=False,
        threshold=threshold,
    )
    quantised: type[Any] = Int8Params
    layer.weight = quantised(weight.detach().clone(), requires_grad=False, has_fp16_weights=False)
    return _finish(layer, weight, bias).eval()


def _finish(layer: LayerT, weight: Tensor, bias: Tensor | None) -> LayerT:
    """Set the bias, and move the layer, which is what quantises it."""
    if bias is not None:
        layer.bias = nn.Parameter(bias.detach().clone(), requires_grad=False)
    return layer.to(weight.device)
