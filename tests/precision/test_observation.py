"""Observed outlier columns: by hand, against bitsandbytes' quantiser, against a loop over rows."""

from collections.abc import Callable
from typing import Any

import bitsandbytes.functional as bnb
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from insular.errors import InvalidArgumentError
from insular.models.lora import add_lora
from insular.models.spec import LoraSpec
from insular.models.structure import block_linears
from insular.precision.layers import int8_layers
from insular.precision.observation import ObservedOutliers, OutlierLog, observe_outliers
from insular.precision.outliers import (
    BatchedOutliers,
    CalibratedOutliers,
    NoOutliers,
    OutlierRule,
    RecordOutliers,
    TokenOutliers,
)
from insular.precision.policy import apply_precision, set_layer_modes
from insular.precision.spec import PrecisionSpec
from models.families import FAMILIES, tiny

from .samples import activations, bitsandbytes_layer, int8_layer, mask_of, weight_and_bias

STOCK = PrecisionSpec(backbone="bitsandbytes-int8", threshold=1.5)
IDS = torch.tensor([[5, 9, 33, 2], [8, 7, 0, 0], [11, 40, 12, 0]])
MASK = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 0]])


def observed(layer: nn.Module, values: Tensor, mask: Tensor) -> ObservedOutliers:
    with torch.no_grad(), observe_outliers(layer, mask=mask) as log:
        layer(values)
    (forward,) = log.forwards
    (found,) = forward.values()
    return found


def columns(row: Tensor) -> list[int]:
    return row.nonzero().flatten().tolist()


def test_worked_example_by_hand() -> None:
    """Record 0 reaches 6 in column 1, record 1 in none, its padding in column 2."""
    values = torch.tensor([[[1.0, 6.0, 0.0], [0.0, -7.0, 5.9]], [[5.0, 5.0, 5.0], [0.0, 0.0, 8.0]]])
    layer = bitsandbytes_layer(torch.eye(3), None, 6.0)
    found = observed(layer, values, torch.tensor([[1, 1], [1, 0]]))
    assert [columns(row) for row in found.own] == [[1], []]
    assert columns(found.padding) == [2]
    assert columns(found.union) == [1, 2]
    assert found.n_rows.tolist() == [2, 1]
    assert (found.threshold, found.takes_union) == (6.0, True)
    assert (found.in_features, found.out_features, found.source) == (3, 3, "")


@given(
    seed=st.integers(0, 2**31),
    share=st.sampled_from([0.0, 0.001, 0.01, 0.3]),
    threshold=st.sampled_from([0.1, 2.7, 6.0, 6.7]),
    side=st.sampled_from(["left", "right", "mixed"]),
)
@settings(max_examples=40, deadline=None)
def test_union_equals_the_columns_of_bitsandbytes_quantiser(
    seed: int, share: float, threshold: float, side: str
) -> None:
    values = activations(3, 7, 32, seed=seed, share=share)
    values[0, 0, 0] = threshold
    layer = bitsandbytes_layer(torch.eye(32), None, threshold)
    found = observed(layer, values, mask_of([7, 3, 5], width=7, side=side))
    half = values.reshape(-1, 32).to(torch.float16)
    _, _, theirs = bnb.int8_vectorwise_quant(half, threshold=threshold)
    assert columns(found.union) == theirs.tolist()


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("side", ["left", "right", "mixed"])
def test_a_records_own_columns_read_its_real_rows_only(side: str, dims: int) -> None:
    values = activations(4, 6, 24, seed=3, share=0.05)
    mask = mask_of([6, 0, 4, 1], width=6, side=side)
    layer = bitsandbytes_layer(torch.eye(24), None, 6.0)
    found = observed(layer, values if dims == 3 else values.flatten(0, 1), mask)
    for record in range(4):
        mine: set[int] = set()
        for token in range(6):
            if mask[record, token]:
                mine |= {j for j in range(24) if abs(float(values[record, token, j].half())) >= 6}
        assert columns(found.own[record]) == sorted(mine)


def nan_and_inf(values: Tensor) -> None:
    values[0, 0, 0], values[1, 0, 2] = float("nan"), float("inf")


@pytest.mark.parametrize("change", [nan_and_inf, torch.zero_])
def test_special_values_agree_with_bitsandbytes(change: Callable[[Tensor], Any]) -> None:
    values = activations(2, 3, 16, seed=1)
    change(values)
    layer = bitsandbytes_layer(torch.eye(16), None, 6.0)
    found = observed(layer, values, torch.ones(2, 3))
    half = values.reshape(-1, 16).to(torch.float16)
    _, _, theirs = bnb.int8_vectorwise_quant(half, threshold=6.0)
    assert columns(found.union) == theirs.tolist()


RULES = {
    "batched": (BatchedOutliers(6.0), True, True),
    "record": (RecordOutliers(6.0), True, False),
    "token": (TokenOutliers(6.0), True, False),
    "calibrated": (CalibratedOutliers(torch.tensor([1])), False, False),
    "none": (NoOutliers(), False, False),
}


@pytest.mark.parametrize("name", RULES)
def test_insulars_layer_is_observed_under_a_threshold_rule_only(name: str) -> None:
    rule: OutlierRule
    rule, seen, union = RULES[name]
    values, mask = activations(2, 3, 16, seed=1, share=0.1), torch.ones(2, 3, dtype=torch.bool)
    layer = int8_layer(*weight_and_bias(4, 16, seed=0), rule, mask)
    with observe_outliers(layer, mask=mask) as log:
        layer(values)
    assert len(log.forwards[0]) == seen
    for found in log.forwards[0].values():
        assert found.takes_union == union
        assert torch.equal(found.union, (values.abs() >= 6).flatten(0, 1).any(dim=0))


@pytest.mark.parametrize(("threshold", "training"), [(0.0, False), (6.0, True)])
def test_a_path_without_outliers_is_not_observed(threshold: float, training: bool) -> None:
    layer = bitsandbytes_layer(torch.eye(8), None, threshold).train(training)
    with observe_outliers(layer, mask=torch.ones(1, 2)) as log:
        layer(torch.full((1, 2, 8), 9.0))
    assert log.forwards == [{}]


def stock_model(family: str, *, adapted: bool) -> nn.Module:
    model = tiny(family).requires_grad_(False)
    apply_precision(model, STOCK, layers=block_linears(model))
    if adapted:
        model = add_lora(model, LoraSpec(rank=2, init_b_std=0.1)).eval()
        set_layer_modes(model, STOCK)
    return model


def run(model: nn.Module, log_of: Callable[..., Any] = observe_outliers, **options: Any) -> Any:
    with torch.no_grad(), log_of(model, **options) as log:
        model(input_ids=IDS, attention_mask=MASK)
    return log


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_its_decoders_names_adapted_or_not(family: str) -> None:
    expected = [
        f"{FAMILIES[family].blocks}.{block}.{name}"
        for block in range(2)
        for name in FAMILIES[family].linears
    ]
    for adapted in (False, True):
        model = stock_model(family, adapted=adapted)
        assert sorted(int8_layers(model)) == sorted(expected)
        log: OutlierLog = run(model)
        (forward,) = log.forwards
        assert sorted(forward) == sorted(expected)
        assert any(found.union.any() for found in forward.values())


@pytest.mark.parametrize("adapted", [False, True])
def test_every_union_in_a_model_is_the_one_bitsandbytes_used(
    adapted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs: list[list[int]] = []
    quantise = bnb.int8_vectorwise_quant

    def spy(values: Tensor, threshold: float = 0.0) -> tuple[Tensor, Tensor, Tensor | None]:
        result = quantise(values, threshold=threshold)
        if result[2] is not None:
            theirs.append(result[2].tolist())
        return result

    model = stock_model("llama", adapted=adapted)
    run(model)  # the layers have taken their codes over
    monkeypatch.setattr(bnb, "int8_vectorwise_quant", spy)
    log = run(model)
    assert [columns(found.union) for found in log.forwards[0].values()] == theirs
    assert len(theirs) == 14


def test_layers_that_read_one_tensor_name_the_first() -> None:
    (forward,) = run(stock_model("llama", adapted=True)).forwards
    sources = {name.rpartition(".")[2]: found.source for name, found in forward.items()}
    last = "model.layers.1."
    assert sources["k_proj"] == sources["v_proj"] == f"{last}self_attn.q_proj"
    assert sources["up_proj"] == f"{last}mlp.gate_proj"
    for own in ("self_attn.q_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.down_proj"):
        assert forward[last + own].source == last + own


def test_an_input_that_changed_in_place_is_another_input() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = bitsandbytes_layer(torch.eye(8), None, 6.0)
            self.two = bitsandbytes_layer(torch.eye(8), None, 6.0)

        def forward(self, values: Tensor) -> Tensor:
            return self.one(values) + self.two(values.mul_(10))

    model = Twice()
    with observe_outliers(model, mask=torch.ones(1, 2)) as log:
        model(torch.ones(1, 2, 8))
    (forward,) = log.forwards
    assert [int(found.union.sum()) for found in forward.values()] == [0, 8]
    assert [found.source for found in forward.values()] == ["one", "two"]


def test_a_layer_that_runs_again_is_listed_again() -> None:
    layer = bitsandbytes_layer(torch.eye(8), None, 6.0)
    model = nn.Sequential(layer, layer)
    with observe_outliers(model, mask=torch.ones(1, 2)) as log:
        model(torch.ones(1, 2, 8))
        model(torch.ones(1, 2, 8))
    assert [list(forward) for forward in log.forwards] == [["0", "0#2"], ["0", "0#2"]]


def test_inputs_are_kept_when_asked() -> None:
    layer = bitsandbytes_layer(torch.eye(8), None, 6.0)
    values = activations(1, 2, 8, seed=0)
    with observe_outliers(layer, mask=torch.ones(1, 2), keep_inputs=True) as log:
        layer(values)
    (found,) = log.forwards[0].values()
    assert found.inputs is not None
    assert torch.equal(found.inputs, values)
    assert found.inputs.data_ptr() != values.data_ptr()


def test_only_the_named_layers_are_observed() -> None:
    name = "model.layers.1.mlp.down_proj"
    (forward,) = run(stock_model("llama", adapted=True), layers=[name]).forwards
    assert list(forward) == [name]


def test_an_unknown_layer_is_refused() -> None:
    model = stock_model("llama", adapted=False)
    with (
        pytest.raises(InvalidArgumentError, match=r"got model\.norm; it has 14"),
        observe_outliers(model, layers=["model.norm"]),
    ):
        pass


def test_a_batch_that_nobody_announced_is_refused() -> None:
    layer = bitsandbytes_layer(torch.eye(8), None, 6.0)
    with (
        observe_outliers(nn.Sequential(layer)),
        pytest.raises(InvalidArgumentError, match="got no batch mask"),
    ):
        layer(torch.ones(1, 2, 8))


def hooks(model: nn.Module) -> int:
    return sum(len(m._forward_pre_hooks) + len(m._forward_hooks) for m in model.modules())


def test_the_model_computes_as_before_and_no_hook_stays_behind() -> None:
    model = stock_model("gpt2", adapted=True)
    with torch.no_grad():
        before = model(input_ids=IDS, attention_mask=MASK).logits
        n_hooks = hooks(model)
        with observe_outliers(model):
            during = model(input_ids=IDS, attention_mask=MASK).logits
            assert hooks(model) > n_hooks
    assert hooks(model) == n_hooks
    assert torch.equal(before, during)
