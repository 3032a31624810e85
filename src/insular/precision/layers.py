"""The int8 layers of a live model: their names, their thresholds, their codes and scales."""

from torch import nn

from insular.errors import ModelError
from insular.precision.linear import Int8Linear
from insular.precision.outliers import BatchedOutliers, ThresholdRule, float16_threshold
from insular.precision.product import Int8Weight
from insular.precision.stock import Linear8bitLt

Int8Layer = Linear8bitLt | Int8Linear
"""A layer whose frozen weight is int8 codes: bitsandbytes' own, or insular's."""


def plain_name(name: str) -> str:
    """The name that a module has in the decoder before adapters are put around it.

    Args:
        name: Qualified name in a model, adapted by PEFT or not.

    Returns:
        The name without PEFT's ``base_model.model.`` and ``.base_layer``.
    """
    return name.removeprefix("base_model.model.").removesuffix(".base_layer")


def int8_layers(model: nn.Module) -> dict[str, Int8Layer]:
    """Every int8 layer of a model, in definition order.

    Guarantees:
        * An adapted model gives the same names as the decoder in it.

    Args:
        model: Any model.

    Returns:
        Plain name to layer. A model that is itself such a layer has the name ``""``.
    """
    return {
        plain_name(name): module
        for name, module in model.named_modules()
        if isinstance(module, Int8Layer)
    }


def outlier_threshold(layer: Int8Layer) -> float | None:
    """The threshold that the layer's next forward applies to its activations.

    Args:
        layer: An int8 layer, in the mode in which it will run.

    Returns:
        A float16 number, or None where no activation is tested: threshold 0, a rule without a
        threshold, or bitsandbytes' float product.
    """
    if isinstance(layer, Int8Linear):
        return layer.rule.threshold if isinstance(layer.rule, ThresholdRule) else None
    if runs_float_product(layer) or layer.state.threshold <= 0:
        return None
    return float16_threshold(layer.state.threshold)


def takes_union(layer: Int8Layer) -> bool:
    """Whether the layer gives every row the union of all rows' outlier columns.

    Args:
        layer: An int8 layer, in the mode in which it will run.

    Returns:
        True for LLM.int8 as shipped and for the batched rule.
    """
    if isinstance(layer, Int8Linear):
        return isinstance(layer.rule, BatchedOutliers)
    return outlier_threshold(layer) is not None


def runs_float_product(layer: Int8Layer) -> bool:
    """Whether bitsandbytes multiplies by the dequantised weight, as in training mode off CUDA.

    Args:
        layer: An int8 layer, in the mode in which it will run.

    Returns:
        True if no code of the activations is made at all.
    """
    off_cuda = layer.weight.device.type in ("cpu", "xpu")
    return isinstance(layer, Linear8bitLt) and layer.training and off_cuda


def int8_weight(layer: Int8Layer) -> Int8Weight:
    """The codes and scales that the layer computes with, not a copy.

    Args:
        layer: An int8 layer.

    Returns:
        The weight.

    Raises:
        ModelError: If the layer of bitsandbytes was not quantised yet.
    """
    if isinstance(layer, Int8Linear):
        return Int8Weight(codes=layer.weight, scale=layer.scale)
    for holder in (layer.state, layer.weight):  # bitsandbytes moves them at the first forward
        codes, scale = getattr(holder, "CB", None), getattr(holder, "SCB", None)
        if codes is not None and scale is not None:
            return Int8Weight(codes=codes, scale=scale)
    raise ModelError(
        "a Linear8bitLt must hold int8 codes and scales, got none; move the model to its device"
        " first, which quantises it."
    )
