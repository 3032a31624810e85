"""Planted bugs, each of which couples records, and the clean look-alikes that do not.

A new plant or control joins the tables at the end of this file.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from audit.layers import (
    BatchNormOverBatch,
    DropoutByPosition,
    PaddedRecordOutliers,
    PerTensorGradient,
    PerTensorInt8,
    experts,
    literal_residual,
    owned_residual,
    quantize_dynamic,
)
from audit.rigs import (
    COLUMN,
    LOUD,
    PAD,
    Rig,
    decoder,
    layer_subject,
    loud_records,
    model_subject,
    quiet_records,
    random_table,
    record,
)
from insular.audit.spec import Axis
from insular.audit.subjects.callable_subject import CallableSubject
from insular.precision.linear import Int8Linear, llm_int8_linear
from insular.precision.ownership import RowOwnership, announce_masks
from insular.precision.spec import PrecisionSpec
from insular.precision.stock import Linear4bit, Params4bit
from insular.records.batches import TokenBatch
from insular.records.tokens import TokenisedRecord
from insular.training.gradients import LoopGradients

STOCK = PrecisionSpec(backbone="bitsandbytes-int8")
STOCK_TRAINING = PrecisionSpec(backbone="bitsandbytes-int8", training_mode=True)
RECORD_OWNED = PrecisionSpec(backbone="int8", outlier_rule="record")


@dataclass(frozen=True, kw_only=True)
class Plant:
    """A coupling, and where it must be caught."""

    build: Callable[[int], Rig]
    axes: tuple[Axis, ...]
    """Axes on which it must be seen."""
    clean: tuple[Axis, ...] = ()
    """Axes that must stay isolated."""


# ---------------------------------------------------------------- rigs


def stock(seed: int) -> Rig:
    base, spares = loud_records(seed)
    model = decoder(seed, family="llama" if seed % 2 else "gpt2", precision=STOCK)
    subject = model_subject(model, precision=STOCK, padding_side="left" if seed % 3 else "right")
    return Rig(subject=subject, base=base, spares=spares)


def literal(seed: int, *, owned: bool = False) -> Rig:
    base, spares = quiet_records(seed)
    weight = random_table(seed, hidden=1024, std=0.02)[:16]
    table = random_table(seed + 1, hidden=1024, std=2.58)
    table[PAD] = 0.0  # padding owns no column
    layer = (owned_residual if owned else literal_residual)(weight, threshold=6.0)
    return Rig(subject=layer_subject(layer, table), base=base, spares=spares)


def padded_sets(seed: int) -> Rig:
    def count_padding(model: nn.Module) -> None:
        for module in model.modules():
            if isinstance(module, Int8Linear):
                module.rule = PaddedRecordOutliers(6.0)

    base, spares = quiet_records(seed)
    model = decoder(seed, precision=RECORD_OWNED, loud_padding=True, change=count_padding)
    subject = model_subject(model, padding_side="left" if seed % 2 else "right")
    return Rig(subject=subject, base=base, spares=spares)


def padded_sets_behind_rounding(seed: int) -> Rig:
    """The same in the second half of a float32 block, after attention's own rounding."""

    def change(model: nn.Module) -> None:
        (block,) = model.transformer.h
        block.ln_2.weight.data[COLUMN] = 1.5
        ownership, old = RowOwnership(), block.mlp.c_fc
        announce_masks(model, ownership)
        block.mlp.c_fc = Int8Linear(
            old.weight.t().contiguous(),
            old.bias,
            rule=PaddedRecordOutliers(6.0),
            ownership=ownership,
        )

    base, spares = quiet_records(seed)
    model = decoder(seed, loud_padding=True, change=change)
    return Rig(subject=model_subject(model), base=base, spares=spares)


def token_mean(seed: int, *, clip_norm: float) -> Rig:
    base, spares = quiet_records(seed)
    subject = model_subject(decoder(seed), loss="token_mean", clip_norm=clip_norm)
    return Rig(subject=subject, base=base, spares=spares, clip_norm=clip_norm)


def _swapped(path: str, new: Callable[[nn.Module], nn.Module]) -> Callable[[nn.Module], None]:
    """A change that replaces one module of a tiny GPT-2."""

    def change(model: nn.Module) -> None:
        parent, _, child = path.rpartition(".")
        setattr(model.get_submodule(parent), child, new(model.get_submodule(path)))

    return change


def changed(
    seed: int, path: str, new: Callable[[nn.Module], nn.Module], *, loud: bool = False, **how: Any
) -> Rig:
    """A tiny GPT-2 with one module replaced."""
    base, spares = loud_records(seed) if loud else quiet_records(seed)
    subject = model_subject(decoder(seed, change=_swapped(path, new)), **how)
    return Rig(subject=subject, base=base, spares=spares)


def batch_norm(seed: int) -> Rig:
    return changed(
        seed, "transformer.ln_f", lambda _: BatchNormOverBatch(32), engine=LoopGradients()
    )


def per_tensor(seed: int, *, per_row: bool = False) -> Rig:
    return changed(
        seed,
        "transformer.h.0.mlp.c_fc",
        lambda layer: PerTensorInt8(layer, per_row=per_row),
        loud=True,
    )


def dropout(seed: int) -> Rig:
    return changed(seed, "transformer.drop", lambda _: DropoutByPosition())


def backward_scale(seed: int) -> Rig:
    return changed(seed, "transformer.h.0.mlp.c_proj", PerTensorGradient, oracle=False)


def loss_scaling(seed: int, *, own: bool = False) -> Rig:
    table = random_table(seed, hidden=8)

    def gradients(batch: TokenBatch) -> Tensor:
        rows = (table[batch.input_ids].tanh() * batch.attention_mask.unsqueeze(2)).sum(dim=1)
        norms = rows.norm(dim=1, keepdim=True)
        return rows / (norms if own else norms.max())

    base, spares = quiet_records(seed)
    return Rig(subject=CallableSubject(gradients, name="scaled"), base=base, spares=spares)


def mixture(seed: int, *, capacity: bool = True) -> Rig:
    """Odd tokens go to one expert, which all records but the first overfill."""
    base, spares = quiet_records(seed)
    table = random_table(seed, hidden=4)
    table[0::2, 0], table[1::2, 0] = -table[0::2, 0].abs(), table[1::2, 0].abs()

    def routed(one: TokenisedRecord, expert: int) -> TokenisedRecord:
        return record(one.id, *(token - token % 2 + expert for token in one.tokens))

    return Rig(
        subject=layer_subject(experts(capacity=capacity), table),
        base=(routed(base[0], 0), *(routed(one, 1) for one in base[1:])),
        spares=tuple(routed(one, 1) for one in spares),
    )


def nan_spare(seed: int) -> Rig:
    """Loss scaling by the batch's largest norm, and a spare whose gradient is NaN."""
    rig = loss_scaling(seed)
    table = random_table(seed, hidden=8)
    table[LOUD] = float("nan")

    def gradients(batch: TokenBatch) -> Tensor:
        real = batch.attention_mask.unsqueeze(2)
        rows = table[batch.input_ids].masked_fill(~real, 0.0).tanh().sum(dim=1)
        return rows / rows.norm(dim=1).max()

    spares = (record("spare-nan", LOUD, *rig.spares[0].tokens[1:]), *rig.spares[1:])
    return replace(rig, subject=CallableSubject(gradients, name="NaN spreads"), spares=spares)


def stock_layer(seed: int, *, threshold: float = 6.0) -> Rig:
    """bitsandbytes' layer with one weight row; the last of eight records becomes an outlier."""
    table = torch.zeros(VOCAB := 64, 4)
    table[:, 1] = 5.0
    table[3, 0], table[4, 0], table[5, 0] = 1.234, 1.0, 6.1
    table[6:, 0] = torch.rand(VOCAB - 6, generator=torch.Generator().manual_seed(seed)) + 1.0
    layer = llm_int8_linear(torch.tensor([[1.0, 0, 0, 0]]), None, threshold=threshold)

    def outputs(batch: TokenBatch) -> Tensor:
        with torch.no_grad():
            return layer(table[batch.input_ids[:, 0]].half()).float()

    base = (*(record(f"row-{i}", 3) for i in range(7)), record("row-7", 4))
    spares = (*(record(f"new-{i}", 6 + i + seed) for i in range(7)), record("new-7", 5))
    return Rig(subject=CallableSubject(outputs, name="int8 layer"), base=base, spares=spares)


def float_layer(seed: int, layer: nn.Module) -> Rig:
    """A layer on eight one-row records; the spares' rows are 100 times larger."""
    table = random_table(seed, hidden=layer.in_features)
    table[LOUD - 30 :] *= 100

    def outputs(batch: TokenBatch) -> Tensor:
        with torch.no_grad():
            return layer(table[batch.input_ids[:, 0]])

    base = tuple(record(f"row-{i}", 3 + i) for i in range(8))
    spares = tuple(record(f"new-{i}", LOUD - 30 + i + seed) for i in range(8))
    return Rig(subject=CallableSubject(outputs, name="layer"), base=base, spares=spares)


def dynamic_layer(seed: int) -> Rig:
    """torch.ao's dynamic layer on two one-row records; one spare's first entry is 60."""
    table = random_table(seed, hidden=64)
    table[5] = table[4]
    table[5, 0] = 60.0
    layer = quantize_dynamic(random_table(seed + 1, hidden=64, std=0.1)[:32])

    def outputs(batch: TokenBatch) -> Tensor:
        return layer(table[batch.input_ids[:, 0]])

    base, spares = (
        (record("row-0", 3), record("row-1", 4)),
        (record("new-0", 6), record("new-1", 5)),
    )
    return Rig(subject=CallableSubject(outputs, name="dynamic"), base=base, spares=spares)


def plain_linear(seed: int, size: int) -> nn.Module:
    layer = nn.Linear(size, size, bias=False)
    layer.weight.data = torch.randn(size, size, generator=torch.Generator().manual_seed(seed))
    return layer


def nf4_linear_32(seed: int) -> nn.Module:
    layer = Linear4bit(64, 32, bias=False, quant_type="nf4", compute_dtype=torch.float32)
    weight = random_table(seed, hidden=64)[:32]
    layer.weight = Params4bit(weight, requires_grad=False, quant_type="nf4", module=layer)
    return layer.to("cpu").train()


def clean(
    seed: int,
    precision: PrecisionSpec,
    *,
    family: str = "gpt2",
    side: str = "",
    hidden: int = 32,
    **how: Any,
) -> Rig:
    """A decoder that keeps records apart, with an outlier in one record and padding on a side."""
    base, spares = loud_records(seed)
    side = side or ("left" if seed % 2 else "right")
    model = decoder(seed, family=family, precision=precision, hidden=hidden)
    subject = model_subject(model, precision=precision, padding_side=side, **how)
    return Rig(subject=subject, base=base, spares=spares)


def own_gradients(seed: int) -> Rig:
    """A function that computes each record by itself."""
    table = random_table(seed, hidden=8)

    def gradients(batch: TokenBatch) -> Tensor:
        pairs = zip(batch.input_ids, batch.attention_mask, strict=True)
        return torch.stack([table[tokens[real]].tanh().sum(dim=0) for tokens, real in pairs])

    base, spares = quiet_records(seed)
    return Rig(subject=CallableSubject(gradients, name="one by one"), base=base, spares=spares)


# ---------------------------------------------------------------- the tables

FLOAT32 = PrecisionSpec()

PLANTS: dict[str, Plant] = {
    "union of outlier columns": Plant(build=stock, axes=("content",)),
    "one residual over the union": Plant(build=literal, axes=("content",)),
    "padding in the outlier set": Plant(
        build=padded_sets, axes=("shape",), clean=("content", "length", "order")
    ),
    "padding in the outlier set, behind a rounding": Plant(
        build=padded_sets_behind_rounding, axes=("shape",), clean=("content", "length", "order")
    ),
    "token-mean loss, nothing clipped": Plant(
        build=lambda seed: token_mean(seed, clip_norm=1e6), axes=("length",), clean=("content",)
    ),
    "token-mean loss, all clipped": Plant(
        build=lambda seed: token_mean(seed, clip_norm=1e-4), axes=("length",), clean=("content",)
    ),
    "BatchNorm over the batch": Plant(build=batch_norm, axes=("content",)),
    "per-tensor dynamic int8": Plant(build=per_tensor, axes=("content",)),
    "dropout by batch position": Plant(
        build=dropout, axes=("order", "presence"), clean=("content", "length")
    ),
    "experts with a capacity": Plant(build=mixture, axes=("content",)),
    "loss scaled by the largest norm": Plant(build=loss_scaling, axes=("content",)),
    "NaN that spreads": Plant(build=nan_spare, axes=("content",)),
    "per-tensor scale in backward": Plant(build=backward_scale, axes=("content",)),
    "int8 layer, threshold 6": Plant(build=stock_layer, axes=("content",)),
    "torch.ao dynamic layer": Plant(build=dynamic_layer, axes=("content",)),
}

CONTROLS: dict[str, Callable[[int], Rig]] = {
    "float32 llama": lambda seed: clean(seed, FLOAT32, family="llama"),
    "float32 gpt2": lambda seed: clean(seed, FLOAT32),
    "float32 opt": lambda seed: clean(seed, FLOAT32, family="opt"),
    "bf16": lambda seed: clean(seed, PrecisionSpec(backbone="bfloat16")),
    "threshold 0": lambda seed: clean(seed, replace(STOCK, threshold=0.0)),
    "nf4": lambda seed: clean(seed, PrecisionSpec(backbone="nf4"), hidden=64),
    "record-owned, left": lambda seed: clean(seed, RECORD_OWNED, side="left"),
    "record-owned, right": lambda seed: clean(seed, RECORD_OWNED, side="right"),
    "token-owned": lambda seed: clean(seed, PrecisionSpec(backbone="int8", outlier_rule="token")),
    "calibrated": lambda seed: clean(
        seed, PrecisionSpec(backbone="int8", outlier_rule="calibrated")
    ),
    "int8 in training mode on CPU": lambda seed: clean(seed, STOCK_TRAINING),
    "singleton": lambda seed: clean(seed, STOCK, physical_batch=1),
    "per-row dynamic int8": lambda seed: per_tensor(seed, per_row=True),
    "one residual per record": lambda seed: literal(seed, owned=True),
    "experts without a capacity": lambda seed: mixture(seed, capacity=False),
    "scaled by its own norm": lambda seed: loss_scaling(seed, own=True),
    "a function, record by record": own_gradients,
    "int8 layer, threshold 0": lambda seed: stock_layer(seed, threshold=0.0),
    "Linear(90, 90)": lambda seed: float_layer(seed, plain_linear(seed, 90)),
    "Linear(1000, 1000)": lambda seed: float_layer(seed, plain_linear(seed, 1000)),
    "Linear4bit(64, 32)": lambda seed: float_layer(seed, nf4_linear_32(seed)),
}
