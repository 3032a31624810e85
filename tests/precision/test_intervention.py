"""Layers of a live model under other rules: native bits, foreign masks, and set back afterwards."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from insular.errors import InvalidArgumentError, ModelError
from insular.models.lora import add_lora
from insular.models.spec import LoraSpec
from insular.models.structure import block_linears, trainable
from insular.precision.intervention import outlier_rules
from insular.precision.layers import int8_layers, int8_weight
from insular.precision.observation import observe_outliers
from insular.precision.outliers import BatchedOutliers, NoOutliers, OutlierRule, RecordOutliers
from insular.precision.policy import apply_precision, set_layer_modes
from insular.precision.prescribed import PrescribedOutliers, PrescribedSet
from insular.precision.spec import PrecisionSpec
from insular.precision.stock import Linear8bitLt
from models.families import FAMILIES, tiny

from .samples import activations, bitsandbytes_layer, weight_and_bias

THRESHOLD = 1.5
STOCK = PrecisionSpec(backbone="bitsandbytes-int8", threshold=THRESHOLD)
OWNED = PrecisionSpec(backbone="int8", outlier_rule="record", threshold=THRESHOLD)
MASK = torch.tensor([[1] * 6, [1] * 4 + [0] * 2, [1] * 5 + [0]])


def tokens(n_records: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(3, 64, (n_records, 6), generator=generator)


def adapted(family: str, spec: PrecisionSpec) -> nn.Module:
    model = tiny(family).requires_grad_(False)
    apply_precision(model, spec, layers=block_linears(model))
    model = add_lora(model, LoraSpec(rank=2, init_b_std=0.1)).eval()
    set_layer_modes(model, spec)
    return model


def outputs(model: nn.Module, ids: Tensor, mask: Tensor) -> list[Tensor]:
    """Logits, and the gradient of every trainable parameter."""
    logits = model(input_ids=ids, attention_mask=mask).logits
    loss = (logits.log_softmax(dim=-1)[..., 7] * mask).sum()
    return [logits.detach(), *torch.autograd.grad(loss, list(trainable(model).values()))]


def everywhere(model: nn.Module, rule: OutlierRule) -> dict[str, OutlierRule]:
    return dict.fromkeys(int8_layers(model), rule)


def same(one: list[Tensor], two: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_batched_rule_changes_no_bit_of_stock_layers(family: str) -> None:
    model = adapted(family, STOCK)
    native = outputs(model, tokens(3), MASK)
    with outlier_rules(model, everywhere(model, BatchedOutliers(THRESHOLD))):
        assert same(outputs(model, tokens(3), MASK), native)
    with outlier_rules(model, everywhere(model, NoOutliers())):
        assert not same(outputs(model, tokens(3), MASK), native)


def test_it_works_before_the_layers_first_forward() -> None:
    model, fresh = adapted("llama", STOCK), adapted("llama", STOCK)
    with outlier_rules(fresh, everywhere(fresh, BatchedOutliers(THRESHOLD))):
        found = outputs(fresh, tokens(3), MASK)
    assert same(found, outputs(model, tokens(3), MASK))
    assert same(found, outputs(fresh, tokens(3), MASK))


def test_the_record_rule_on_stock_layers_equals_record_owned_layers() -> None:
    stock, owned = adapted("llama", STOCK), adapted("llama", OWNED)
    with outlier_rules(stock, everywhere(stock, RecordOutliers(THRESHOLD))):
        assert same(outputs(stock, tokens(3), MASK), outputs(owned, tokens(3), MASK))


def test_the_batched_rule_on_record_owned_layers_equals_stock_layers() -> None:
    stock, owned = adapted("gpt2", STOCK), adapted("gpt2", OWNED)
    with outlier_rules(owned, everywhere(owned, BatchedOutliers(THRESHOLD))):
        assert same(outputs(owned, tokens(3), MASK), outputs(stock, tokens(3), MASK))


def forced(model: nn.Module, ids: Tensor, sets: dict[str, list[PrescribedSet]]) -> list[Tensor]:
    rules = {name: PrescribedOutliers(s, threshold=THRESHOLD) for name, s in sets.items()}
    with outlier_rules(model, rules):
        return outputs(model, ids, torch.ones(ids.shape))


@pytest.mark.parametrize("family", ["llama", "gpt2", "opt"])
def test_forcing_one_batchs_masks_on_its_records_removes_the_added_record(family: str) -> None:
    """With their own union, common records do not feel the eighth; natively they do."""
    model = adapted(family, STOCK)
    ids = tokens(8)
    native = [model(input_ids=ids[:n], attention_mask=torch.ones(n, 6)).logits for n in (7, 8)]
    assert not torch.equal(native[0], native[1][:7])
    with torch.no_grad(), observe_outliers(model) as log:
        model(input_ids=ids[:7], attention_mask=torch.ones(7, 6))
    unions = {name: seen.union.nonzero().flatten() for name, seen in log.forwards[0].items()}
    common = {n: PrescribedSet(n_records=7, columns=c) for n, c in unions.items()}
    every = {
        n: PrescribedSet(n_records=1, columns=torch.arange(int8_layers(model)[n].in_features))
        for n in unions
    }
    seven = forced(model, ids[:7], {n: [common[n]] for n in unions})
    eight = forced(model, ids, {n: [common[n], every[n]] for n in unions})
    assert same(seven[:1], native[:1])
    assert torch.equal(eight[0][:7], seven[0])


def test_a_refusal_names_the_layer_and_sets_the_model_back() -> None:
    model = adapted("llama", STOCK)
    native = outputs(model, tokens(3), MASK)
    name = "model.layers.0.self_attn.q_proj"
    none = PrescribedSet(n_records=3, columns=torch.tensor([], dtype=torch.int64))
    rule = PrescribedOutliers([none], threshold=THRESHOLD)
    with (
        pytest.raises(InvalidArgumentError, match=f"layer {name}: prescribed columns must hold"),
        outlier_rules(model, {name: rule}),
    ):
        outputs(model, tokens(3), MASK)
    assert same(outputs(model, tokens(3), MASK), native)


def state(model: nn.Module) -> dict[str, object]:
    return {
        name: (
            {k: id(v) for k, v in vars(module).items()},
            len(module._forward_pre_hooks),
            len(module._forward_hooks),
        )
        for name, module in model.named_modules()
    }


def test_afterwards_the_model_is_as_it_was() -> None:
    model = adapted("llama", STOCK)
    outputs(model, tokens(3), MASK)
    before = state(model)
    digest = {n: layer.weight.clone() for n, layer in int8_layers(model).items()}
    with outlier_rules(model, everywhere(model, NoOutliers())):
        outputs(model, tokens(3), MASK)
        assert state(model) != before
    assert state(model) == before
    assert all(torch.equal(layer.weight, digest[n]) for n, layer in int8_layers(model).items())


def test_blocks_nest_and_the_inner_one_gives_way_to_the_outer() -> None:
    model = adapted("llama", STOCK)
    none, batched = (everywhere(model, r) for r in (NoOutliers(), BatchedOutliers(THRESHOLD)))
    native = outputs(model, tokens(3), MASK)
    with outlier_rules(model, none):
        outer = outputs(model, tokens(3), MASK)
        with outlier_rules(model, batched):
            assert same(outputs(model, tokens(3), MASK), native)
        assert same(outputs(model, tokens(3), MASK), outer)
    assert same(outputs(model, tokens(3), MASK), native)


def test_the_codes_are_the_layers_own() -> None:
    layer = bitsandbytes_layer(*weight_and_bias(4, 8, seed=0), 6.0)
    fresh = int8_weight(layer)
    layer(torch.ones(1, 8))
    used = int8_weight(layer)
    assert used.codes.data_ptr() == layer.state.CB.data_ptr()
    assert torch.equal(fresh.codes, used.codes)
    assert torch.equal(fresh.scale, used.scale)


def test_a_layer_that_is_not_quantised_is_refused() -> None:
    layer = Linear8bitLt(8, 4, has_fp16_weights=False, threshold=6.0)
    with pytest.raises(ModelError, match="must hold int8 codes and scales, got none; move"):
        int8_weight(layer)


def test_a_layer_in_training_mode_on_cpu_is_refused() -> None:
    layer = bitsandbytes_layer(*weight_and_bias(4, 8, seed=0), 6.0).train()
    with (
        outlier_rules(layer, {"": BatchedOutliers(6.0)}, mask=torch.ones(1, 2)),
        pytest.raises(InvalidArgumentError, match="must be in evaluation mode .* training mode"),
    ):
        layer(torch.ones(1, 2, 8))


def test_an_unknown_name_is_refused() -> None:
    model = adapted("llama", STOCK)
    with (
        pytest.raises(InvalidArgumentError, match=r"got lm_head; it has 14: see int8_layers"),
        outlier_rules(model, {"lm_head": NoOutliers()}),
    ):
        pass


@given(seed=st.integers(0, 2**31), share=st.sampled_from([0.0, 0.01, 0.2]))
@settings(max_examples=15, deadline=None)
def test_the_batched_rule_changes_no_bit_of_one_stock_layer(seed: int, share: float) -> None:
    layer = bitsandbytes_layer(*weight_and_bias(16, 32, seed=3), 6.0)
    values = activations(3, 5, 32, seed=seed, share=share).requires_grad_()
    upstream = activations(3, 5, 16, seed=1)
    native = layer(values)
    (native_gradient,) = torch.autograd.grad(native, values, upstream)
    with outlier_rules(layer, {"": BatchedOutliers(6.0)}):
        found = layer(values)
        (gradient,) = torch.autograd.grad(found, values, upstream)
    assert torch.equal(native, found)
    assert torch.equal(native_gradient, gradient)
