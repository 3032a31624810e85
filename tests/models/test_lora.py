"""Adapters: what is trainable, on which layers, and from which seed."""

import bitsandbytes as bnb
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from insular.errors import InvalidArgumentError, ModelError
from insular.models.lora import add_lora
from insular.models.spec import LoraSpec
from insular.models.structure import block_linears, trainable

from .families import VOCABULARY, tiny

IDS = torch.arange(1, 17).reshape(2, 8) % VOCABULARY


def values(model: nn.Module) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in trainable(model).values()]


def replace_linears(model: nn.Module, make: object) -> nn.Module:
    for name, old in block_linears(model).items():
        parent, _, last = name.rpartition(".")
        new = make(old.in_features, old.out_features)
        new.load_state_dict(old.state_dict())
        setattr(model.get_submodule(parent), last, new)
    return model


def eight_bit(inputs: int, outputs: int) -> nn.Module:
    return bnb.nn.Linear8bitLt(inputs, outputs, bias=False, has_fp16_weights=False, threshold=6.0)


def four_bit(inputs: int, outputs: int) -> nn.Module:
    return bnb.nn.Linear4bit(inputs, outputs, bias=False, quant_type="nf4")


class Doubled(nn.Linear):
    """A linear layer with a forward of its own."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, bias=False)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(input)


def test_only_adapters_are_trainable_they_are_float32_and_have_no_dropout() -> None:
    adapted = add_lora(tiny("llama").bfloat16(), LoraSpec())
    for name, parameter in adapted.named_parameters():
        assert parameter.requires_grad == (".lora_" in name)
        assert parameter.dtype == (torch.float32 if ".lora_" in name else torch.bfloat16)
    assert not any(isinstance(module, nn.Dropout) and module.p for module in adapted.modules())


@given(seed=st.integers(0, 2**31), std=st.sampled_from([0.0, 0.02]))
@settings(max_examples=5, deadline=None)
def test_the_same_spec_and_model_give_the_same_adapters(seed: int, std: float) -> None:
    spec = LoraSpec(rank=2, seed=seed, init_b_std=std)
    torch.manual_seed(1)
    first = values(add_lora(tiny("gpt2"), spec))
    torch.manual_seed(2)
    second = values(add_lora(tiny("gpt2"), spec))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_a_does_not_depend_on_the_start_of_b_but_on_the_seed() -> None:
    def a_of(spec: LoraSpec) -> list[torch.Tensor]:
        return values(add_lora(tiny("llama"), spec))[::2]

    base = a_of(LoraSpec(rank=2))
    assert all(map(torch.equal, base, a_of(LoraSpec(rank=2, init_b_std=0.1))))
    assert not any(map(torch.equal, base, a_of(LoraSpec(rank=2, seed=1))))


def test_initial_values_have_their_stated_scale() -> None:
    adapted = add_lora(tiny("llama"), LoraSpec(rank=32, init_b_std=0.25))
    named = dict(zip(trainable(adapted), values(adapted), strict=True))
    a = torch.cat([value.flatten() for name, value in named.items() if ".lora_A." in name])
    b = torch.cat([value.flatten() for name, value in named.items() if ".lora_B." in name])
    assert a.abs().max() <= 32**-0.5 and a.abs().max() > 0.99 * 32**-0.5
    assert abs(b.std().item() - 0.25) < 0.02 and abs(b.mean().item()) < 0.02


def test_the_global_generators_are_left_as_they_were() -> None:
    model = tiny("llama")
    before = torch.random.get_rng_state()
    add_lora(model, LoraSpec(init_b_std=0.1))
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("training", [True, False])
def test_the_model_keeps_its_mode(training: bool) -> None:
    adapted = add_lora(tiny("gpt2").train(training), LoraSpec())
    assert {module.training for module in adapted.modules()} == {training}


def test_the_adapted_layer_computes_its_equation() -> None:
    model = tiny("gpt2")
    frozen = model.transformer.h[0].attn.c_attn
    adapted = add_lora(model, LoraSpec(rank=3, alpha=6.0, init_b_std=0.5))
    layer = adapted.base_model.model.transformer.h[0].attn.c_attn
    x = torch.linspace(-1, 1, 64).reshape(2, 32)
    a, b = layer.lora_A["default"].weight, layer.lora_B["default"].weight
    expected = frozen(x) + 2.0 * x @ a.T @ b.T
    assert torch.allclose(layer(x), expected, atol=1e-6)


def test_given_targets_are_adapted_and_no_others() -> None:
    adapted = add_lora(tiny("opt"), LoraSpec(rank=2, targets=("fc1", "out_proj")))
    layers = {name.split(".lora_")[0].rpartition(".")[2] for name in trainable(adapted)}
    assert layers == {"fc1", "out_proj"}


def test_mixed_layer_kinds_are_adapted_without_a_warning() -> None:
    model = tiny("gpt2")
    model.lm_head.weight = nn.Parameter(model.lm_head.weight.detach().clone())
    model.config.tie_word_embeddings = False
    adapted = add_lora(model, LoraSpec(rank=2, targets=("c_attn", "lm_head")))
    assert sum("lm_head" in name for name in trainable(adapted)) == 2
    adapted(IDS)


@pytest.mark.parametrize(
    ("make", "adapter"),
    [(eight_bit, "Linear8bitLt"), (four_bit, "Linear4bit"), (Doubled, "Linear")],
)
def test_a_quantised_or_subclassed_linear_stays_the_base_layer(make: object, adapter: str) -> None:
    model = replace_linears(tiny("llama", hidden=64), make).to("cpu").requires_grad_(False)
    # In eval mode bitsandbytes may repack 4-bit weights for a CPU kernel that has no backward.
    model.train(make is four_bit)
    kinds = [type(layer) for layer in block_linears(model).values()]
    with torch.no_grad():
        frozen = model(IDS).logits
    adapted = add_lora(model, LoraSpec(rank=2))
    assert [type(layer) for layer in block_linears(adapted).values()] == kinds
    wrapped = adapted.get_submodule("base_model.model.model.layers.0.self_attn.q_proj")
    assert type(wrapped).__name__ == adapter
    assert not {"is_loaded_in_8bit", "is_loaded_in_4bit"} & vars(model).keys()
    with torch.no_grad():
        assert torch.equal(adapted(IDS).logits, frozen)
    adapted(IDS).logits.square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in trainable(adapted).values())


def test_an_unknown_target_is_an_error_that_names_it() -> None:
    with pytest.raises(ModelError, match="got q_porj; it has down_proj, .*q_proj"):
        add_lora(tiny("llama"), LoraSpec(targets=("q_porj", "v_proj")))


def test_a_model_with_adapters_is_refused() -> None:
    adapted = add_lora(tiny("llama"), LoraSpec())
    with pytest.raises(ModelError, match="already has adapters"):
        add_lora(adapted, LoraSpec())


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("rank", 0),
        ("alpha", 0.0),
        ("alpha", float("nan")),
        ("init_b_std", -0.1),
        ("seed", -1),
        ("targets", "q_proj"),
        ("targets", ("",)),
    ],
)
def test_a_field_that_breaks_its_rule_is_named(field: str, value: object) -> None:
    with pytest.raises(InvalidArgumentError, match=f"^{field} must be .*got {field}="):
        LoraSpec(**{field: value})
