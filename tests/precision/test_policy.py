"""What a spec replaces in a real decoder's structure, what it refuses, and the modes it keeps."""

import re
from collections.abc import Iterator

import bitsandbytes as bnb
import pytest
import torch
from jaxtyping import TypeCheckError
from torch import nn

from insular.errors import InvalidArgumentError, ModelError
from insular.models.structure import block_linears
from insular.precision.linear import Int8Linear, Nf4Linear
from insular.precision.policy import (
    Replacement,
    apply_precision,
    calibrate_outliers,
    set_layer_modes,
)
from insular.precision.spec import BACKBONES, OUTLIER_RULES, PrecisionSpec
from insular.precision.stock import quiet_bitsandbytes
from models.families import FAMILIES, VOCABULARY, tiny

IDS = torch.arange(1, 33).reshape(4, 8) % VOCABULARY
MASK = torch.tensor([[1] * 8, [1] * 8, [1] * 5 + [0] * 3, [1] * 2 + [0] * 6])
INPUTS = {"input_ids": IDS, "attention_mask": MASK}
KINDS = {"int8": Int8Linear, "bitsandbytes-int8": bnb.nn.Linear8bitLt, "nf4": Nf4Linear}


def frozen(family: str) -> nn.Module:
    return tiny(family, hidden=64).requires_grad_(False)


def applied(model: nn.Module, **fields: object) -> tuple[Replacement, ...]:
    layers = block_linears(model)
    spec = PrecisionSpec(**fields)
    columns = {name: torch.tensor([0, 5]) for name in layers}
    return apply_precision(model, spec, layers=layers, calibration=columns)


def check_untouched(model: nn.Module, before: dict[str, nn.Module]) -> None:
    """A refusal leaves the model as it was."""
    assert block_linears(model) == before
    assert not model._forward_pre_hooks
    assert {p.dtype for p in model.parameters()} == {torch.float32}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("backbone", KINDS)
def test_every_layer_is_replaced(family: str, backbone: str) -> None:
    model = frozen(family)
    before = block_linears(model)
    shapes = {name: tuple(layer.weight.shape) for name, layer in before.items()}
    with torch.no_grad():
        expected = model(**INPUTS).logits
    done = applied(model, backbone=backbone, outlier_rule="record")
    assert [r.name for r in done] == list(before)
    for r in done:
        assert type(model.get_submodule(r.name)) is KINDS[backbone]
        assert r.after == KINDS[backbone].__name__
        assert r.before == type(before[r.name]).__name__
        transposed = r.before == "Conv1D"
        assert r.shape == (shapes[r.name][::-1] if transposed else shapes[r.name])
    with torch.no_grad():
        found = model(**INPUTS).logits
    error = (found - expected)[MASK.bool()].square().mean().sqrt() / expected.std()
    assert 0 < error < (0.5 if backbone == "nf4" else 0.05)


@pytest.mark.parametrize("rule", OUTLIER_RULES)
def test_every_rule_is_built(rule: str) -> None:
    model = frozen("llama")
    applied(model, backbone="int8", outlier_rule=rule)
    layers = [m for m in model.modules() if isinstance(m, Int8Linear)]
    assert {layer.rule.name for layer in layers} == {rule}
    assert len({id(layer.ownership) for layer in layers}) == 1
    with torch.no_grad():
        assert model(**INPUTS).logits.isfinite().all()


def test_gpt2_conv1d_is_transposed() -> None:
    model = frozen("gpt2")
    layer = model.transformer.h[0].attn.c_attn
    values = torch.randn(1, 4, 64)
    expected = layer(values)
    applied(model, backbone="int8", outlier_rule="none")
    replaced = model.transformer.h[0].attn.c_attn
    assert (replaced.in_features, replaced.out_features) == (64, 192)
    assert (replaced(values) - expected).abs().max() < 0.03 * expected.abs().max()


def test_the_model_s_forward_announces_the_mask() -> None:
    model = frozen("llama")
    applied(model, backbone="int8", outlier_rule="record")
    with torch.no_grad():
        model(**INPUTS)
    ownership = model.model.layers[0].self_attn.q_proj.ownership
    assert torch.equal(ownership.mask, MASK.bool())


def test_float32_replaces_nothing() -> None:
    model = frozen("llama")
    before = block_linears(model)
    assert applied(model, backbone="float32") == ()
    assert block_linears(model) == before


def test_bfloat16_casts_the_whole_model() -> None:
    model = frozen("llama")
    assert applied(model, backbone="bfloat16") == ()
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}


@pytest.mark.parametrize("backbone", [*KINDS, "bfloat16"])
def test_trainable_layers_are_refused(backbone: str) -> None:
    model = frozen("llama")
    model.model.layers[1].mlp.up_proj.requires_grad_(True)
    before = block_linears(model)
    with pytest.raises(
        InvalidArgumentError,
        match=r"layer model\.layers\.1\.mlp\.up_proj must be frozen .* before adding adapters",
    ):
        applied(model, backbone=backbone, outlier_rule="record")
    check_untouched(model, before)


@pytest.mark.parametrize("calibration", [None, {}])
def test_the_calibrated_rule_needs_every_layer(calibration: dict | None) -> None:
    model = frozen("llama")
    layers = block_linears(model)
    spec = PrecisionSpec(backbone="int8", outlier_rule="calibrated")
    with pytest.raises(
        InvalidArgumentError,
        match=r"calibration must hold columns for every layer .* got none for model\.layers\.0",
    ):
        apply_precision(model, spec, layers=layers, calibration=calibration)
    check_untouched(model, layers)


def test_a_layer_of_unknown_kind_is_refused() -> None:
    model = frozen("llama")
    layers = {"model.norm": model.model.norm}
    layers = block_linears(model) | layers
    with pytest.raises(ModelError, match=r"layer model\.norm must be a linear layer .*RMSNorm"):
        apply_precision(model, PrecisionSpec(backbone="nf4"), layers=layers)
    check_untouched(model, block_linears(model))


def test_a_quantised_layer_is_refused() -> None:
    model = frozen("llama")
    applied(model, backbone="int8", outlier_rule="record")
    with pytest.raises(ModelError, match=r"in floating point, got Int8Linear"):
        applied(model, backbone="int8", outlier_rule="record")


@pytest.mark.parametrize("training", [False, True])
def test_train_and_eval_on_the_parent_are_undone_by_set_layer_modes(training: bool) -> None:
    model = frozen("llama")
    spec = PrecisionSpec(backbone="bitsandbytes-int8", training_mode=training)
    apply_precision(model, spec, layers=block_linears(model))
    layers = [m for m in model.modules() if isinstance(m, bnb.nn.Linear8bitLt)]
    assert {layer.training for layer in layers} == {training}
    model.train(not training)
    assert {layer.training for layer in layers} == {not training}
    set_layer_modes(model, spec)
    assert {layer.training for layer in layers} == {training}
    assert model.training is not training, "only the int8 layers change"


@pytest.mark.parametrize("backbone", [b for b in BACKBONES if b != "bitsandbytes-int8"])
def test_set_layer_modes_leaves_other_backbones_alone(backbone: str) -> None:
    model = frozen("llama")
    applied(model, backbone=backbone)
    model.eval()
    before = {name: module.training for name, module in model.named_modules()}
    set_layer_modes(model, PrecisionSpec(backbone=backbone, training_mode=True))
    assert {name: module.training for name, module in model.named_modules()} == before


def test_training_mode_is_another_operator_on_cpu() -> None:
    outputs = []
    for training in (False, True):
        model = frozen("llama")
        applied(model, backbone="bitsandbytes-int8", training_mode=training)
        with torch.no_grad():
            outputs.append(model(**INPUTS).logits)
    assert not torch.equal(*outputs)


def test_calibration_reads_real_rows_and_names_their_outlier_columns() -> None:
    model = frozen("llama")
    layers = block_linears(model)
    seen: dict[str, torch.Tensor] = {}
    handles = [
        layer.register_forward_pre_hook(lambda m, args, name=name: seen.update({name: args[0]}))
        for name, layer in layers.items()
    ]
    found = calibrate_outliers(model, INPUTS, layers=layers, threshold=1.5)
    for handle in handles:
        handle.remove()
    assert set(found) == set(layers)
    assert sum(len(columns) for columns in found.values()) > 0
    for name, columns in found.items():
        real = seen[name][MASK.bool()].half().abs().amax(dim=0)
        assert columns.tolist() == [j for j, top in enumerate(real.tolist()) if top >= 1.5]


def test_calibration_removes_its_hooks_even_after_an_error() -> None:
    model = frozen("llama")
    layers = block_linears(model)
    with pytest.raises(IndexError):
        bad = {"input_ids": IDS + VOCABULARY, "attention_mask": MASK}
        calibrate_outliers(model, bad, layers=layers, threshold=1.0)
    assert not any(layer._forward_pre_hooks for layer in layers.values())


def test_calibrated_columns_serve_the_calibrated_rule() -> None:
    model = frozen("llama")
    layers = block_linears(model)
    columns = calibrate_outliers(model, INPUTS, layers=layers, threshold=1.5)
    spec = PrecisionSpec(backbone="int8", outlier_rule="calibrated", threshold=1.5)
    apply_precision(model, spec, layers=layers, calibration=columns)
    for name, expected in columns.items():
        assert torch.equal(model.get_submodule(name).rule.columns, expected)


@pytest.fixture
def bitsandbytes_level() -> Iterator[object]:
    import logging

    logger = logging.getLogger("bitsandbytes")
    before = logger.level
    yield logger
    logger.setLevel(before)


def test_quiet_bitsandbytes_restores_the_level(bitsandbytes_level: object) -> None:
    bitsandbytes_level.setLevel(17)
    with pytest.raises(KeyError), quiet_bitsandbytes():
        raise KeyError
    assert bitsandbytes_level.level == 17


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"backbone": "int4"}, r"backbone must be one of .*'int4'"),
        ({"outlier_rule": "mine"}, r"outlier_rule must be one of .*'mine'"),
        ({"threshold": -1.0}, r"threshold must be finite and >= 0, got threshold=-1\.0"),
        (
            {"backbone": "int8", "outlier_rule": "record", "threshold": 0.0},
            r"threshold must be finite and > 0, got threshold=0\.0",
        ),
    ],
)
def test_a_spec_refuses_values_outside_their_rule(fields: dict, message: str) -> None:
    try:
        PrecisionSpec(**fields)
    except TypeCheckError:  # the tests' shape checker refuses a wrong Literal before we do
        return
    except InvalidArgumentError as error:
        assert re.search(message, str(error))
        return
    raise AssertionError(f"{fields} were accepted")
