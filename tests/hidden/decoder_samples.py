"""Split tiny decoders, prompts for them, and samplers whose cost is known."""

from dataclasses import replace
from functools import cache

import torch
from torch import Tensor

from insular.hidden.states.forward import SplitDecoder
from insular.hidden.states.prompts import HeldPrompts, hold_prompts
from insular.records.tokens import TokenisedRecord
from models.families import VOCABULARY, tiny

LENGTHS = (9, 4, 12, 2, 7, 7, 5, 3)


def records(lengths: tuple[int, ...] = LENGTHS, *, seed: int = 0) -> list[TokenisedRecord]:
    generator = torch.Generator().manual_seed(seed)
    return [
        TokenisedRecord(
            id=f"r{seed}-{i}",
            owner=f"r{seed}-{i}",
            tokens=tuple(torch.randint(3, VOCABULARY, (n,), generator=generator).tolist()),
        )
        for i, n in enumerate(lengths)
    ]


def repeated(one: TokenisedRecord, name: str) -> TokenisedRecord:
    return replace(one, id=name, owner=name)


@cache
def split(family: str = "llama") -> SplitDecoder:
    """One decoder per family for the whole run: no test changes it."""
    model = tiny(family)
    model.set_attn_implementation("eager")
    return SplitDecoder(model)


@cache
def held(
    n: int = 24, *, seed: int = 0, family: str = "llama", labels: str = "last_token"
) -> HeldPrompts:
    lengths = tuple(4 + i % 7 for i in range(n))
    return hold_prompts(
        split(family),
        records(lengths, seed=seed),
        layers=(0, 1),
        labels=labels,  # type: ignore[arg-type]
        batch_tokens=40,
    )


def isotropic(states: Tensor, *, generator: torch.Generator, scale: float = 1.0) -> Tensor:
    noise = torch.randn(states.shape, generator=generator, dtype=states.dtype)
    return states + scale * noise


def unchanged(states: Tensor, *, generator: torch.Generator, scale: float = 1.0) -> Tensor:
    return states


def erased(states: Tensor, *, generator: torch.Generator, scale: float = 1.0) -> Tensor:
    return torch.zeros_like(states)
