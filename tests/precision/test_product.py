"""The int8 product against bitsandbytes' own operator, bit for bit, forward and backward."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from insular.precision.outliers import (
    BatchedOutliers,
    CalibratedOutliers,
    NoOutliers,
    RecordOutliers,
    TokenOutliers,
)

from .samples import activations, bitsandbytes_layer, int8_layer, mask_of, weight_and_bias

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
HIDDEN, OUT = 96, 40


def pair(
    dtype: torch.dtype, *, bias: bool, threshold: float = 6.0, seed: int = 0
) -> tuple[Tensor, Tensor | None, nn.Module]:
    weight, b = weight_and_bias(OUT, HIDDEN, seed=seed)
    kept = b if bias else None
    return weight, kept, bitsandbytes_layer(weight, kept, threshold)


def special(kind: str) -> Tensor:
    values = activations(3, 5, HIDDEN, seed=7)
    if kind == "zero rows":
        values[0, 1] = values[2] = 0.0
    elif kind == "all zero":
        values.zero_()
    elif kind == "no outliers":
        values.clamp_(-5, 5)
    elif kind == "all columns outliers":
        values[1, 2] = 50.0
    elif kind == "all cells outliers":
        values = values.sign() * 9
    elif kind == "one row":
        values = values[:1, :1]
    elif kind == "beyond float16":
        values[0, 0, 0] = 1e6
        values[1, 1, 1] = 1e-9
    elif kind == "nan and inf":
        values[0, 0, 0] = float("nan")
        values[0, 0, 1] = 44.0
        values[1, 0, 2] = float("inf")
    return values


KINDS = [
    "common",
    "zero rows",
    "all zero",
    "no outliers",
    "all columns outliers",
    "all cells outliers",
    "one row",
    "beyond float16",
    "nan and inf",
]


def same(left: Tensor, right: Tensor) -> bool:
    """Equal bit for bit, where NaN equals NaN."""
    if left.dtype != right.dtype or not torch.equal(left.isnan(), right.isnan()):
        return False
    return torch.equal(left.masked_fill(left.isnan(), 0), right.masked_fill(right.isnan(), 0))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_batched_rule_equals_bitsandbytes(
    dtype: torch.dtype, bias: bool, dims: int, kind: str
) -> None:
    weight, b, theirs = pair(dtype, bias=bias)
    ours = int8_layer(weight, b, BatchedOutliers(6.0))
    values = special(kind).to(dtype)
    values = values.flatten(0, 1) if dims == 2 else values
    with torch.no_grad():
        assert same(ours(values), theirs(values.clone()))


@pytest.mark.parametrize("threshold", [0.1, 2.7, 6.7, 65504.0])
def test_batched_rule_equals_bitsandbytes_at_any_threshold(threshold: float) -> None:
    weight, b, theirs = pair(torch.float32, bias=True, threshold=threshold)
    ours = int8_layer(weight, b, BatchedOutliers(threshold))
    values = activations(4, 8, HIDDEN, seed=1)
    values[0, 0, :3] = threshold
    with torch.no_grad():
        assert same(ours(values), theirs(values))


def test_weights_with_zero_rows_and_beyond_float16_equal_bitsandbytes() -> None:
    weight, _ = weight_and_bias(OUT, HIDDEN, seed=0)
    weight[3] = 0.0
    weight[4] = 1e-7
    weight[5, 0] = 6e4
    values = activations(4, 8, HIDDEN, seed=1)
    with torch.no_grad():
        ours = int8_layer(weight, None, BatchedOutliers(6.0))(values)
        assert same(ours, bitsandbytes_layer(weight, None, 6.0)(values))


@given(
    seed=st.integers(0, 2**31), rows=st.integers(1, 70), share=st.sampled_from([0.0, 0.001, 0.2])
)
@settings(max_examples=30, deadline=None)
def test_batched_rule_equals_bitsandbytes_on_any_batch(seed: int, rows: int, share: float) -> None:
    weight, b, theirs = pair(torch.float32, bias=True)
    ours = int8_layer(weight, b, BatchedOutliers(6.0))
    values = activations(rows, HIDDEN, seed=seed, share=share)
    with torch.no_grad():
        assert same(ours(values), theirs(values))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_no_outliers_equals_bitsandbytes_at_threshold_zero(
    dtype: torch.dtype, bias: bool, kind: str
) -> None:
    weight, b, theirs = pair(dtype, bias=bias, threshold=0.0)
    values = special(kind).to(dtype)
    with torch.no_grad():
        assert same(int8_layer(weight, b, NoOutliers())(values), theirs(values))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("side", ["left", "right", "mixed"])
@pytest.mark.parametrize(("batch", "width"), [(2, 8), (5, 17), (8, 64), (16, 32), (3, 128)])
def test_record_rule_equals_bitsandbytes_on_one_record_at_a_time(
    dtype: torch.dtype, side: str, batch: int, width: int
) -> None:
    weight, b, theirs = pair(dtype, bias=True)
    lengths = [max(1, width - 3 * record) for record in range(batch)]
    mask = mask_of(lengths, width=width, side=side)
    values = activations(batch, width, HIDDEN, seed=batch).to(dtype)
    with torch.no_grad():
        found = int8_layer(weight, b, RecordOutliers(6.0), mask)(values)
        for record in range(batch):
            alone = theirs(values[record : record + 1, mask[record]])
            assert same(found[record, mask[record]], alone[0])


@pytest.mark.parametrize("width", [1536])
def test_record_rule_equals_bitsandbytes_at_a_decoder_s_width(width: int) -> None:
    weight, b = weight_and_bias(576, width, seed=0)
    theirs = bitsandbytes_layer(weight, b, 6.0)
    values = activations(16, 24, width, seed=3, share=0.002)
    mask = mask_of([24 - record for record in range(16)], width=24, side="left")
    with torch.no_grad():
        found = int8_layer(weight, b, RecordOutliers(6.0), mask)(values)
        for record in range(16):
            alone = theirs(values[record : record + 1, mask[record]])
            assert same(found[record, mask[record]], alone[0])


@pytest.mark.parametrize("dtype", DTYPES)
def test_token_rule_is_close_to_bitsandbytes_on_one_row_at_a_time(dtype: torch.dtype) -> None:
    weight, b, theirs = pair(dtype, bias=True)
    values = activations(40, HIDDEN, seed=2, share=0.03).to(dtype)
    with torch.no_grad():
        found = int8_layer(weight, b, TokenOutliers(6.0))(values).float()
        alone = torch.cat([theirs(row.unsqueeze(0)) for row in values]).float()
    # The few residual terms are summed in another order, and rounded once more below float32.
    eps = torch.finfo(dtype).eps
    assert (found - alone).abs().max() <= 8 * eps * alone.abs().max()


def gradient(layer: nn.Module, values: Tensor, upstream: Tensor) -> Tensor:
    leaf = values.clone().requires_grad_()
    (found,) = torch.autograd.grad(layer(leaf), leaf, upstream)
    return found


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("kind", ["common", "zero rows", "all columns outliers"])
def test_backward_equals_bitsandbytes(dtype: torch.dtype, dims: int, kind: str) -> None:
    weight, b, theirs = pair(dtype, bias=True)
    values, upstream = special(kind).to(dtype), activations(3, 5, OUT, seed=9).to(dtype)
    if dims == 2:
        values, upstream = values.flatten(0, 1), upstream.flatten(0, 1)
    ours = int8_layer(weight, b, BatchedOutliers(6.0))
    assert same(gradient(ours, values, upstream), gradient(theirs, values, upstream))


RULES = [
    BatchedOutliers(6.0),
    RecordOutliers(6.0),
    TokenOutliers(6.0),
    CalibratedOutliers(torch.tensor([0, 4])),
    NoOutliers(),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_input_gradient_equals_the_dequantised_weight_s(rule: object) -> None:
    weight, _ = weight_and_bias(OUT, HIDDEN, seed=4)
    mask = mask_of([4, 6], width=6, side="left")
    layer = int8_layer(weight, None, rule, mask)
    values, upstream = activations(2, 6, HIDDEN, seed=1), activations(2, 6, OUT, seed=2)
    dense = layer.weight.double() * layer.scale.double().unsqueeze(1) / 127
    assert (dense - weight.double()).abs().max() <= weight.abs().max() / 127
    found = gradient(layer, values, upstream)
    assert torch.allclose(found.double(), upstream.double() @ dense, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_the_input_is_left_as_it_was(rule: object) -> None:
    layer = int8_layer(
        *weight_and_bias(OUT, HIDDEN, seed=4), rule, mask_of([6], width=6, side="left")
    )
    values = activations(1, 6, HIDDEN, seed=1, share=0.1)
    before = values.clone()
    layer(values)
    assert torch.equal(values, before)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_weight_and_bias_get_no_gradient(rule: object) -> None:
    layer = int8_layer(
        *weight_and_bias(OUT, HIDDEN, seed=4), rule, mask_of([6], width=6, side="left")
    )
    layer(activations(1, 6, HIDDEN, seed=1).requires_grad_()).sum().backward()
    assert all(p.grad is None and not p.requires_grad for p in layer.parameters())


def test_witness_by_hand() -> None:
    """Two one-token records through the identity: 1.234 is rounded unless it is an outlier."""
    values = torch.tensor([[[1.234, 5.0]], [[6.1, 5.0]]])
    mask = torch.ones(2, 1, dtype=torch.bool)
    record = int8_layer(torch.eye(2), None, RecordOutliers(6.0), mask)(values)
    batched = int8_layer(torch.eye(2), None, BatchedOutliers(6.0), mask)(values)
    # 1.234 * 127 / 5 = 31.3 rounds to 31, and 31 * 5 / 127 = 1.2205.
    assert torch.allclose(record, torch.tensor([[[1.2205, 5.0]], [[6.1, 5.0]]]), atol=1e-4)
    assert torch.allclose(batched, values, atol=2e-4)
