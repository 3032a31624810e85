"""The lighter pass of a training step: the same bits as the whole one, nothing silently lost."""

import pytest
import torch
from torch import Tensor, nn

from insular.errors import ModelError
from insular.records.batches import TokenBatch
from insular.training.gradients import HookGradients
from insular.training.losses import LOSSES, LossName
from models.families import FAMILIES, VOCABULARY
from training.decoders import LENGTHS, PARTS, Tiny, adapted, autograd, batch_of, close, run


def test_hooks_in_training_refuse_a_weight_that_is_used_in_its_layer_and_past_it() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(6, 6, bias=False)

        def forward(self, hidden: Tensor) -> Tensor:
            return nn.functional.linear(self.inner(hidden), self.inner.weight)

    model, batch = Tiny(Both()), batch_of(LENGTHS)
    with pytest.raises(
        ModelError, match=r"part\.inner\.weight is used outside its layer's forward"
    ):
        HookGradients().for_training(model, batch, loss="record_mean")
    assert close(run("func", model, batch).gradients, autograd(model, batch))


def test_hooks_refuse_a_layer_whose_forward_was_replaced_on_the_object() -> None:
    model, batch = Tiny(nn.Linear(6, 6)), batch_of(LENGTHS)
    model.part.forward = lambda hidden: 2 * nn.functional.linear(hidden, model.part.weight)
    with pytest.raises(ModelError, match=r"got part\.weight in a Linear; use the func"):
        HookGradients().for_training(model, batch, loss="record_mean")
    assert "forward" in vars(model.part)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("family", FAMILIES)
def test_hooks_for_training_give_the_same_bits_as_compute(
    family: str, side: str, loss: LossName
) -> None:
    model, batch = adapted(family), batch_of(LENGTHS, side=side)
    light = HookGradients().for_training(model, batch, loss=loss)
    whole = run("hooks", model, batch, loss=loss)
    assert torch.equal(light.gradients, whole.gradients)
    assert torch.equal(light.losses, whole.losses)


@pytest.mark.parametrize("part", PARTS)
def test_hooks_for_training_cover_every_linear_part(part: str) -> None:
    model, batch = Tiny(PARTS[part]()), batch_of(LENGTHS)
    found = HookGradients().for_training(model, batch, loss="record_mean")
    assert torch.equal(found.gradients, run("hooks", model, batch).gradients)
    assert close(found.gradients, autograd(model, batch))


def test_a_training_pass_leaves_the_model_as_it_was_even_when_it_fails() -> None:
    model, batch = adapted("llama"), batch_of(LENGTHS)
    first = HookGradients().for_training(model, batch, loss="record_mean").gradients
    broken = TokenBatch(**vars(batch) | {"input_ids": batch.input_ids + VOCABULARY})
    with pytest.raises(IndexError):
        HookGradients().for_training(model, broken, loss="record_mean")
    assert not any("forward" in vars(module) for module in model.modules())
    assert all(p.grad is None for p in model.parameters())
    again = HookGradients().for_training(model, batch, loss="record_mean").gradients
    assert torch.equal(again, first)
