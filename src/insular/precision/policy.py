"""Apply a precision spec to a model: replace its linear layers and list what was replaced."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn

from insular.errors import InvalidArgumentError, ModelError
from insular.precision.linear import Int8Linear, llm_int8_linear, nf4_linear
from insular.precision.outliers import (
    BatchedOutliers,
    CalibratedOutliers,
    NoOutliers,
    OutlierRule,
    RecordOutliers,
    TokenOutliers,
    float16_threshold,
)
from insular.precision.ownership import RowOwnership, announce_masks
from insular.precision.spec import PrecisionSpec
from insular.precision.stock import Linear8bitLt


@final
@dataclass(frozen=True, kw_only=True)
class Replacement:
    """One linear layer that a precision spec replaced."""

    name: str
    """Qualified name in the model."""
    before: str
    """Class that stood there."""
    after: str
    """Class that stands there now."""
    shape: tuple[int, int]
    """Output and input features."""


def apply_precision(
    model: nn.Module,
    spec: PrecisionSpec,
    *,
    layers: Mapping[str, nn.Module],
    calibration: Mapping[str, Tensor] | None = None,
) -> tuple[Replacement, ...]:
    """Replace frozen linear layers of ``model`` in place.

    Guarantees:
        * Every layer of ``layers`` is replaced, except under ``float32``, which replaces none, and
          ``bfloat16``, which casts the whole model.
        * Trainable layers are refused: a frozen arithmetic may not be learnt through.
        * A refusal leaves the model as it was.

    Args:
        model: A decoder without adapters yet. Its forward announces the batch mask to the layers.
        spec: The arithmetic.
        layers: Qualified name to linear layer (``nn.Linear``, or a transposed ``Conv1D``).
        calibration: Outlier columns of each layer, for the calibrated rule.

    Returns:
        What was replaced, in the order of ``layers``.

    Raises:
        InvalidArgumentError: If a layer is trainable, or the calibrated rule lacks a layer.
        ModelError: If a layer's kind is unknown.
    """
    if spec.backbone == "float32":
        return ()
    for name, layer in layers.items():
        _check_frozen(name, layer)
    if spec.backbone == "bfloat16":
        model.to(torch.bfloat16)
        return ()
    for name, layer in layers.items():
        _check_replaceable(name, layer, spec=spec, calibration=calibration)
    ownership = RowOwnership()
    if spec.backbone == "int8":
        announce_masks(model, ownership)
    done = []
    for name, layer in layers.items():
        weight, bias = _weight_and_bias(layer)
        new = _build(name, weight, bias, spec=spec, ownership=ownership, calibration=calibration)
        parent, _, child = name.rpartition(".")
        setattr(model.get_submodule(parent), child, new)
        done.append(
            Replacement(
                name=name,
                before=type(layer).__name__,
                after=type(new).__name__,
                shape=(weight.shape[0], weight.shape[1]),
            )
        )
    set_layer_modes(model, spec)
    return tuple(done)


def set_layer_modes(model: nn.Module, spec: PrecisionSpec) -> None:
    """Put bitsandbytes' int8 layers, alone, in the mode that the spec names.

    A ``train()`` or ``eval()`` on a parent changes the mode of these layers, and on CPU with it the
    operator; call this afterwards.

    Args:
        model: A model to which ``spec`` was applied.
        spec: The arithmetic.
    """
    if spec.backbone != "bitsandbytes-int8":
        return
    for module in model.modules():
        if isinstance(module, Linear8bitLt):
            module.train(spec.training_mode)


def calibrate_outliers(
    model: nn.Module,
    inputs: Mapping[str, Tensor],
    *,
    layers: Mapping[str, nn.Module],
    threshold: float,
) -> dict[str, Tensor]:
    """Columns that reach the threshold on public text, per layer, for the calibrated rule.

    Args:
        model: The decoder, not yet quantised.
        inputs: Keyword tensors of one forward: ``input_ids`` and ``attention_mask``, public text.
        layers: Qualified name to linear layer.
        threshold: Magnitude at or above which an activation is an outlier.

    Returns:
        Ascending column indices for each layer.
    """
    mask = inputs["attention_mask"].bool().flatten()
    found: dict[str, Tensor] = {}
    handles = []
    for name, layer in layers.items():

        def hook(module: nn.Module, args: tuple[Tensor, ...], *, name: str = name) -> None:
            del module
            rows = args[0].detach().reshape(-1, args[0].shape[-1])[mask]
            over = rows.to(torch.float16).abs() >= float16_threshold(threshold)
            found[name] = over.any(dim=0).nonzero().flatten()

        handles.append(layer.register_forward_pre_hook(hook))
    try:
        with torch.no_grad():
            model(**inputs)
    finally:
        for handle in handles:
            handle.remove()
    return found


def _check_frozen(name: str, layer: nn.Module) -> None:
    """Refuse a trainable layer."""
    if any(parameter.requires_grad for parameter in layer.parameters()):
        raise InvalidArgumentError(
            f"layer {name} must be frozen to be replaced, got a trainable one;"
            " apply the precision before adding adapters."
        )


def _check_replaceable(
    name: str, layer: nn.Module, *, spec: PrecisionSpec, calibration: Mapping[str, Tensor] | None
) -> None:
    """Refuse what is no float linear layer, or lacks its calibrated columns."""
    weight = getattr(layer, "weight", None)
    if not isinstance(weight, Tensor) or weight.dim() != 2 or not weight.is_floating_point():
        raise ModelError(
            f"layer {name} must be a linear layer in floating point, got {type(layer).__name__}."
        )
    calibrated = spec.backbone == "int8" and spec.outlier_rule == "calibrated"
    if calibrated and (calibration is None or name not in calibration):
        raise InvalidArgumentError(
            "calibration must hold columns for every layer under the calibrated rule, got none"
            f" for {name}; run calibrate_outliers on public text first."
        )


def _weight_and_bias(layer: nn.Module) -> tuple[Tensor, Tensor | None]:
    """The ``[out, hidden]`` weight and the bias of a linear layer."""
    weight: Any = layer.weight
    bias: Any = getattr(layer, "bias", None)
    transposed = not isinstance(layer, nn.Linear)  # Conv1D of GPT-2 stores [hidden, out]
    return (weight.t().contiguous() if transposed else weight), bias


def _build(
    name: str,
    weight: Tensor,
    bias: Tensor | None,
    *,
    spec: PrecisionSpec,
    ownership: RowOwnership,
    calibration: Mapping[str, Tensor] | None,
) -> nn.Linear:
    """The layer that takes the place of a float one."""
    if spec.backbone == "nf4":
        return nf4_linear(weight, bias)
    if spec.backbone == "bitsandbytes-int8":
        return llm_int8_linear(weight, bias, threshold=spec.threshold)
    rule = _rule(name, spec, calibration)
    return Int8Linear(weight, bias, rule=rule, ownership=ownership)


def _rule(name: str, spec: PrecisionSpec, calibration: Mapping[str, Tensor] | None) -> OutlierRule:
    """The outlier rule of one layer."""
    if spec.outlier_rule == "calibrated":
        assert calibration is not None
        return CalibratedOutliers(calibration[name])
    if spec.outlier_rule == "batched":
        return BatchedOutliers(spec.threshold)
    if spec.outlier_rule == "record":
        return RecordOutliers(spec.threshold)
    if spec.outlier_rule == "token":
        return TokenOutliers(spec.threshold)
    return NoOutliers()
