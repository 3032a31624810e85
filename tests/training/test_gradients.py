"""Per-record gradients: every engine against plain autograd, one record at a time."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from insular.errors import ModelError
from insular.models.lora import add_lora
from insular.models.spec import LoraSpec
from insular.models.structure import block_linears, trainable
from insular.precision.policy import apply_precision
from insular.precision.spec import BACKBONES, PrecisionSpec
from insular.records.batches import IGNORED_LABEL, TokenBatch, collate
from insular.records.tokens import TokenisedRecord
from insular.training.gradients import ENGINES, forward_losses, weighted_gradients
from insular.training.losses import LOSSES, LossName
from models.families import FAMILIES, VOCABULARY, tiny
from training.decoders import (
    ANY_MODULE,
    LENGTHS,
    PARTS,
    Tiny,
    Twice,
    Unused,
    adapted,
    autograd,
    batch_of,
    close,
    frozen_weight,
    parameters,
    run,
)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("engine", ENGINES)
def test_adapter_gradients_equal_autograd_of_one_record_at_a_time(
    engine: str, family: str, side: str
) -> None:
    model, batch = adapted(family), batch_of(LENGTHS, side=side)
    found = run(engine, model, batch)
    expected = autograd(model, batch)
    assert (expected.abs().amax(dim=1) > 0).all()
    assert found.gradients.shape == (4, sum(p.numel() for p in parameters(model)))
    assert close(found.gradients, expected)
    logits, losses = forward_losses(model, batch, "record_mean")
    assert close(found.logits[batch.attention_mask], logits[batch.attention_mask].detach())
    assert close(found.losses, losses.detach())
    assert not found.logits.requires_grad
    assert not found.losses.requires_grad


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("engine", ENGINES)
def test_gradients_sum_to_the_backward_of_the_batch(engine: str, loss: LossName) -> None:
    model, batch = adapted("llama"), batch_of(LENGTHS)
    if engine == "func" and loss == "token_mean":
        with pytest.raises(ModelError, match=r"got loss='token_mean'; choose record_mean"):
            run(engine, model, batch, loss=loss)
        return
    found = run(engine, model, batch, loss=loss)
    _, losses = forward_losses(model, batch, loss)
    losses.sum().backward()
    expected = torch.cat([p.grad.flatten() for p in parameters(model)])
    assert close(found.gradients.sum(dim=0), expected)
    assert close(found.batch_gradient, expected)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("engine", ["hooks", "loop"])
def test_weighted_gradients_equal_weights_times_gradients(engine: str, loss: LossName) -> None:
    model, batch = adapted("gpt2"), batch_of(LENGTHS)
    weights = torch.tensor([[1.0, 1, 1, 1], [1, -1, 0.5, 3], [0, 0, 1, 0]])
    found = weighted_gradients(model, batch, weights, loss=loss)
    assert close(found, weights @ run(engine, model, batch, loss=loss).gradients)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("engine", ENGINES)
def test_linear_parts_equal_autograd(engine: str, part: str) -> None:
    model, batch = Tiny(PARTS[part]()), batch_of(LENGTHS)
    assert close(run(engine, model, batch).gradients, autograd(model, batch))


@pytest.mark.parametrize("part", ANY_MODULE)
@pytest.mark.parametrize("engine", ["func", "loop"])
def test_any_module_is_right_under_func_and_loop(engine: str, part: str) -> None:
    model, batch = Tiny(ANY_MODULE[part]()), batch_of(LENGTHS)
    assert close(run(engine, model, batch).gradients, autograd(model, batch))


@pytest.mark.parametrize("engine", ["func", "loop"])
def test_tied_embedding_and_head_are_added_before_the_norm_is_taken(engine: str) -> None:
    model, batch = Tiny(nn.Identity(), tied=True), batch_of(LENGTHS)
    assert list(trainable(model)) == ["embedding.weight"]
    found = run(engine, model, batch).gradients
    assert close(found, autograd(model, batch))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_weight_used_in_two_places_counts_twice(engine: str) -> None:
    """y = w x + w x with x = 3 and x = 4: the norms are 6 and 8, not 3 sqrt 2 and 4 sqrt 2."""

    class Scalar(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
            self.b.weight = self.a.weight

        def forward(self, input_ids: Tensor, **kwargs: object) -> SimpleNamespace:
            x = input_ids.unsqueeze(2).float()
            y = self.a(x) + self.b(x)
            # The wrong token is ahead by far, so the loss has slope 1 in y.
            return SimpleNamespace(logits=torch.cat([y * 0, y + 100], dim=2))

    records = [TokenisedRecord(id=f"{x}", owner=f"{x}", tokens=(x, 0)) for x in (3, 4)]
    found = run(engine, Scalar(), collate(records, pad_token_id=0))
    assert found.gradients.abs().flatten().tolist() == [6.0, 8.0]


@pytest.mark.parametrize("engine", ENGINES)
def test_frozen_weight_and_trainable_bias_take_batches_of_any_size(engine: str) -> None:
    model = Tiny(frozen_weight())
    before = model.part.weight.clone()
    for size in (4, 7, 1):
        batch = batch_of([5] * size)
        found = run(engine, model, batch)
        assert found.gradients.shape == (size, 6)
        assert close(found.gradients, autograd(model, batch))
    assert torch.equal(model.part.weight, before)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_parameter_that_nothing_reaches_has_gradient_zero(engine: str) -> None:
    model = Tiny(Unused())
    found = run(engine, model, batch_of(LENGTHS)).gradients
    names = torch.cat(
        [torch.full((p.numel(),), "unused" in name) for name, p in trainable(model).items()]
    )
    assert not found[:, names].any()
    assert found[:, ~names].any()


@pytest.mark.parametrize("engine", ["func", "loop"])
def test_an_embedding_with_a_padding_index_gets_none_for_padding(engine: str) -> None:
    """Rows 1 and 2 get [2, 4, 6] and [1, 2, 3]; row 0, the padding, nothing."""

    class Weighed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(5, 3, padding_idx=0)

        def forward(self, input_ids: Tensor, **kwargs: object) -> SimpleNamespace:
            y = (self.embedding(input_ids) * torch.tensor([1.0, 2, 3])).sum(dim=(1, 2))
            y = y.reshape(-1, 1, 1).expand(-1, 4, 1)
            ahead = torch.full_like(y, 100.0) + y
            return SimpleNamespace(logits=torch.cat([y * 0, y * 0, y * 0, ahead], dim=2))

    record = TokenisedRecord(id="r", owner="r", tokens=(0, 1, 1, 2))
    found = run(engine, Weighed(), collate([record], pad_token_id=0)).gradients
    rows = [[0.0, 0, 0], [2, 4, 6], [1, 2, 3], [0, 0, 0], [0, 0, 0]]
    assert found.reshape(5, 3).tolist() == rows
    assert float(found.norm()) == pytest.approx(70**0.5)


@pytest.mark.parametrize(
    ("make", "name", "kind"),
    [
        (lambda: Tiny(nn.LayerNorm(6)), "part.weight", "LayerNorm"),
        (lambda: Tiny(nn.Identity(), tied=True), "embedding.weight", "Embedding"),
    ],
)
def test_hooks_refuse_what_is_no_linear_layer(
    make: Callable[[], nn.Module], name: str, kind: str
) -> None:
    with pytest.raises(
        ModelError, match=rf"trainable linear layers only, got {name} in a {kind}; use the func"
    ):
        run("hooks", make(), batch_of(LENGTHS))


class Doubled(nn.Linear):
    """A linear layer with a forward of its own."""

    def forward(self, input: Tensor) -> Tensor:
        return 2 * super().forward(input)


def test_hooks_refuse_a_linear_layer_with_a_forward_of_its_own() -> None:
    model, batch = Tiny(Doubled(6, 6)), batch_of(LENGTHS)
    with pytest.raises(ModelError, match=r"got part\.weight in a Doubled"):
        run("hooks", model, batch)
    assert close(run("func", model, batch).gradients, autograd(model, batch))


def test_hooks_refuse_a_weight_that_is_used_past_its_layer() -> None:
    class Past(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(6, 6)

        def forward(self, hidden: Tensor) -> Tensor:
            return nn.functional.linear(hidden, self.inner.weight, self.inner.bias)

    model, batch = Tiny(Past()), batch_of(LENGTHS)
    with pytest.raises(
        ModelError, match=r"part\.inner\.weight is used outside its layer's forward"
    ):
        run("hooks", model, batch)
    assert close(run("func", model, batch).gradients, autograd(model, batch))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_model_without_anything_trainable_is_refused(engine: str) -> None:
    model = tiny("llama").requires_grad_(False)
    with pytest.raises(
        ModelError, match="LlamaForCausalLM has no trainable parameter; add adapters"
    ):
        run(engine, model, batch_of(LENGTHS))
    with pytest.raises(ModelError, match="LlamaForCausalLM has no trainable parameter"):
        weighted_gradients(model, batch_of(LENGTHS), torch.eye(4), loss="record_mean")


def test_hooks_refuse_a_layer_that_sees_flattened_rows() -> None:
    class Flat(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(6, 6)

        def forward(self, hidden: Tensor) -> Tensor:
            return self.inner(hidden.flatten(0, 1)).view(hidden.shape)

    with pytest.raises(
        ModelError, match=r"Linear must see \[record, token, hidden\], got \(48, 6\)"
    ):
        run("hooks", Tiny(Flat()), batch_of(LENGTHS))


@pytest.mark.parametrize("engine", ENGINES)
def test_the_model_is_left_as_it_was(engine: str) -> None:
    model, batch = adapted("llama"), batch_of(LENGTHS)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    first = run(engine, model, batch).gradients
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert not any(module._forward_hooks for module in model.modules())
    assert all(p.grad is None for p in model.parameters())
    assert torch.equal(run(engine, model, batch).gradients, first)


def test_at_b_zero_only_b_has_a_gradient() -> None:
    model = adapted("llama", init_b_std=0.0)
    found = run("hooks", model, batch_of(LENGTHS)).gradients
    is_a = torch.cat(
        [torch.full((p.numel(),), "lora_A" in name) for name, p in trainable(model).items()]
    )
    assert not found[:, is_a].any()
    assert found[:, ~is_a].any()


@pytest.mark.parametrize("engine", ["hooks", "loop"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_record_s_gradient_is_its_own_under_content_swaps(engine: str, side: str) -> None:
    model, batch = adapted("llama"), batch_of(LENGTHS, side=side)
    swapped = batch.input_ids.clone()
    swapped[1:] = (swapped[1:] + 7) % VOCABULARY
    labels = swapped.masked_fill(batch.labels == IGNORED_LABEL, IGNORED_LABEL)
    other = TokenBatch(**vars(batch) | {"input_ids": swapped, "labels": labels})
    mine, theirs = run(engine, model, batch), run(engine, model, other)
    assert torch.equal(mine.gradients[0], theirs.gradients[0])
    assert not torch.equal(mine.gradients[1], theirs.gradients[1])


@pytest.mark.parametrize("backbone", BACKBONES)
def test_hooks_equal_the_loop_over_any_frozen_arithmetic(backbone: str) -> None:
    model = tiny("llama", hidden=64).requires_grad_(False)
    model.set_attn_implementation("eager")
    spec = PrecisionSpec(backbone=backbone, outlier_rule="record")
    apply_precision(model, spec, layers=block_linears(model))
    model = add_lora(model, LoraSpec(rank=2, init_b_std=0.1)).eval()
    batch = batch_of(LENGTHS, side="left")
    hooks, loop = run("hooks", model, batch), run("loop", model, batch)
    tolerance = 1e-2 if backbone == "bfloat16" else 1e-5
    assert close(hooks.gradients, loop.gradients, tolerance)
    assert close(hooks.gradients.sum(dim=0), hooks.batch_gradient, tolerance)


def test_trainable_names_each_parameter_once() -> None:
    model = Tiny(Twice())
    assert list(trainable(model)) == ["part.first.weight", "part.first.bias"]
