"""The clipped sum: worked examples, plain autograd and Opacus, and what must not move it."""

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from insular.audit.subjects.opacus_engine import opacus_backward, opacus_clipped_sum, opacus_hooks
from insular.models.loading import load_decoder
from insular.models.lora import add_lora
from insular.models.spec import LoraSpec
from insular.models.structure import block_linears, trainable
from insular.precision.policy import apply_precision
from insular.precision.spec import PrecisionSpec
from insular.records.batches import collate
from insular.records.tokens import TokenisedRecord
from insular.training.batching import Batching, Units
from insular.training.clipping import OPACUS_STABILISER, FlatClipping
from insular.training.contributions import ClippedSum, clipped_sum
from insular.training.gradients import (
    ENGINES,
    forward_losses,
)
from models.families import VOCABULARY, tiny

LENGTHS = [[9], [4], [12], [2], [30], [12], [1]]
OWNERS = [[9, 4, 20], [12], [2, 2, 17], [30]]


def record(name: str, length: int) -> TokenisedRecord:
    generator = torch.Generator().manual_seed(sum(name.encode()) + length)
    tokens = torch.randint(3, VOCABULARY, (length,), generator=generator)
    return TokenisedRecord(id=name, owner=name, tokens=tuple(tokens.tolist()))


def units_of(lengths: list[list[int]]) -> Units:
    return [
        tuple(record(f"o{u}/r{i}", n) for i, n in enumerate(unit)) for u, unit in enumerate(lengths)
    ]


def adapted(family: str = "llama", *, backbone: str = "float32") -> nn.Module:
    model = tiny(family, hidden=64).requires_grad_(False)
    model.set_attn_implementation("eager")
    spec = PrecisionSpec(backbone=backbone, outlier_rule="record", threshold=1.5)
    apply_precision(model, spec, layers=block_linears(model))
    return add_lora(model, LoraSpec(rank=2, init_b_std=0.1)).eval()


def summed(
    model: nn.Module,
    units: Units,
    *,
    clip_norm: float = 0.3,
    stabiliser: float = 0.0,
    engine: str = "hooks",
    **batching: object,
) -> ClippedSum:
    return clipped_sum(
        model,
        units,
        engine=ENGINES[engine](),
        clipping=FlatClipping(clip_norm=clip_norm, stabiliser=stabiliser),
        batching=Batching(**{"max_tokens": 4096, "pad_token_id": 0} | batching),
    )


def autograd(model: nn.Module, units: Units, *, clip_norm: float) -> Tensor:
    """One record at a time, unpadded, with ``backward()``; clipped in float64 with NumPy's rule."""
    total = torch.zeros(sum(p.numel() for p in trainable(model).values()), dtype=torch.float64)
    for unit in units:
        model.zero_grad()
        for one in unit:
            forward_losses(model, collate([one], pad_token_id=0), "record_mean")[1].sum().backward()
        found = torch.cat([p.grad.flatten() for p in trainable(model).values()]).double()
        total += found * min(1.0, clip_norm / max(float(found.norm()), 1e-30))
    model.zero_grad()
    return total


def close(found: Tensor, expected: Tensor, tolerance: float) -> bool:
    return bool((found.double() - expected.double()).norm() <= tolerance * expected.double().norm())


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("lengths", [LENGTHS, OWNERS])
def test_equals_autograd_of_one_record_at_a_time(engine: str, lengths: list[list[int]]) -> None:
    model, units = adapted(), units_of(lengths)
    found = summed(model, units, engine=engine, max_tokens=40)
    assert found.n_clipped > 0
    assert close(found.value, autograd(model, units, clip_norm=0.3), 1e-6)


@pytest.mark.parametrize("clip_norm", [0.3, 1.0])
def test_equals_opacus_on_the_same_batch(clip_norm: float) -> None:
    model, units = adapted(), units_of([[12]] * 5)
    found = summed(model, units, clip_norm=clip_norm, stabiliser=OPACUS_STABILISER)
    batch = collate([unit[0] for unit in units], pad_token_id=0)
    with opacus_hooks(model) as wrapped:
        opacus_backward(wrapped, forward_losses(wrapped, batch, "record_mean")[1])
        expected = opacus_clipped_sum(trainable(model), clip_norm=clip_norm)
    assert close(found.value, expected, 1e-5)


def test_a_large_bound_and_no_noise_train_as_plain_lora_does() -> None:
    private, plain = adapted(), adapted()
    start = {name: p.detach().clone() for name, p in trainable(plain).items()}
    optimisers = [torch.optim.AdamW(trainable(m).values(), lr=1e-2) for m in (private, plain)]
    for step in range(3):
        units = units_of([[9 + step], [14, 5], [12]])
        parts = trainable(private)
        value = summed(private, units, clip_norm=1e9, max_tokens=32).value / 4
        for p, part in zip(
            parts.values(), value.split([p.numel() for p in parts.values()]), strict=True
        ):
            p.grad = part.view(p.shape)
        batch = collate([one for unit in units for one in unit], pad_token_id=0)
        (forward_losses(plain, batch, "record_mean")[1].sum() / 4).backward()
        for optimiser in optimisers:
            optimiser.step()
            optimiser.zero_grad()
    moved = torch.cat([(p - start[name]).flatten() for name, p in trainable(plain).items()])
    found = torch.cat([(p - start[name]).flatten() for name, p in trainable(private).items()])
    assert float(moved.detach().norm()) > 0.1
    assert close(found.detach(), moved.detach(), 1e-3)  # Adam divides by gradients near zero


@pytest.mark.parametrize("backbone", ["float32", "int8"])
@pytest.mark.parametrize("lengths", [LENGTHS, OWNERS])
@pytest.mark.parametrize("side", ["left", "right"])
def test_the_split_into_physical_batches_moves_no_bit(
    backbone: str, lengths: list[list[int]], side: str
) -> None:
    model, units = adapted(backbone=backbone), units_of(lengths)
    whole = summed(model, units, padding_side=side)
    for max_tokens in (32, 40, 64, 100):
        split = summed(model, units, padding_side=side, max_tokens=max_tokens)
        assert torch.equal(split.value, whole.value)
        assert torch.equal(split.norms, whole.norms)
        assert torch.equal(split.losses, whole.losses)
    alone = summed(model, units, padding_side=side, seats=1)
    assert torch.equal(alone.value, whole.value)


@pytest.mark.pretrained
@pytest.mark.parametrize("backbone", ["float32", "int8"])
def test_the_split_moves_no_bit_of_smollm2(backbone: str) -> None:
    decoder = load_decoder("smollm2")
    spec = PrecisionSpec(backbone=backbone, outlier_rule="record")
    apply_precision(decoder.model, spec, layers=block_linears(decoder.model))
    model = add_lora(decoder.model, LoraSpec(rank=8, init_b_std=0.02)).eval()
    texts = ("Every record is an island.", "No.", "The quick brown fox jumps over the lazy dog.")
    units = [
        (TokenisedRecord(id=text[:2], owner=text[:2], tokens=tuple(decoder.encode(text))),)
        for text in texts
    ]
    whole, split = summed(model, units), summed(model, units, max_tokens=16)
    assert whole.n_clipped == 3
    assert torch.equal(split.value, whole.value)


def test_neither_the_draw_s_order_nor_another_unit_moves_a_unit_s_norm() -> None:
    model, units = adapted(), list(units_of(OWNERS))
    found = summed(model, units)
    back = summed(model, units[::-1])
    assert torch.equal(back.value, found.value)
    assert torch.equal(back.norms.flip(0), found.norms)
    assert torch.equal(summed(model, units[1:]).norms, found.norms[1:])


def test_losses_come_in_the_order_of_the_units() -> None:
    model, units = adapted(), units_of(OWNERS)
    found = summed(model, units, max_tokens=40)
    for position, one in enumerate(one for unit in units for one in unit):
        batch = collate([one], pad_token_id=0)
        expected = forward_losses(model, batch, "record_mean")[1].item()
        assert float(found.losses[position]) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_record_without_a_target_contributes_zero_and_still_counts(engine: str) -> None:
    model = adapted()
    one, silent = (record("r", 12),), (record("s", 1),)
    both = summed(model, [one, silent], engine=engine)
    assert torch.isfinite(both.value).all()
    assert (both.n_units, both.n_records, both.n_non_finite) == (2, 2, 0)
    assert both.norms[1] == both.losses[1] == 0
    assert close(both.value, summed(model, [one], engine=engine).value, 1e-6)


def test_an_empty_logical_batch_gives_zeros_without_running_the_model() -> None:
    model = adapted()
    model.forward = None
    found = summed(model, [])
    assert found.value.shape == (sum(p.numel() for p in trainable(model).values()),)
    assert not found.value.any()
    assert (found.n_units, found.n_records, found.n_clipped, found.n_non_finite) == (0, 0, 0, 0)


def test_a_frozen_weight_with_a_trainable_bias_takes_batches_of_any_size() -> None:
    model = adapted()
    layer = next(m for m in model.modules() if type(m) is nn.Linear and m.weight.requires_grad)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    layer.bias = nn.Parameter(torch.zeros(layer.out_features))
    before = layer.weight.clone()
    optimiser = torch.optim.SGD([layer.bias], lr=0.1)
    for size in (4, 7, 1):
        units = units_of([[9]] * size)
        found = summed(model, units, clip_norm=0.01)
        assert found.value.shape == layer.bias.shape
        assert close(found.value, autograd(model, units, clip_norm=0.01), 1e-5)
        layer.bias.grad = found.value
        optimiser.step()
        optimiser.zero_grad()
    assert torch.equal(layer.weight, before)


class TiedPair(nn.Module):
    """An embedding and a head that share one trainable weight."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(6, 4)
        self.head = nn.Linear(4, 6, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, input_ids: Tensor, **kwargs: object) -> SimpleNamespace:
        return SimpleNamespace(logits=self.head(self.embedding(input_ids)))


@pytest.mark.parametrize("engine", ["func", "loop"])
def test_tied_weights_are_added_before_the_norm_is_taken(engine: str) -> None:
    pairs = [(0, 1), (2, 2), (5, 3)]
    units = [(TokenisedRecord(id=f"{p}", owner=f"{p}", tokens=p),) for p in pairs]
    found = summed(TiedPair(), units, engine=engine, clip_norm=1.0)
    assert found.norms.tolist() == pytest.approx([4.14989, 1.66279, 5.1646], rel=1e-4)
    assert found.n_clipped == 3


def test_gradients_of_half_precision_are_clipped_in_float32() -> None:
    model = adapted().to(torch.bfloat16)
    found = summed(model, units_of([[12]]), clip_norm=0.01)
    assert found.value.dtype == torch.float32
    assert float(found.value.double().norm()) == pytest.approx(0.01, rel=1e-6)
