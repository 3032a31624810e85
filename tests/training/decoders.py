"""Small decoders with something trainable, batches for them, and plain autograd as the oracle."""

from collections.abc import Callable
from types import SimpleNamespace

import torch
from torch import Tensor, nn

from insular.models.lora import add_lora
from insular.models.spec import LoraSpec
from insular.models.structure import trainable
from insular.records.batches import TokenBatch, collate
from insular.records.tokens import TokenisedRecord
from insular.training.gradients import ENGINES, RecordGradients, forward_losses
from insular.training.losses import LossName
from models.families import VOCABULARY, tiny

LENGTHS = [9, 4, 12, 2]


def batch_of(lengths: list[int], *, side: str = "right", width: int | None = None) -> TokenBatch:
    generator = torch.Generator().manual_seed(sum(lengths))
    records = [
        TokenisedRecord(
            id=f"r{i}",
            owner=f"r{i}",
            tokens=tuple(torch.randint(3, VOCABULARY, (n,), generator=generator).tolist()),
        )
        for i, n in enumerate(lengths)
    ]
    return collate(records, pad_token_id=0, padding_side=side, width=width)


def adapted(family: str, *, init_b_std: float = 0.1) -> nn.Module:
    model = tiny(family)
    model.set_attn_implementation("eager")
    return add_lora(model, LoraSpec(rank=2, init_b_std=init_b_std)).eval()


def run(
    engine: str, model: nn.Module, batch: TokenBatch, *, loss: LossName = "record_mean"
) -> RecordGradients:
    return ENGINES[engine]().compute(model, batch, loss=loss)


def autograd(model: nn.Module, batch: TokenBatch) -> Tensor:
    """Each record by itself, in a batch of one, with ``backward()``."""
    rows = []
    for record in range(batch.n_records):
        model.zero_grad()
        _, losses = forward_losses(model, batch.select([record]), "record_mean")
        losses.sum().backward()
        parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters(model)]
        rows.append(torch.cat([part.flatten().clone() for part in parts]))
    model.zero_grad()
    return torch.stack(rows)


def parameters(model: nn.Module) -> list[nn.Parameter]:
    return list(trainable(model).values())


def close(found: Tensor, expected: Tensor, tolerance: float = 1e-6) -> bool:
    return bool((found - expected).norm() <= tolerance * max(1.0, float(expected.norm())))


class Tiny(nn.Module):
    """A decoder of its own make: embedding, a part to be tested, head."""

    def __init__(self, part: nn.Module, *, width: int = 6, tied: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(VOCABULARY, width).requires_grad_(False)
        self.part = part
        self.head = nn.Linear(width, VOCABULARY, bias=False).requires_grad_(tied)
        if tied:
            self.embedding.weight = self.head.weight

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, use_cache: bool
    ) -> SimpleNamespace:
        hidden = self.embedding(input_ids)
        return SimpleNamespace(logits=self.head(torch.tanh(hidden + self.part(hidden))))


class Twice(nn.Module):
    """One layer used twice, and a second layer that shares its weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.second = nn.Linear(6, 6, bias=False)
        self.second.weight = self.first.weight

    def forward(self, hidden: Tensor) -> Tensor:
        return self.second(self.first(torch.relu(self.first(hidden))))


class Unused(nn.Module):
    """A layer that the forward never calls."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, hidden: Tensor) -> Tensor:
        return self.used(hidden)


def frozen_weight() -> nn.Module:
    layer = nn.Linear(6, 6)
    layer.weight.requires_grad_(False)
    return layer


PARTS: dict[str, Callable[[], nn.Module]] = {
    "weight and bias": lambda: nn.Linear(6, 6),
    "no bias": lambda: nn.Linear(6, 6, bias=False),
    "frozen weight, trainable bias": frozen_weight,
    "used twice and tied": Twice,
    "unused": Unused,
}
ANY_MODULE: dict[str, Callable[[], nn.Module]] = {
    "norm": lambda: nn.LayerNorm(6),
    "linear between norms": lambda: nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 6), nn.RMSNorm(6)),
}
