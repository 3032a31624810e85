"""Prescribed columns: by hand, against a cell-by-cell oracle and the batched rule, refusals."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from insular.errors import InvalidArgumentError
from insular.precision.outliers import BatchedOutliers, OutlierSplit
from insular.precision.prescribed import PrescribedOutliers, PrescribedSet

from .samples import activations, announced, int8_layer, mask_of, weight_and_bias

HIDDEN, OUT, THRESHOLD = 96, 40, 6.0


def chosen(n_records: int, *columns: int) -> PrescribedSet:
    return PrescribedSet(n_records=n_records, columns=torch.tensor(columns, dtype=torch.int64))


def split(rule: PrescribedOutliers, rows: list[list[float]], mask: list[list[int]]) -> OutlierSplit:
    values = torch.tensor(rows)
    return rule.split(
        values, values.abs().amax(dim=1), announced(torch.tensor(mask, dtype=torch.bool))
    )


def test_worked_example_by_hand() -> None:
    """Column 1 leaves the product for records 0 and 1; its small entry stays in the scale."""
    rows = [[1.0, 9.0, 2.0], [0.5, 3.0, -2.5], [4.0, 1.0, 1.0], [0.0, 7.0, 1.0], [1.0, 0.0, 8.0]]
    rows.append([0.25, 0.5, 0.125])
    rule = PrescribedOutliers([chosen(2, 1), chosen(1, 0, 2)], threshold=THRESHOLD)
    found = split(rule, rows, [[1, 1], [1, 1], [1, 1]])
    assert found.scale.tolist() == [2.0, 3.0, 4.0, 1.0, 1.0, 0.5]
    assert [(p.rows, p.columns.tolist()) for p in found.products] == [
        (slice(0, 4), [1]),
        (slice(4, 6), [0, 2]),
    ]


def test_an_empty_set_is_no_product() -> None:
    rule = PrescribedOutliers([chosen(1), chosen(1, 0)], threshold=THRESHOLD)
    found = split(rule, [[1.0, 2.0], [9.0, 1.0]], [[1], [1]])
    assert [(p.rows, p.columns.tolist()) for p in found.products] == [(slice(1, 2), [0])]
    assert found.scale.tolist() == [2.0, 1.0]


REFUSED = [[1.0, 1.0], [2.0, 1.0], [1.0, 1.0], [1.0, 9.0]]


def test_a_real_rows_outlier_outside_its_set_is_refused() -> None:
    rule = PrescribedOutliers([chosen(2, 0)], threshold=THRESHOLD)
    with pytest.raises(
        InvalidArgumentError, match=r"column 1 outside the set of record 1; .*widen"
    ):
        split(rule, REFUSED, [[1, 1], [1, 1]])


def test_widen_keeps_it_in_its_rows_scale() -> None:
    rule = PrescribedOutliers([chosen(2, 0)], threshold=THRESHOLD, widen=True)
    found = split(rule, REFUSED, [[1, 1], [1, 1]])
    assert found.scale.tolist() == [1.0, 2.0, 1.0, 9.0]


def test_padding_rows_are_never_refused() -> None:
    rule = PrescribedOutliers([chosen(2, 0)], threshold=THRESHOLD)
    assert split(rule, REFUSED, [[1, 1], [1, 0]]).scale.tolist() == [1.0, 2.0, 1.0, 9.0]


@pytest.mark.parametrize("sets", [[chosen(1, 0)], [chosen(2, 0), chosen(1)], []])
def test_sets_for_another_batch_are_refused(sets: list[PrescribedSet]) -> None:
    covered = sum(s.n_records for s in sets)
    with pytest.raises(InvalidArgumentError, match=f"cover the batch's 2 records, .* {covered};"):
        split(PrescribedOutliers(sets, threshold=THRESHOLD), REFUSED, [[1, 1], [1, 1]])


def test_a_column_beyond_the_layer_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"below the layer's 2 inputs, got column 2"):
        split(PrescribedOutliers([chosen(2, 2)], threshold=THRESHOLD), REFUSED, [[1, 1], [1, 1]])


def test_a_threshold_of_zero_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="threshold must be finite and > 0"):
        PrescribedOutliers([], threshold=0.0)


def test_without_an_announced_batch_it_refuses() -> None:
    weight, bias = weight_and_bias(OUT, HIDDEN, seed=0)
    layer = int8_layer(weight, bias, PrescribedOutliers([chosen(1)], threshold=THRESHOLD))
    with pytest.raises(InvalidArgumentError, match="prescribed columns must know whose each row"):
        layer(torch.zeros(1, 3, HIDDEN))


def union_of(values: Tensor) -> Tensor:
    return (values.to(torch.float16).abs() >= THRESHOLD).flatten(0, -2).any(dim=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("side", ["left", "right"])
def test_the_whole_batchs_union_gives_the_batched_rules_bits(dtype: torch.dtype, side: str) -> None:
    weight, bias = weight_and_bias(OUT, HIDDEN, seed=1)
    values = activations(4, 9, HIDDEN, seed=2).to(dtype)
    mask = mask_of([9, 5, 7, 1], width=9, side=side)
    columns = union_of(values).nonzero().flatten()
    rule = PrescribedOutliers([PrescribedSet(n_records=4, columns=columns)], threshold=THRESHOLD)
    batched = int8_layer(weight, bias, BatchedOutliers(THRESHOLD))(values)
    assert torch.equal(int8_layer(weight, bias, rule, mask)(values), batched)


@given(seed=st.integers(0, 2**31), share=st.sampled_from([0.0, 0.003, 0.05]))
@settings(max_examples=25, deadline=None)
def test_the_same_records_under_the_same_set_give_the_same_bits_whatever_the_others(
    seed: int, share: float
) -> None:
    """Seven records with their union, then the same seven beside an eighth with its own."""
    weight, bias = weight_and_bias(OUT, HIDDEN, seed=1)
    values = activations(8, 12, HIDDEN, seed=seed, share=share)
    mask = torch.ones(8, 12, dtype=torch.bool)
    common = PrescribedSet(n_records=7, columns=union_of(values[:7]).nonzero().flatten())
    added = PrescribedSet(n_records=1, columns=union_of(values).nonzero().flatten())
    seven = int8_layer(weight, bias, PrescribedOutliers([common], threshold=THRESHOLD), mask[:7])(
        values[:7]
    )
    eight = int8_layer(
        weight, bias, PrescribedOutliers([common, added], threshold=THRESHOLD), mask
    )(values)
    assert torch.equal(eight[:7], seven)
    assert torch.equal(seven, int8_layer(weight, bias, BatchedOutliers(THRESHOLD))(values[:7]))


@pytest.mark.parametrize("seed", range(4))
def test_product_equals_a_cell_by_cell_oracle(seed: int) -> None:
    weight, _ = weight_and_bias(5, 12, seed=seed)
    values = activations(3, 2, 12, seed=seed, share=0.1)
    generator = torch.Generator().manual_seed(seed)
    table = torch.rand(3, 12, generator=generator) < 0.4
    sets = [PrescribedSet(n_records=1, columns=row.nonzero().flatten()) for row in table]
    rule = PrescribedOutliers(sets, threshold=THRESHOLD, widen=True)
    layer = int8_layer(weight, None, rule, torch.ones(3, 2, dtype=torch.bool))
    found = layer(values).detach().numpy().reshape(6, 5)
    codes, scales = layer.weight.numpy().astype(np.float64), layer.scale.numpy()
    for i, row in enumerate(values.reshape(6, 12).to(torch.float16).numpy().astype(np.float64)):
        inside = table[i // 2].numpy()
        left = [abs(v) for v, mine in zip(row, inside, strict=True) if not mine or abs(v) < 6]
        scale = max(left, default=0.0)
        for k in range(5):
            want = 0.0
            for j, value in enumerate(row):
                if inside[j]:
                    exact = float(values.reshape(6, 12)[i, j])
                    want += exact * codes[k, j] * scales[k] / 127
                elif scale:
                    code = np.round(np.float32(value) * (np.float32(127) / np.float32(scale)))
                    want += code * codes[k, j] * scale * scales[k] / 127**2
            # the constant 1 / 127^2 of bitsandbytes is itself 2e-5 off
            assert abs(found[i, k] - want) <= 4e-5 * max(1.0, abs(want))
