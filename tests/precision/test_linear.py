"""Layers over a frozen weight, and what evaluation mode does to bitsandbytes' 4-bit one."""

import bitsandbytes as bnb
import pytest
import torch
from torch import Tensor, nn

from insular.precision.linear import Int8Linear, llm_int8_linear, nf4_linear
from insular.precision.outliers import RecordOutliers
from insular.precision.ownership import RowOwnership

from .samples import activations, int8_layer, mask_of, weight_and_bias

WEIGHT, BIAS = weight_and_bias(128, 64, seed=0)


def gradient(layer: nn.Module, values: Tensor) -> Tensor:
    leaf = values.clone().requires_grad_()
    (found,) = torch.autograd.grad(layer(leaf).square().sum(), leaf)
    return found


def test_int8_linear_is_a_frozen_linear_layer() -> None:
    layer = Int8Linear(WEIGHT, BIAS, rule=RecordOutliers(6.0), ownership=RowOwnership())
    assert isinstance(layer, nn.Linear)
    assert (layer.in_features, layer.out_features) == (64, 128)
    assert layer.weight.dtype == torch.int8
    assert not any(p.requires_grad for p in layer.parameters())
    assert repr(layer) == "Int8Linear(64, 128, rule=record)"


def test_int8_linear_keeps_its_own_copy_of_the_bias() -> None:
    bias = BIAS.clone()
    layer = int8_layer(WEIGHT, bias, RecordOutliers(6.0))
    bias.zero_()
    assert layer.bias is not None
    assert torch.equal(layer.bias, BIAS)


def test_int8_linear_saves_codes_scale_and_bias() -> None:
    layer = int8_layer(WEIGHT, BIAS, RecordOutliers(6.0), mask_of([8], width=8, side="left"))
    other = int8_layer(
        WEIGHT * 2, BIAS * 2, RecordOutliers(6.0), mask_of([8], width=8, side="left")
    )
    other.load_state_dict(layer.state_dict())
    values = activations(1, 8, 64, seed=0)
    assert torch.equal(layer(values), other(values))


def test_int8_linear_has_one_behaviour_in_both_modes() -> None:
    layer = int8_layer(WEIGHT, BIAS, RecordOutliers(6.0), mask_of([8], width=8, side="left"))
    values = activations(1, 8, 64, seed=0)
    assert torch.equal(layer.train()(values), layer.eval()(values))


@pytest.mark.parametrize("bias", [None, BIAS])
def test_nf4_equals_the_dequantised_weight(bias: Tensor | None) -> None:
    layer = nf4_linear(WEIGHT, bias)
    state = layer.weight.quant_state
    assert (state.quant_type, state.blocksize, state.nested) == ("nf4", 64, False)
    dense = bnb.functional.dequantize_4bit(layer.weight.data, state)
    assert 0 < (dense - WEIGHT).abs().max() <= WEIGHT.abs().max() * 0.16
    values = activations(3, 8, 64, seed=0)
    expected = nn.functional.linear(values, dense, bias)
    assert torch.allclose(layer(values), expected, rtol=1e-4, atol=1e-4)
    assert layer(values).dtype == torch.float32


def test_nf4_gradient_is_the_dequantised_weight_s() -> None:
    layer = nf4_linear(WEIGHT, BIAS)
    dense = bnb.functional.dequantize_4bit(layer.weight.data, layer.weight.quant_state)
    values = activations(3, 8, 64, seed=0)
    expected = 2 * layer(values).detach() @ dense
    assert torch.allclose(gradient(layer, values), expected, rtol=1e-4, atol=1e-4)


def test_nf4_evaluation_between_training_steps_keeps_the_gradient() -> None:
    layer = nn.Sequential(nf4_linear(WEIGHT, BIAS)).train()
    values = activations(3, 8, 64, seed=0)
    before = gradient(layer, values)
    layer.eval()
    with torch.no_grad():
        layer(values)
    layer.train()
    assert before.abs().max() > 0
    assert torch.equal(gradient(layer, values), before)


def test_nf4_stays_in_training_mode() -> None:
    layer = nf4_linear(WEIGHT, None)
    parent = nn.Sequential(layer).eval()
    assert layer.training
    assert not parent.training


@pytest.mark.filterwarnings("ignore:.*gemv_4bit.*:UserWarning")
def test_bitsandbytes_own_nf4_layer_does_lose_the_gradient() -> None:
    """The planted bug: without it the class above would have no reason to exist."""
    layer = bnb.nn.Linear4bit(64, 128, bias=False, compute_dtype=torch.float32, quant_type="nf4")
    layer = layer.to("cpu").eval()
    if not layer.support_avx512bf16_for_cpu:
        pytest.skip("the weight is repacked only on processors with AVX512-BF16")
    values = activations(3, 8, 64, seed=0)
    with torch.no_grad():
        layer(values)
    leaf = values.clone().requires_grad_()
    loss = layer.train()(leaf).square().sum()
    assert torch.autograd.grad(loss, leaf, allow_unused=True) == (None,)


@pytest.mark.parametrize("bias", [None, BIAS])
def test_llm_int8_layer_is_bitsandbytes_own_in_evaluation_mode(bias: Tensor | None) -> None:
    layer = llm_int8_linear(WEIGHT, bias, threshold=5.0)
    assert type(layer) is bnb.nn.Linear8bitLt
    assert not layer.training
    assert layer.state.threshold == 5.0
    assert not any(p.requires_grad for p in layer.parameters())
    ours = int8_layer(WEIGHT, bias, RecordOutliers(5.0))
    assert torch.equal(layer.weight.CB, ours.weight)
    assert torch.equal(layer.weight.SCB, ours.scale)
