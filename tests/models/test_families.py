"""One contract that every family of decoders must meet; a new family joins the table."""

import pytest
import torch
from torch import nn

from insular.models.lora import add_lora
from insular.models.spec import LoraSpec
from insular.models.structure import (
    attention_targets,
    block_linears,
    embedding,
    find_blocks,
    output_head,
    trainable,
)

from .families import FAMILIES, HIDDEN, LAYERS, VOCABULARY, tiny

every_family = pytest.mark.parametrize("family", FAMILIES)


def token_ids(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(1, VOCABULARY, shape, generator=torch.Generator().manual_seed(seed))


def loss(model: nn.Module, ids: torch.Tensor) -> torch.Tensor:
    logits = model(ids, use_cache=False).logits[:, :-1]
    return nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


@every_family
def test_blocks_are_found(family: str) -> None:
    blocks = find_blocks(tiny(family))
    assert blocks.name == FAMILIES[family].blocks
    assert len(blocks) == LAYERS


@every_family
def test_every_block_linear_is_found(family: str) -> None:
    wanted = FAMILIES[family]
    names = list(block_linears(tiny(family)))
    assert sorted(names) == sorted(
        f"{wanted.blocks}.{layer}.{linear}" for layer in range(LAYERS) for linear in wanted.linears
    )


@every_family
def test_every_name_returned_is_found_in_every_block(family: str) -> None:
    model = tiny(family)
    targets = attention_targets(model)
    assert set(targets) == set(FAMILIES[family].targets)
    for target in targets:
        assert sum(name.endswith(f".{target}") for name in block_linears(model)) == LAYERS


@every_family
def test_embedding_and_head_have_the_vocabulary(family: str) -> None:
    model = tiny(family)
    assert embedding(model).weight.shape == (VOCABULARY, HIDDEN)
    assert output_head(model).weight.shape == (VOCABULARY, HIDDEN)


@every_family
def test_an_adapted_model_gives_the_same_blocks(family: str) -> None:
    model = tiny(family)
    before, linears = find_blocks(model), list(block_linears(model).values())
    adapted = add_lora(model, LoraSpec(rank=2))
    after = find_blocks(adapted)
    assert after.modules == before.modules
    assert after.name.endswith(before.name)
    assert all(a is b for a, b in zip(block_linears(adapted).values(), linears, strict=True))
    assert all(adapted.get_submodule(name) is part for name, part in block_linears(adapted).items())
    assert not any("lora" in name for name in block_linears(adapted))
    assert output_head(adapted).weight.shape == (VOCABULARY, HIDDEN)


@every_family
def test_only_b_has_a_gradient_when_it_starts_at_zero(family: str) -> None:
    model = tiny(family)
    ids = token_ids(3, 8)
    frozen = model(ids).logits
    adapted = add_lora(model, LoraSpec(rank=2))
    assert torch.equal(adapted(ids).logits, frozen)
    loss(adapted, ids).backward()
    for name, parameter in adapted.named_parameters():
        if ".lora_A." in name:
            assert parameter.grad is not None and not parameter.grad.any(), name
        elif ".lora_B." in name:
            assert parameter.grad is not None and parameter.grad.any(), name
        else:
            assert parameter.grad is None and not parameter.requires_grad, name


@every_family
def test_every_trainable_coordinate_has_a_gradient_when_b_does_not_start_at_zero(
    family: str,
) -> None:
    adapted = add_lora(tiny(family), LoraSpec(rank=2, init_b_std=0.1))
    loss(adapted, token_ids(4, 12)).backward()
    names = trainable(adapted)
    assert len(names) == 2 * LAYERS * len(FAMILIES[family].targets)
    for name, parameter in zip(names, trainable(adapted).values(), strict=True):
        assert parameter.grad is not None and bool((parameter.grad != 0).all()), name


@every_family
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_padded_record_has_the_logits_of_the_record_alone(family: str, side: str) -> None:
    model = tiny(family)
    short, long = token_ids(4, seed=1), token_ids(7, seed=2)
    pad = torch.zeros(3, dtype=torch.long)
    row = torch.cat([pad, short] if side == "left" else [short, pad])
    real = torch.cat([pad, torch.ones_like(short)] if side == "left" else [short * 0 + 1, pad])
    mask = torch.stack([real, torch.ones_like(long)])
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    with torch.no_grad():
        together = model(
            torch.stack([row, long]), attention_mask=mask, position_ids=positions
        ).logits
        alone = model(short[None]).logits[0]
    assert (together[0][real.bool()] - alone).abs().max() < 1e-5


@every_family
def test_tied_weights_are_counted_once(family: str) -> None:
    model = tiny(family).requires_grad_(False)
    embedding(model).weight.requires_grad_(True)
    output_head(model).weight.requires_grad_(True)
    tied = model.config.tie_word_embeddings
    assert (output_head(model).weight is embedding(model).weight) == tied
    assert len(trainable(model)) == (1 if tied else 2)
