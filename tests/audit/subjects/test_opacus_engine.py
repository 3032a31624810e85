"""Opacus' per-record gradients equal autograd's, and leave the model as it was."""

import sys

import pytest
import torch
from torch import nn

from insular.audit.subjects.opacus_engine import (
    OpacusGradients,
    opacus_backward,
    opacus_clipped_sum,
    opacus_hooks,
)
from insular.errors import MissingDependencyError, SubjectError
from insular.models.lora import add_lora
from insular.models.spec import LoraSpec
from insular.models.structure import block_linears, trainable
from insular.precision.policy import apply_precision
from insular.precision.spec import PrecisionSpec
from insular.precision.stock import quiet_bitsandbytes
from insular.records.batches import TokenBatch, collate
from insular.records.tokens import TokenisedRecord
from insular.training.gradients import HookGradients, LoopGradients, forward_losses
from models.families import tiny

opacus = pytest.importorskip("opacus")

LORA = LoraSpec(rank=2, alpha=4.0, init_b_std=0.1)


@pytest.fixture
def batch() -> TokenBatch:
    generator = torch.Generator().manual_seed(3)
    lengths = (9, 12, 5, 12)
    return collate(
        [
            TokenisedRecord(
                id=f"r{i}",
                owner=f"o{i}",
                tokens=tuple(torch.randint(3, 64, (n,), generator=generator).tolist()),
            )
            for i, n in enumerate(lengths)
        ],
        pad_token_id=0,
    )


def adapted(family: str, backbone: str = "float32") -> nn.Module:
    model = tiny(family).requires_grad_(False)
    # a threshold that the tiny model's activations do reach
    spec = PrecisionSpec(backbone=backbone, threshold=2.0)
    apply_precision(model, spec, layers=block_linears(model))
    return add_lora(model, LORA)


def relative(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float(((found - expected).norm(dim=-1) / expected.norm(dim=-1)).max())


@pytest.mark.parametrize("backbone", ["float32", "bitsandbytes-int8"])
@pytest.mark.parametrize("family", ["llama", "gpt2"])
@pytest.mark.parametrize("loss", ["record_mean", "token_mean"])
def test_opacus_equals_independent_autograd_and_hooks(batch, family, backbone, loss):
    model = adapted(family, backbone)
    with quiet_bitsandbytes():
        run = OpacusGradients(forward_losses).compute(model, batch, loss=loss)
        loop = LoopGradients().compute(model, batch, loss=loss)
        hooks = HookGradients().compute(model, batch, loss=loss)
    assert run.gradients.shape == loop.gradients.shape
    assert relative(run.gradients, loop.gradients) <= 1e-6
    assert relative(run.gradients, hooks.gradients) <= 1e-6
    assert relative(run.batch_gradient, loop.batch_gradient) <= 1e-6
    assert torch.equal(run.logits, loop.logits)
    assert torch.equal(run.losses, loop.losses)


def test_coordinates_follow_the_order_of_the_trainable_parameters(batch):
    model = adapted("llama")
    sizes = [model.get_parameter(name).numel() for name in trainable(model)]
    run = OpacusGradients(forward_losses).compute(model, batch)
    _, losses = forward_losses(model, batch, "record_mean")
    blocks = run.gradients.split(sizes, dim=1)
    for name, block in zip(trainable(model), blocks, strict=True):
        (alone,) = torch.autograd.grad(losses[2], model.get_parameter(name), retain_graph=True)
        assert torch.allclose(block[2], alone.flatten(), atol=1e-7)


def test_a_bare_model_comes_back_without_hooks_with_its_modes_and_grads(batch):
    model = adapted("llama", "bitsandbytes-int8")
    modes = {name: module.training for name, module in model.named_modules()}
    kept = torch.ones_like(next(p for p in model.parameters() if p.requires_grad))
    next(p for p in model.parameters() if p.requires_grad).grad = kept
    seen = []

    def watched(model, batch, loss):
        seen.extend(m.training for m in model.modules() if type(m).__name__ == "Linear8bitLt")
        return forward_losses(model, batch, loss)

    with quiet_bitsandbytes():
        OpacusGradients(watched).compute(model, batch)
    assert seen
    assert not any(seen)
    assert modes == {name: module.training for name, module in model.named_modules()}
    trainable = [p for p in model.parameters() if p.requires_grad]
    assert trainable[0].grad is kept
    assert all(p.grad is None for p in trainable[1:])
    assert not any(hasattr(p, "grad_sample") for p in model.parameters())
    assert not any(m._forward_hooks or m._backward_hooks for m in model.modules())


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_a_wrapped_model_is_used_as_it_is(batch, reduction):
    model = adapted("llama")
    loop = LoopGradients().compute(model, batch, loss="record_mean")
    wrapped = opacus.GradSampleModule(model, loss_reduction=reduction)
    engine = OpacusGradients(forward_losses)
    first, second = engine.compute(wrapped, batch), engine.compute(wrapped, batch)
    assert relative(first.gradients, loop.gradients) <= 1e-6
    assert relative(first.batch_gradient, loop.batch_gradient) <= 1e-6
    assert torch.equal(first.gradients, second.gradients)
    assert hasattr(model, "autograd_grad_sample_hooks")


def test_the_inside_of_a_wrapped_model_is_refused(batch):
    model = adapted("llama")
    wrapped = opacus.GradSampleModule(model)
    with pytest.raises(SubjectError, match="must not carry Opacus' hooks itself; pass the Grad"):
        OpacusGradients(forward_losses).compute(wrapped._module, batch)


def test_a_parameter_that_the_loss_does_not_reach_is_an_error(batch):
    model = adapted("llama")
    model.add_module("unused", nn.Linear(2, 2, bias=False))
    with pytest.raises(SubjectError, match="4 per-record gradients .* got none for unused.weight"):
        OpacusGradients(forward_losses).compute(model, batch)
    assert not any(m._forward_hooks or m._backward_hooks for m in model.modules())


def test_hooks_go_away_when_the_forward_fails(batch):
    model = adapted("llama")

    def failing(model, batch, loss):
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        OpacusGradients(failing).compute(model, batch)
    assert not any(m._forward_hooks or m._backward_hooks for m in model.modules())


def test_clipped_sum_is_opacus_own():
    layer = nn.Linear(3, 2, bias=False)
    rows = torch.tensor([[3.0, 0.0, 4.0], [0.1, 0.0, 0.0]])
    with opacus_hooks(layer) as wrapped:
        assert opacus_backward(wrapped, wrapped(rows)[:, 0]) == 1.0
        found = opacus_clipped_sum(dict(layer.named_parameters()), clip_norm=1.0)
    expected = rows[0] / (5 + 1e-6) + rows[1]
    assert torch.allclose(found.view(2, 3)[0], expected, atol=1e-7)
    assert torch.equal(found[3:], torch.zeros(3))
    assert not hasattr(layer.weight, "summed_grad")


def test_absent_opacus_names_the_extra(monkeypatch, batch):
    monkeypatch.setitem(sys.modules, "opacus.grad_sample", None)
    with pytest.raises(MissingDependencyError, match=r"run pip install insular\[opacus\]"):
        OpacusGradients(forward_losses).compute(adapted("llama"), batch)
