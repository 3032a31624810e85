"""A named arithmetic made of a decoder: frozen layers replaced, adapters added."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import final

from torch import Tensor, nn

from insular.models.loading import Decoder, load_decoder
from insular.models.lora import add_lora
from insular.models.spec import LoraSpec
from insular.models.structure import attention_targets, block_linears
from insular.precision.policy import Replacement, apply_precision, set_layer_modes
from insular.precision.spec import PrecisionSpec
from insular.recipes.audit.spec import StackName


@final
@dataclass(frozen=True, kw_only=True)
class Stack:
    """How a named stack computes."""

    precision: PrecisionSpec
    """Arithmetic of the frozen layers."""
    physical_batch: int = 0
    """Records in one forward; 0 for the whole batch."""


_BNB = "bitsandbytes-int8"
BUILT: dict[StackName, Stack] = {
    "llm-int8": Stack(precision=PrecisionSpec(backbone=_BNB)),
    "llm-int8-train": Stack(precision=PrecisionSpec(backbone=_BNB, training_mode=True)),
    "threshold-0": Stack(precision=PrecisionSpec(backbone=_BNB, threshold=0.0)),
    "record-owned": Stack(precision=PrecisionSpec(backbone="int8", outlier_rule="record")),
    "token-owned": Stack(precision=PrecisionSpec(backbone="int8", outlier_rule="token")),
    "calibrated": Stack(precision=PrecisionSpec(backbone="int8", outlier_rule="calibrated")),
    "nf4": Stack(precision=PrecisionSpec(backbone="nf4")),
    "bf16": Stack(precision=PrecisionSpec(backbone="bfloat16")),
    "float32": Stack(precision=PrecisionSpec(backbone="float32")),
    "singleton": Stack(precision=PrecisionSpec(backbone=_BNB), physical_batch=1),
}
"""What each name means."""

Calibrate = Callable[[Decoder, dict[str, nn.Module]], dict[str, Tensor]]
"""Outlier columns of each layer, found on public text before anything is replaced."""


@final
@dataclass(frozen=True, kw_only=True)
class AdaptedModel:
    """A decoder whose frozen layers compute as the stack says, with its adapters."""

    model: nn.Module
    """The PEFT model, in evaluation mode."""
    decoder: Decoder
    """What it was made of; its own model is used up."""
    stack: Stack
    """Its arithmetic."""
    replaced: tuple[Replacement, ...]
    """Layers that were replaced."""

    def set_modes(self) -> None:
        """Put the quantised layers in the mode that the stack names, whatever was called since."""
        set_layer_modes(self.model, self.stack.precision)


def build_adapted(
    name: StackName,
    *,
    model: str,
    lora: LoraSpec,
    device: str = "cpu",
    attention: str = "eager",
    check: Callable[[Decoder], None] | None = None,
    calibrate: Calibrate | None = None,
    progress: Callable[[str], None] | None = None,
) -> AdaptedModel:
    """Load a decoder and make the named stack of it.

    Args:
        name: The stack.
        model: Alias, GGUF file, folder or hub name.
        lora: Adapters; without targets, the query and value projections.
        device: Where it runs.
        attention: Attention kernel of transformers.
        check: Called with the decoder before it is changed; refuses what does not fit it.
        calibrate: Called for the calibrated rule.
        progress: Called with a line before long steps.

    Returns:
        The adapted model.
    """
    stack = BUILT[name]
    decoder = load_decoder(model, device=device, attention=attention, progress=progress)
    if check is not None:
        check(decoder)
    targets = lora.targets or attention_targets(decoder.model)
    layers = block_linears(decoder.model)
    calibration = None
    if stack.precision.outlier_rule == "calibrated" and calibrate is not None:
        calibration = calibrate(decoder, layers)
    replaced = apply_precision(
        decoder.model, stack.precision, layers=layers, calibration=calibration
    )
    adapted = add_lora(decoder.model, replace(lora, targets=targets))
    adapted.eval()
    found = AdaptedModel(model=adapted, decoder=decoder, stack=stack, replaced=replaced)
    found.set_modes()
    return found
