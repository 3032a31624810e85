"""Finding a decoder's parts where the shape is unusual, and refusing where it has none."""

import bitsandbytes as bnb
import pytest
import torch
from torch import nn

from insular.errors import ModelError
from insular.models.structure import (
    attention_targets,
    block_linears,
    embedding,
    find_blocks,
    is_linear,
    output_head,
)

from .families import tiny


class Attention(nn.Module):
    def __init__(self, **layers: nn.Module) -> None:
        super().__init__()
        for name, layer in layers.items():
            self.add_module(name, layer)


class Block(nn.Module):
    def __init__(self, attention: nn.Module, experts: int = 0) -> None:
        super().__init__()
        self.mixer = attention
        self.experts = nn.ModuleList(Attention(up=nn.Linear(4, 8)) for _ in range(experts))


def decoder(experts: int = 0, **layers: nn.Module) -> nn.Module:
    model = nn.Module()
    model.stack = nn.ModuleList(Block(Attention(**layers), experts) for _ in range(2))
    return model


def test_experts_inside_a_block_are_not_the_blocks() -> None:
    model = decoder(experts=9, wq=nn.Linear(4, 4), wv=nn.Linear(4, 4))
    assert find_blocks(model).name == "stack"
    assert attention_targets(model) == ("wq", "wv")


def test_a_fused_projection_is_told_by_being_wider_than_its_input() -> None:
    model = decoder(mixed=nn.Linear(4, 12), dense=nn.Linear(4, 4))
    assert attention_targets(model) == ("mixed",)


def test_targets_that_cannot_be_told_are_an_error_that_lists_the_layers() -> None:
    with pytest.raises(ModelError, match=r"layers first, second; .* --lora-targets"):
        attention_targets(decoder(first=nn.Linear(4, 4), second=nn.Linear(4, 4)))


def test_a_model_without_blocks_is_an_error() -> None:
    with pytest.raises(ModelError, match="Sequential has no list of repeated blocks"):
        find_blocks(nn.Sequential(nn.Linear(4, 4)))


def test_a_model_that_names_no_parts_is_an_error() -> None:
    with pytest.raises(ModelError, match=r"names no input embedding.*get_input_embeddings\(\)"):
        embedding(nn.Linear(2, 2))
    with pytest.raises(ModelError, match=r"names no output head.*get_output_embeddings\(\)"):
        output_head(nn.Linear(2, 2))


def test_quantised_and_look_alike_linears_count() -> None:
    class LookAlike(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.in_features, self.out_features = 4, 4
            self.register_buffer("weight", torch.zeros(4, 4))

    layers = (bnb.nn.Linear8bitLt(4, 4), bnb.nn.Linear4bit(4, 4), LookAlike())
    assert all(is_linear(layer) for layer in layers)
    assert not is_linear(nn.Embedding(4, 4)) and not is_linear(nn.Bilinear(4, 4, 4))


def test_block_linears_can_be_replaced_by_their_names() -> None:
    model = tiny("llama")
    for name in block_linears(model):
        parent, _, last = name.rpartition(".")
        model.get_submodule(parent).register_module(last, nn.Identity())
    assert not any(is_linear(module) for module in model.model.layers.modules())
