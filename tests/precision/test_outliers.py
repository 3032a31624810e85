"""Five rules, one contract: worked examples by hand, isolation, and a slow oracle."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from insular.errors import InvalidArgumentError
from insular.precision.outliers import (
    BatchedOutliers,
    CalibratedOutliers,
    NoOutliers,
    OutlierRule,
    OutlierSplit,
    RecordOutliers,
    TokenOutliers,
)
from insular.precision.ownership import RowOwnership
from insular.precision.product import Int8Weight, int8_product, quantise_weight

from .samples import activations, announced, int8_layer, mask_of, weight_and_bias

THRESHOLD = 6.0


@dataclass(frozen=True, kw_only=True)
class Promise:
    """What a rule promises; a new rule must join the table."""

    rule: OutlierRule
    isolated: bool
    """Whether another record's content never changes mine."""
    sets: object
    """Outlier columns of each row, from magnitudes and the row lists of the records."""


def batched_sets(over: np.ndarray, records: list[list[int]]) -> list[set[int]]:
    union = {j for row in over for j in np.flatnonzero(row)}
    return [union for _ in over]


def record_sets(over: np.ndarray, records: list[list[int]]) -> list[set[int]]:
    sets: list[set[int]] = [set() for _ in over]
    for rows in records:
        union = {j for i in rows for j in np.flatnonzero(over[i])}
        for i in rows:
            sets[i] = union
    return sets


FIXED = (1, 3)
RULES: dict[str, Promise] = {
    "batched": Promise(rule=BatchedOutliers(THRESHOLD), isolated=False, sets=batched_sets),
    "record": Promise(rule=RecordOutliers(THRESHOLD), isolated=True, sets=record_sets),
    "token": Promise(
        rule=TokenOutliers(THRESHOLD),
        isolated=True,
        sets=lambda over, records: [set(np.flatnonzero(row)) for row in over],
    ),
    "calibrated": Promise(
        rule=CalibratedOutliers(torch.tensor(FIXED)),
        isolated=True,
        sets=lambda over, records: [set(FIXED) for _ in over],
    ),
    "none": Promise(
        rule=NoOutliers(), isolated=True, sets=lambda over, records: [set() for _ in over]
    ),
}
ISOLATED = [name for name, promise in RULES.items() if promise.isolated]


def float16(values: Tensor) -> Tensor:
    return values.to(torch.float16).float()


def split(rule: OutlierRule, rows: list[list[float]], mask: list[list[int]]) -> OutlierSplit:
    values = float16(torch.tensor(rows))
    ownership = announced(torch.tensor(mask, dtype=torch.bool))
    return rule.split(values, values.abs().amax(dim=1), ownership)


def oracle(name: str, values: Tensor, weight: Int8Weight, mask: Tensor) -> np.ndarray:
    """The equation of ``int8_product`` cell by cell, in float64."""
    real = values.numpy().astype(np.float64)
    half = values.numpy().astype(np.float16).astype(np.float64)
    over = np.abs(half) >= THRESHOLD
    records = [(mask[r].nonzero().flatten() + r * mask.shape[1]).tolist() for r in range(len(mask))]
    sets = RULES[name].sets(over, records)
    codes, scales = weight.codes.numpy().astype(np.float64), weight.scale.numpy()
    result = np.zeros((len(real), len(codes)))
    for i, row in enumerate(half):
        left_out = sets[i] if name == "calibrated" else set(np.flatnonzero(over[i]))
        if name == "none":
            left_out = set()
        scale = max((abs(row[j]) for j in range(len(row)) if j not in left_out), default=0.0)
        for k, weight_codes in enumerate(codes):
            for j, value in enumerate(row):
                if j in sets[i]:
                    result[i, k] += real[i, j] * weight_codes[j] * scales[k] / 127
                elif scale > 0:
                    factor = np.float32(127) / np.float32(scale)
                    q = np.round(np.float32(value) * factor)
                    result[i, k] += q * weight_codes[j] * scale * scales[k] / 127**2
    return result


def test_every_rule_is_in_the_table() -> None:
    concrete = {RULES[name].rule.__class__ for name in RULES}
    assert concrete == {
        BatchedOutliers,
        RecordOutliers,
        TokenOutliers,
        CalibratedOutliers,
        NoOutliers,
    }
    assert all(promise.rule.name == name for name, promise in RULES.items())


# The witness: two records of one token, [1.234, 5] and [6.1, 5].
WITNESS = [[1.234, 5.0], [6.1, 5.0]]
ALONE = [[1], [1]]


def test_witness_batched_takes_the_column_from_both() -> None:
    found = split(BatchedOutliers(6.0), WITNESS, ALONE)
    assert found.scale.tolist() == [5.0, 5.0]
    (product,) = found.products
    assert product.rows == slice(None)
    assert product.columns.tolist() == [0]


def test_witness_record_takes_the_column_from_its_owner_only() -> None:
    found = split(RecordOutliers(6.0), WITNESS, ALONE)
    assert found.scale.tolist() == [5.0, 5.0]
    (product,) = found.products
    assert product.rows == slice(1, 2)
    assert product.columns.tolist() == [0]
    assert found.silenced is None


def test_witness_token_takes_one_cell() -> None:
    found = split(TokenOutliers(6.0), WITNESS, ALONE)
    assert found.scale.tolist() == [5.0, 5.0]
    assert found.products == ()
    assert found.cells is not None
    assert (found.cells.rows.tolist(), found.cells.columns.tolist()) == ([1], [0])


def test_witness_calibrated_takes_the_fixed_column_and_widens_the_scale() -> None:
    found = split(CalibratedOutliers(torch.tensor([1])), WITNESS, ALONE)
    assert found.scale.tolist() == float16(torch.tensor([1.234, 6.1])).tolist()
    (product,) = found.products
    assert product.columns.tolist() == [1]


def test_witness_none_takes_nothing() -> None:
    found = split(NoOutliers(), WITNESS, ALONE)
    assert found == OutlierSplit(scale=found.scale)
    assert found.scale.tolist() == [5.0, float(torch.tensor(6.1).half())]


def test_witness_record_union_covers_the_record_s_own_rows() -> None:
    rows = [[7.0, 1.0, 1.0], [1.0, -8.0, 1.0], [1.0, 1.0, 9.0], [1.0, 1.0, 1.0]]
    found = split(RecordOutliers(6.0), rows, [[1, 1], [1, 1]])
    first, second = found.products
    assert (first.rows, first.columns.tolist()) == (slice(0, 2), [0, 1])
    assert (second.rows, second.columns.tolist()) == (slice(2, 4), [2])
    assert found.scale.tolist() == [1.0, 1.0, 1.0, 1.0]


def test_no_magnitude_at_the_threshold_leaves_everything_in_int8() -> None:
    for name in ("batched", "record", "token"):
        found = split(RULES[name].rule, [[1.0, 5.99], [0.0, 0.0]], ALONE)
        assert (found.products, found.cells) == ((), None)
        assert found.scale.tolist() == [float(torch.tensor(5.99).half()), 0.0]


@pytest.mark.parametrize("name", ["batched", "record", "token"])
def test_the_threshold_itself_is_an_outlier(name: str) -> None:
    assert split(RULES[name].rule, [[-6.0, 1.0]], [[1]]).scale.tolist() == [1.0]


@pytest.mark.parametrize("name", ["batched", "record", "token"])
def test_the_threshold_is_compared_in_float16(name: str) -> None:
    rule = type(RULES[name].rule)(6.7)  # float16 of 6.7 is below 6.7
    assert split(rule, [[6.7, 1.0]], [[1]]).scale.tolist() == [1.0]


@pytest.mark.parametrize("name", ["batched", "record"])
def test_a_nan_does_not_hide_its_row_s_outliers(name: str) -> None:
    found = split(RULES[name].rule, [[float("nan"), 8.0, 1.0]], [[1]])
    assert [product.columns.tolist() for product in found.products] == [[1]]


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("side", ["left", "right", "mixed"])
@pytest.mark.parametrize("seed", range(3))
def test_product_equals_the_equation(name: str, side: str, seed: int) -> None:
    mask = mask_of([3, 5, 1], width=5, side=side, seed=seed)
    values = activations(15, 12, seed=seed, share=0.05)
    weight = quantise_weight(weight_and_bias(4, 12, seed=seed)[0])
    found = int8_product(values, weight, None, rule=RULES[name].rule, ownership=announced(mask))
    real = mask.flatten().numpy()
    expected = oracle(name, values, weight, mask)
    np.testing.assert_allclose(found.numpy()[real], expected[real], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", ISOLATED)
@pytest.mark.parametrize("side", ["left", "right", "mixed"])
@given(seed=st.integers(0, 2**31), record=st.integers(0, 3), factor=st.sampled_from([0.0, 1, 30]))
@settings(max_examples=15, deadline=None)
def test_a_record_s_rows_depend_on_that_record_alone(
    name: str, side: str, seed: int, record: int, factor: float
) -> None:
    mask = mask_of([6, 2, 4, 6], width=6, side=side, seed=seed)
    layer = int8_layer(*weight_and_bias(24, 32, seed=1), RULES[name].rule, mask)
    before = activations(4, 6, 32, seed=seed, share=0.03)
    after = activations(4, 6, 32, seed=seed + 1, share=0.03) * factor
    after[record, mask[record]] = before[record, mask[record]]
    mine = layer(before)[record, mask[record]]
    assert torch.equal(mine, layer(after)[record, mask[record]])


def test_planted_coupling_the_batched_rule_moves_another_record() -> None:
    layer = int8_layer(torch.eye(2), None, RULES["batched"].rule)
    before = torch.tensor([[[1.234, 5.0]], [[1.0, 5.0]]])
    after = torch.tensor([[WITNESS[0]], [WITNESS[1]]])
    assert not torch.equal(layer(before)[0], layer(after)[0])


@pytest.mark.parametrize("side", ["left", "right", "mixed"])
def test_padding_rows_never_enter_a_set_and_contribute_nothing(side: str) -> None:
    mask = mask_of([3, 5, 8], width=8, side=side)
    weight, bias = weight_and_bias(16, 24, seed=0)
    layer = int8_layer(weight, bias, RecordOutliers(6.0), mask)
    values = activations(3, 8, 24, seed=5)
    loud = values.masked_fill(~mask.unsqueeze(2), 100.0)
    assert torch.equal(layer(values)[mask], layer(loud)[mask])
    assert torch.equal(layer(loud)[~mask], bias.expand(int((~mask).sum()), -1))


def test_planted_coupling_padding_enters_the_batched_set() -> None:
    mask = mask_of([2], width=4, side="right")
    layer = int8_layer(weight_and_bias(8, 16, seed=0)[0], None, BatchedOutliers(6.0), mask)
    values = activations(1, 4, 16, seed=0, share=0.0)
    loud = values.masked_fill(~mask.unsqueeze(2), 100.0)
    assert not torch.equal(layer(values)[mask], layer(loud)[mask])


def test_a_record_without_a_real_row_is_left_alone() -> None:
    mask = mask_of([0, 4], width=4, side="right")
    layer = int8_layer(torch.eye(8), None, RecordOutliers(6.0), mask)
    values = activations(2, 4, 8, seed=0, share=0.2)
    assert torch.equal(layer(values)[0], torch.zeros(4, 8))


@pytest.mark.parametrize("n_rows", [3, 5])
def test_rows_that_are_not_the_announced_batch_are_refused(n_rows: int) -> None:
    layer = int8_layer(
        torch.eye(8), None, RecordOutliers(6.0), mask_of([2, 2], width=2, side="left")
    )
    with pytest.raises(InvalidArgumentError, match=rf"record rule.* got {n_rows} rows.*\(2, 2\)"):
        layer(torch.ones(n_rows, 8))


def test_a_rule_that_needs_owners_refuses_a_batch_without_mask() -> None:
    layer = int8_layer(torch.eye(8), None, RecordOutliers(6.0))
    with pytest.raises(InvalidArgumentError, match=r"got no batch mask; call the model as"):
        layer(torch.ones(2, 8))


@pytest.mark.parametrize("name", [name for name in RULES if name != "record"])
def test_the_other_rules_need_no_mask(name: str) -> None:
    values = activations(5, 8, seed=0)
    weight = quantise_weight(torch.eye(8))
    found = int8_product(values, weight, None, rule=RULES[name].rule, ownership=RowOwnership())
    assert found.shape == (5, 8)
