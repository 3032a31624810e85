"""A tiny decoder, its token table and trajectories, for the inversion tests."""

from functools import cache

import torch
from torch import Tensor

from insular.hidden.inversion.token_ranking import TokenRanking
from insular.hidden.inversion.token_table import TokenTable, build_token_tables
from insular.hidden.inversion.views import View, make_view, ranking_covariance
from insular.hidden.mechanisms import Release
from insular.hidden.states.forward import SplitDecoder
from insular.hidden.states.storage import Storage
from insular.records.batches import collate
from insular.records.tokens import TokenisedRecord
from models.families import VOCABULARY, tiny


def random_records(n: int, length: int, *, seed: int = 0) -> list[TokenisedRecord]:
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randint(0, VOCABULARY, (n, length), generator=generator).tolist()
    return [
        TokenisedRecord(id=f"r{seed}-{i}", owner=f"r{seed}-{i}", tokens=tuple(row))
        for i, row in enumerate(rows)
    ]


@cache
def split(family: str = "llama") -> SplitDecoder:
    return SplitDecoder(tiny(family))


@cache
def table(family: str = "llama", layer: int = 1) -> TokenTable:
    built = build_token_tables(
        split(family), random_records(20, 24, seed=9), layers=[layer], model_digest="tiny"
    )
    return built[layer]


def trajectory(record: TokenisedRecord, *, family: str = "llama", layer: int = 1) -> Tensor:
    batch = collate([record], pad_token_id=0)
    return split(family).states(batch, layers=[layer])[layer][0]


def view_of(
    states: Tensor, *, storage: Storage | None = None, release: Release | None = None
) -> View:
    stored = (storage or Storage()).store(states)
    return make_view(stored, rounding=table().rounding, release=release)


def ranking_for(view: View, *, family: str = "llama", layer: int = 1) -> TokenRanking:
    return TokenRanking(table(family, layer), added=ranking_covariance(view))
