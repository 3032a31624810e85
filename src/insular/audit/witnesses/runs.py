"""One batch of a constructed witness: forward, per-record gradients, clipping and sum."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from insular.audit.isolation.dispatch import OperatorTrace
from insular.audit.subjects.opacus_engine import (
    opacus_backward,
    opacus_clipped_sum,
    opacus_hooks,
    record_gradients,
)
from insular.audit.subjects.opacus_settings import STABILISER
from insular.audit.witnesses.arms import WEIGHT, Arm, announce_rows
from insular.audit.witnesses.results import Witness
from insular.models.lora import add_lora
from insular.models.spec import LoraSpec
from insular.models.structure import trainable

Rows = tuple[tuple[float, float], ...]

CLIP_NORM = float(torch.tensor(0.005, dtype=torch.float32))
"""The bound C, as float32 holds it: sums of clipped float32 gradients are then exact."""
COMMON_LABEL = 1.2275390625
"""Midpoint of a common record's two outputs: its gradient changes sign when the path changes."""
LAST_LABEL = -100.0
"""Far below every output of the last record, whose clipped gradient is then +C in any batch."""

COMMON: Rows = ((1.234, 5.0),) * 7
QUIET: Rows = (*COMMON, (1.0, 5.0))
LOUD: Rows = (*COMMON, (6.1, 5.0))
"""The last record crosses the outlier threshold in column 0."""


@final
@dataclass(frozen=True, kw_only=True)
class WitnessRun:
    """One batch under one arm."""

    clipped_sum: Tensor
    """Sum of the clipped gradients, as the witness adds them up, in float64."""
    gradient_error: float | None
    """Largest relative difference from independent autograd, where another engine ran."""
    operators: dict[str, int]
    """What the dispatcher saw in the forwards."""


def run_batch(
    witness: Witness, arm: Arm, *, rows: Rows, device: torch.device, use_opacus: bool
) -> WitnessRun:
    """Run one batch under one arm, in one forward, or in many if the arm isolates records.

    Args:
        witness: What is trainable: a bias, or an adapter.
        arm: The arithmetic of the frozen layer.
        rows: The records, one row each.
        device: Where to run.
        use_opacus: Whether Opacus computes and clips the gradients, or a loop over autograd.

    Returns:
        The clipped sum and what ran.
    """
    layer = arm.build(torch.tensor(WEIGHT, device=device))
    model = _Biased(layer) if witness == "operator" else _adapted(layer)
    groups = [[i] for i in range(len(rows))] if arm.isolated else [list(range(len(rows)))]
    batches = [_Batch(arm=arm, layer=layer, rows=rows, members=group) for group in groups]
    trace = OperatorTrace()
    traced = nullcontext() if use_opacus else trace
    oracle = torch.cat([_loop(model, batch, traced=traced) for batch in batches])
    if not use_opacus:
        return WitnessRun(
            clipped_sum=_clipped_sum(oracle, witness),
            gradient_error=None,
            operators=dict(trace.counts),
        )
    parameters = trainable(model)
    with opacus_hooks(model) as wrapped:
        for batch in batches:
            with trace:
                losses = _losses(wrapped, batch)
            opacus_backward(wrapped, losses)
        gradients = record_gradients(parameters, n_records=len(rows))
        summed = opacus_clipped_sum(parameters, clip_norm=CLIP_NORM)
    return WitnessRun(
        clipped_sum=summed.double(),
        gradient_error=float(((gradients - oracle).norm(dim=1) / oracle.norm(dim=1)).max()),
        operators=dict(trace.counts),
    )


@final
@dataclass(frozen=True, kw_only=True)
class _Batch:
    """Some of the records, for one forward."""

    arm: Arm
    """The arithmetic."""
    layer: nn.Linear
    """Its layer, inside the model."""
    rows: Rows
    """Every record of the logical batch."""
    members: list[int]
    """Positions of those in this forward."""


def _inputs(batch: _Batch) -> Tensor:
    """The records' rows, padded with exact zeros."""
    values = [(*batch.rows[i], 0.0, 0.0) for i in batch.members]
    return torch.tensor(values, device=batch.layer.weight.device).to(batch.arm.dtype)


def _losses(model: nn.Module, batch: _Batch) -> Tensor:
    """Half the squared error of each record, in float32."""
    device = batch.layer.weight.device
    announce_rows(batch.layer, len(batch.members), device)
    labels = [LAST_LABEL if i == len(COMMON) else COMMON_LABEL for i in batch.members]
    outputs = model(_inputs(batch))
    return 0.5 * (outputs.float().flatten() - torch.tensor(labels, device=device)).square()


def _loop(model: nn.Module, batch: _Batch, *, traced: AbstractContextManager[object]) -> Tensor:
    """Per-record gradients by one backward pass each, on one forward."""
    with traced:
        losses = _losses(model, batch)
    parameters = list(trainable(model).values())
    rows = [torch.autograd.grad(loss, parameters, retain_graph=True) for loss in losses]
    return torch.stack([torch.cat([g.flatten() for g in row]) for row in rows])


def _clipped_sum(gradients: Tensor, witness: Witness) -> Tensor:
    """Clip and add up: exactly for the bias; in float32 with Opacus' formula for the adapter."""
    if witness == "operator":
        exact = gradients.double()
        clipped = exact * (CLIP_NORM / exact.norm(dim=1, keepdim=True)).clamp(max=1.0)
        return clipped.float().double().sum(dim=0)
    factor = (CLIP_NORM / (gradients.norm(dim=1) + STABILISER)).clamp(max=1.0)
    return torch.einsum("r,rp->p", factor, gradients).double()


@final
class _Biased(nn.Module):
    """A frozen layer and a trainable float32 bias."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.linear = layer
        self.bias = nn.Parameter(torch.zeros((), device=layer.weight.device))

    def forward(self, rows: Tensor) -> Tensor:
        """Add the bias in float32."""
        return self.linear(rows).float() + self.bias


def _adapted(layer: nn.Linear) -> nn.Module:
    """A frozen layer with a rank-one adapter of scale 1: A = [1, 0, 0, 0], B = 0."""
    mode = layer.training
    model = add_lora(_Holder(layer), LoraSpec(rank=1, alpha=1.0, targets=("linear",)))
    layer.train(mode)
    for name, parameter in trainable(model).items():
        if ".lora_A." in name:
            parameter.data.copy_(torch.tensor(WEIGHT))
    return model


@final
class _Holder(nn.Module):
    """A model of one layer, for PEFT to adapt."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.linear = layer

    def forward(self, rows: Tensor) -> Tensor:
        """Apply the layer."""
        return self.linear(rows)


def common_record(arm: Arm, rows: Rows, *, device: torch.device) -> tuple[float, float]:
    """Output and bias gradient of the first record of a batch.

    Args:
        arm: The arithmetic of the frozen layer.
        rows: The records, one row each.
        device: Where to run.

    Returns:
        The frozen layer's output and the gradient with respect to the bias.
    """
    layer = arm.build(torch.tensor(WEIGHT, device=device))
    model = _Biased(layer)
    batch = _Batch(arm=arm, layer=layer, rows=rows, members=list(range(len(rows))))
    gradients = _loop(model, batch, traced=nullcontext())
    with torch.no_grad():
        return float(layer(_inputs(batch))[0, 0]), float(gradients[0, 0])
