"""Low-rank adapters, added by PEFT and initialised here so that a seed fixes them everywhere."""

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import nn

from insular.errors import ModelError
from insular.models.spec import LoraSpec
from insular.models.structure import attention_targets, is_linear

if TYPE_CHECKING:
    from insular.models.loading import Decoder


def add_lora(decoder: "Decoder | nn.Module", spec: LoraSpec) -> nn.Module:
    """Freeze a decoder and put trainable low-rank adapters beside its target layers.

    A layer y = W x becomes y = W x + (alpha / rank) B A x. A starts uniform in
    +-1 / sqrt(in_features). B starts at 0 when ``init_b_std`` is 0: then the adapted model equals
    the frozen one, and **only B has a gradient**, because A's gradient is a product with B. With
    ``init_b_std`` > 0 both have one, and the model's outputs move.

    The model is changed in place. It keeps its mode, and an 8-bit, 4-bit or subclassed linear
    layer stays the base layer with its own forward.

    Guarantees:
        * Only adapters are trainable, they are float32, and they have no dropout.
        * The same spec and model give the same adapters, on every device.
        * The global random generators are left as they were.

    Args:
        decoder: A loaded decoder, or its model.
        spec: Rank, scale, targets and initialisation.

    Returns:
        The PEFT model around the decoder.

    Raises:
        ModelError: If the model is already adapted, or a target names no linear layer of it.
    """
    model = decoder if isinstance(decoder, nn.Module) else decoder.model
    if any(hasattr(module, "base_layer") for module in model.modules()):
        raise ModelError(
            f"{type(model).__name__} already has adapters; load the model again, then add them."
        )
    targets = spec.targets or attention_targets(model)
    _check_targets(model, targets)
    training = model.training
    adapted = _wrap(model, spec=spec, targets=targets)
    _initialise(adapted, spec)
    return adapted.train(training)


def _check_targets(model: nn.Module, targets: tuple[str, ...]) -> None:
    """Refuse a target that names no linear layer."""
    names = [name for name, module in model.named_modules() if is_linear(module)]
    unknown = [t for t in targets if not any(f".{name}".endswith(f".{t}") for name in names)]
    if unknown:
        known = sorted({name.rpartition(".")[2] for name in names})
        raise ModelError(
            f"--lora-targets must name linear layers of {type(model).__name__}, got "
            f"{', '.join(unknown)}; it has {', '.join(known)}."
        )


def _wrap(model: nn.Module, *, spec: LoraSpec, targets: tuple[str, ...]) -> nn.Module:
    """Add PEFT's adapters, with its initial values still in them."""
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=spec.rank,
        lora_alpha=spec.alpha,  # pyright: ignore[reportArgumentType]
        target_modules=list(targets),
        lora_dropout=0.0,
        bias="none",
    )
    devices = sorted({p.device.index or 0 for p in model.parameters() if p.device.type == "cuda"})
    with (
        torch.random.fork_rng(devices=devices),
        warnings.catch_warnings(),
        _quantised_flags(model),
    ):
        # PEFT sets fan_in_fan_out itself for each Conv1D, as it should, and warns that it did.
        warnings.filterwarnings("ignore", message="fan_in_fan_out is set to")
        # PEFT reads a property that transformers has deprecated; nothing that a caller can change.
        warnings.filterwarnings("ignore", message="`is_gradient_checkpointing` is deprecated")
        return get_peft_model(model, config)  # pyright: ignore[reportArgumentType]


@contextmanager
def _quantised_flags(model: nn.Module) -> Iterator[None]:
    """Tell PEFT for a moment which quantised layers there are, so that it picks their adapters."""
    classes = {kind.__name__ for module in model.modules() for kind in type(module).__mro__}
    wanted = {"is_loaded_in_8bit": "Linear8bitLt", "is_loaded_in_4bit": "Linear4bit"}
    added = [
        flag for flag, kind in wanted.items() if kind in classes and not getattr(model, flag, False)
    ]
    before = {flag: vars(model)[flag] for flag in added if flag in vars(model)}
    for flag in added:
        setattr(model, flag, True)
    try:
        yield
    finally:
        for flag in added:
            delattr(model, flag)
            if flag in before:
                setattr(model, flag, before[flag])


def _initialise(model: nn.Module, spec: LoraSpec) -> None:
    """Draw A and B on the CPU in definition order, whatever the model's device."""
    generator = torch.Generator().manual_seed(spec.seed)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(".lora_A." in name or ".lora_B." in name)
        if not parameter.requires_grad:
            continue
        drawn = torch.empty(parameter.shape, dtype=torch.float32)
        if ".lora_A." in name:
            bound = 1 / math.sqrt(parameter.shape[1])
            drawn.uniform_(-bound, bound, generator=generator)
        else:
            # Drawn even for std 0, so that A does not depend on init_b_std.
            drawn.normal_(generator=generator).mul_(spec.init_b_std)
        parameter.data = drawn.to(parameter.device)
