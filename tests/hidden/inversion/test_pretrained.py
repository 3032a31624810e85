"""Exact inversion of SmolLM2, with the states of some tokens only, so that it takes seconds."""

import pytest
import torch

from insular.hidden.inversion.prefix import PrefixRunner
from insular.hidden.inversion.search import invert_states
from insular.hidden.inversion.token_ranking import TokenRanking
from insular.hidden.inversion.token_table import TokenTable
from insular.hidden.inversion.views import make_view, ranking_covariance
from insular.hidden.matrices.spectral import isotropic_matrix
from insular.hidden.mechanisms import GaussianRelease, Isotropic
from insular.hidden.states.forward import SplitDecoder
from insular.hidden.states.storage import Storage
from insular.models.loading import Decoder, load_decoder
from insular.records.batches import collate
from insular.records.tokens import TokenisedRecord

LAYER = 1
TEXTS = (
    "The committee met in Geneva, and it did not agree on the second of the two proposals.",
    "Le train pour Lyon part à huit heures du matin, mais il n'y a plus de places.",
    "def add(first, second):\n    return first + second  # both are numbers",
)


@pytest.fixture(scope="module")
def decoder() -> Decoder:
    return load_decoder("smollm2")


@pytest.fixture(scope="module")
def split(decoder: Decoder) -> SplitDecoder:
    return SplitDecoder(decoder.model)


def record(decoder: Decoder, text: str) -> TokenisedRecord:
    return TokenisedRecord(id=text[:3], owner="a", tokens=tuple(decoder.encode(text)[:16]))


@pytest.fixture(scope="module")
def table(decoder: Decoder, split: SplitDecoder) -> TokenTable:
    """States of every 32nd token and of the texts' own; the others are far from any state."""
    runner = PrefixRunner(split, layer=LAYER)
    used = {token for text in TEXTS for token in record(decoder, text).tokens}
    tokens = torch.tensor(sorted(used | set(range(0, 49_152, 32))))
    neutral = runner.start(torch.tensor([decoder.encode("It was said in the report that")]))
    found = []
    for prefix in (runner.empty(), neutral):
        rows = torch.full((49_152, 576), 1e3)
        rows[tokens] = runner.continued(prefix, torch.zeros_like(tokens), tokens).states
        found.append(rows)
    return TokenTable(
        layer=LAYER,
        first=found[0],
        table=found[1],
        shift=torch.zeros(576, dtype=torch.float64),
        covariance=torch.eye(576, dtype=torch.float64),
        influence=torch.zeros((576, 576), dtype=torch.float64),
        centre=torch.zeros(576, dtype=torch.float64),
        uninfluenced=torch.eye(576, dtype=torch.float64),
        rounding=1e-6,
        key="",
    )


@pytest.mark.pretrained
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_prompts_of_several_languages_are_read(
    decoder: Decoder, split: SplitDecoder, table: TokenTable, precision: str
) -> None:
    ranking = None
    for text in TEXTS:
        one = record(decoder, text)
        batch = collate([one], pad_token_id=0)
        states = split.states(batch, layers=[LAYER])[LAYER][0]
        stored = Storage(format=precision).store(states)  # pyright: ignore[reportArgumentType]
        view = make_view(stored, rounding=table.rounding)
        if ranking is None:
            ranking = TokenRanking(table, added=ranking_covariance(view))
        found = invert_states(split, view, ranking=ranking, truth=one.tokens)
        assert found.tokens == one.tokens
        assert found.certain


@pytest.mark.pretrained
def test_noise_is_seen_through_where_margins_are_wide(
    decoder: Decoder, split: SplitDecoder, table: TokenTable
) -> None:
    one = record(decoder, TEXTS[0])
    release = GaussianRelease(
        mechanism=Isotropic(), budget_nats=1.0, covariance=isotropic_matrix(576, 0.25)
    )
    states = split.states(collate([one], pad_token_id=0), layers=[LAYER])[LAYER][0]
    noisy = release.sample(states, generator=torch.Generator().manual_seed(0)).float()
    view = make_view(Storage().store(noisy), rounding=table.rounding, release=release)
    ranking = TokenRanking(table, added=ranking_covariance(view))
    assert invert_states(split, view, ranking=ranking).tokens == one.tokens
