"""Exact inversion: it reads what is there, says what it is not sure of, and backs out of errors."""

from dataclasses import replace

import pytest
import torch

from hidden.inversion.samples import (
    random_records,
    ranking_for,
    split,
    table,
    trajectory,
    view_of,
)
from insular.errors import InvalidArgumentError
from insular.hidden.inversion.search import InvertedPrompt, invert_states
from insular.hidden.inversion.spec import InversionSpec
from insular.hidden.inversion.token_ranking import TokenRanking
from insular.hidden.inversion.token_table import build_token_tables
from insular.hidden.inversion.views import ExactView, View, make_view
from insular.hidden.matrices.covariance import DiagonalMatrix
from insular.hidden.matrices.spectral import SpectralMatrix, isotropic_matrix
from insular.hidden.mechanisms import Dropout, GaussianRelease, Isotropic
from insular.hidden.mechanisms.coarse import DropoutRelease, QuantizedRelease, UniformQuantization
from insular.hidden.states.forward import SplitDecoder
from insular.hidden.states.storage import Storage
from insular.records.batches import collate
from insular.records.tokens import TokenisedRecord
from models.families import tiny

RECORD = random_records(1, 12, seed=7)[0]


def inverted(
    view: View, record: TokenisedRecord = RECORD, *, spec: InversionSpec | None = None
) -> InvertedPrompt:
    return invert_states(split(), view, ranking=ranking_for(view), spec=spec, truth=record.tokens)


@pytest.mark.parametrize("family", ["llama", "gpt2", "opt", "gpt_neox", "qwen2", "phi"])
@pytest.mark.parametrize("layer", [0, 1])
def test_clean_states_are_read_exactly(family: str, layer: int) -> None:
    for record in random_records(2, 10, seed=3):
        states = trajectory(record, family=family, layer=layer)
        view = view_of(states)
        found = invert_states(
            split(family),
            view,
            ranking=ranking_for(view, family=family, layer=layer),
            truth=record.tokens,
        )
        assert found.tokens == record.tokens
        assert found.certain


def test_the_truth_is_used_to_rank_it_and_for_nothing_else() -> None:
    view = view_of(trajectory(RECORD))
    known = inverted(view)
    blind = invert_states(split(), view, ranking=ranking_for(view))
    assert blind.tokens == known.tokens
    assert blind.tried == known.tried
    assert blind.ranks == (None,) * 12
    assert known.ranks[0] == 1


@pytest.mark.parametrize("precision", ["bf16", "int8", "int4"])
def test_coarse_storage_is_read_too(precision: str) -> None:
    found = inverted(view_of(trajectory(RECORD), storage=Storage(format=precision)))  # pyright: ignore[reportArgumentType]
    assert found.tokens == RECORD.tokens


def test_tokens_in_one_coarse_cell_are_all_tried_and_none_is_called_certain() -> None:
    # one massive coordinate, so that int4 leaves nothing of the others
    states = trajectory(RECORD).clone()
    states[:, 0] = 1e4
    stored = Storage(format="int4").store(states)
    view = ExactView(
        values=stored.values,
        half_cells=stored.half_cells.index_fill(1, torch.tensor([0]), 1e4),
        observed=stored.kept,
        rounding=table().rounding,
    )
    found = inverted(view)
    assert found.tried[0] == 64
    assert set(found.statuses) == {"ambiguous"}


def test_skipped_positions_are_found_by_what_follows_and_the_last_is_not_claimed() -> None:
    found = inverted(view_of(trajectory(RECORD), storage=Storage(every=2)))
    assert found.tokens[:11] == RECORD.tokens[:11]
    assert found.statuses == ("accepted",) * 11 + ("unobserved",)
    assert found.tried[1] == 0
    assert found.ranks[1] is None


def test_a_token_without_a_state_is_found_however_unlikely_the_model_thinks_it() -> None:
    # a beam of one keeps the model's favourite, which random tokens hardly ever are
    spec = InversionSpec(gap_beam=1)
    view = view_of(trajectory(RECORD), storage=Storage(every=2))
    found = inverted(view, spec=spec)
    assert found.tokens[:11] == RECORD.tokens[:11]
    assert found.statuses == ("accepted",) * 11 + ("unobserved",)
    assert found.opened > 0
    blind = inverted(view, spec=replace(spec, max_candidates=2, lookback_tokens=0))
    assert blind.tokens[:11] != RECORD.tokens[:11]
    assert not blind.certain


def test_a_gap_is_bridged_without_the_language_model_too() -> None:
    view = view_of(trajectory(RECORD), storage=Storage(every=2))
    assert (
        inverted(view, spec=InversionSpec(prior="never", gap_beam=1)).tokens[:11]
        == (RECORD.tokens[:11])
    )


def test_two_positions_without_a_state_are_bridged_where_the_beam_holds_the_first() -> None:
    found = inverted(view_of(trajectory(RECORD), storage=Storage(every=3)))
    assert found.tokens[:10] == RECORD.tokens[:10]


def test_padded_batched_and_cached_states_are_read() -> None:
    others = random_records(3, 20, seed=2)
    for side in ("left", "right"):
        batch = collate([RECORD, *others], pad_token_id=0, padding_side=side)
        states = split().states(batch, layers=[1])[1][0][batch.attention_mask[0]]
        assert inverted(view_of(states)).tokens == RECORD.tokens
    alone = collate([RECORD], pad_token_id=0)
    cached = split().states_by_token(alone, layers=[1])[1][0]
    assert inverted(view_of(cached)).tokens == RECORD.tokens


def test_a_wrong_choice_is_opened_again() -> None:
    view = view_of(planted_wrong_choice())
    found = inverted(view)
    assert found.tokens == RECORD.tokens
    assert found.opened > 0
    assert found.statuses[5] == "doubtful"  # the state there is not the truth's
    assert found.statuses.count("accepted") == 11


def test_what_fits_nothing_is_never_carried_silently() -> None:
    found = inverted(view_of(planted_wrong_choice()), spec=InversionSpec(lookback_tokens=0))
    assert found.tokens[5] != RECORD.tokens[5]
    assert "doubtful" in found.statuses[6:]
    assert not found.certain
    noise = torch.randn((6, 32), generator=torch.Generator().manual_seed(0))
    assert not inverted(view_of(noise), random_records(1, 6)[0]).certain


class MassiveStart(View):
    """States are near each other at the first two positions, as where one coordinate is massive."""

    def __init__(self, exact: View) -> None:
        self._exact = exact
        self.values, self.observed, self.noisy = exact.values, exact.observed, False

    def distances(self, position: int, states: torch.Tensor) -> torch.Tensor:
        return self._exact.distances(position, states) * {0: 1e-3, 1: 0.02}.get(position, 1.0)

    def scores(self, distances: torch.Tensor) -> torch.Tensor:
        return self._exact.scores(distances)

    def fits(self, distance: float, seen: list[float]) -> bool:
        return self._exact.fits(distance, seen)


def test_a_wrong_choice_does_not_excuse_a_misfit_after_it() -> None:
    states = trajectory(RECORD)[:2].clone()  # nothing after it tells
    off = torch.randn(32, generator=torch.Generator().manual_seed(2))
    states[1] += 0.02 * states[1].norm() * off / off.norm()  # no token's state
    exact = view_of(states)
    spec = InversionSpec(beam=64)
    found = invert_states(split(), MassiveStart(exact), ranking=ranking_for(exact), spec=spec)
    assert found.tokens[0] == RECORD.tokens[0]
    assert found.statuses == ("accepted", "doubtful")


def test_states_that_fit_nothing_are_not_searched_for_ever() -> None:
    noise = torch.randn((12, 32), generator=torch.Generator().manual_seed(0))
    found = inverted(view_of(noise))
    assert set(found.statuses) == {"doubtful"}
    assert max(found.tried[5:]) <= 8 * 16  # hypotheses and tokens of a narrowed step


def test_a_clean_control_opens_nothing() -> None:
    assert inverted(view_of(trajectory(RECORD))).opened == 0


def test_states_of_another_arithmetic_are_read_but_not_called_certain() -> None:
    # every state off by 1e-3 of its length, as another kernel or dtype would leave it
    clean = trajectory(RECORD)
    off = torch.randn(clean.shape, generator=torch.Generator().manual_seed(1))
    states = clean + 1e-3 * off * clean.norm(dim=1, keepdim=True) / off.norm(dim=1, keepdim=True)
    found = inverted(view_of(states))
    assert found.tokens == RECORD.tokens
    assert found.statuses[0] == "doubtful"
    assert set(found.statuses[1:]) == {"accepted"}


def gaussian(deviation: float) -> GaussianRelease:
    return GaussianRelease(
        mechanism=Isotropic(), budget_nats=1.0, covariance=isotropic_matrix(32, deviation**2)
    )


def released(release: GaussianRelease | QuantizedRelease | DropoutRelease) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    return release.sample(trajectory(RECORD).double(), generator=generator).float()


def test_noise_below_the_margins_is_seen_through() -> None:
    release = gaussian(0.02)
    view = view_of(released(release), release=release)
    assert inverted(view).tokens == RECORD.tokens


def test_noise_above_all_margins_hides_and_is_not_called_certain() -> None:
    # states are about 2 long, noise about 560: every token is as likely as any other
    release = gaussian(100.0)
    found = inverted(view_of(released(release), release=release))
    right = sum(a == b for a, b in zip(found.tokens, RECORD.tokens, strict=True))
    assert right <= 4  # binomial(12, 1/64): more with a probability of 6e-7
    assert "ambiguous" in found.statuses
    assert not found.certain


def test_singular_noise_is_read_through_its_null_space() -> None:
    vectors = torch.eye(32, dtype=torch.float64)[:, :20]
    covariance = SpectralMatrix(
        vectors=vectors, values=torch.full((20,), 1e4, dtype=torch.float64), rest=0.0
    )
    release = GaussianRelease(mechanism=Isotropic(), budget_nats=1.0, covariance=covariance)
    assert inverted(view_of(released(release), release=release)).tokens == RECORD.tokens


def test_diagonal_noise_with_coarse_storage() -> None:
    variances = torch.linspace(1e-5, 1e-3, 32, dtype=torch.float64)
    release = GaussianRelease(
        mechanism=Isotropic(), budget_nats=1.0, covariance=DiagonalMatrix(variances=variances)
    )
    view = view_of(released(release), storage=Storage(format="int8"), release=release)
    assert inverted(view).tokens == RECORD.tokens


def test_quantised_and_dropped_states_are_read() -> None:
    cells = QuantizedRelease(
        mechanism=UniformQuantization(),
        budget_nats=1.0,
        steps=torch.full((32,), 0.1, dtype=torch.float64),
    )
    assert inverted(view_of(released(cells), release=cells)).tokens == RECORD.tokens
    square = trajectory(RECORD).double().square().mean(0)
    drop = DropoutRelease(
        mechanism=Dropout(),
        budget_nats=1.0,
        mean_square=square,
        odds=torch.tensor(0.25, dtype=torch.float64),
    )
    assert inverted(view_of(released(drop), release=drop)).tokens == RECORD.tokens


def test_sizes_that_do_not_match_are_named() -> None:
    # case hid-05: another size, one dimension, nothing at all
    narrow = view_of(torch.ones(3, 16))
    with pytest.raises(InvalidArgumentError, match=r"32 numbers.*\(3, 16\)"):
        invert_states(split(), narrow, ranking=ranking_for(view_of(trajectory(RECORD))))
    with pytest.raises(InvalidArgumentError, match=r"one row a position.*\(32,\)"):
        view_of(torch.ones(32))
    ranking = ranking_for(view_of(trajectory(RECORD)))
    assert invert_states(split(), view_of(torch.zeros(0, 32)), ranking=ranking).tokens == ()
    with pytest.raises(InvalidArgumentError, match="truth"):
        invert_states(split(), view_of(trajectory(RECORD)), ranking=ranking, truth=[1])


def test_states_of_another_scale_are_never_called_certain() -> None:
    # case hid-05: unnormalised input; the first position is off by a factor, and says so
    found = inverted(view_of(trajectory(RECORD) * 100))
    assert found.statuses[0] == "doubtful"
    assert not found.certain


def test_the_search_ends_when_the_vocabulary_does() -> None:
    noise = torch.randn((3, 32), generator=torch.Generator().manual_seed(0)) * 50
    found = inverted(view_of(noise), random_records(1, 3)[0])
    assert max(found.tried) <= 64 * 64 * 8


def test_the_table_belongs_to_one_layer() -> None:
    assert table(layer=0).layer == 0
    assert table(layer=0).rounding < 1e-4


def planted_wrong_choice() -> torch.Tensor:
    """A trajectory with one state exchanged for that of another token."""
    tokens = list(RECORD.tokens)
    tokens[5] = (tokens[5] + 9) % 64
    states = trajectory(RECORD).clone()
    states[5] = trajectory(replace(RECORD, tokens=tuple(tokens)))[5]
    return states


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize("every", [1, 2])
def test_states_of_a_model_on_cuda_are_read(every: int) -> None:
    cuda = SplitDecoder(tiny("llama").to("cuda"))  # pyright: ignore[reportArgumentType]
    tables = build_token_tables(
        cuda, random_records(20, 24, seed=9), layers=[1], model_digest="tiny"
    )
    batch = collate([RECORD], pad_token_id=0, device=cuda.device)
    states = cuda.states(batch, layers=[1])[1][0]
    stored = Storage(every=every).store(states)
    view = make_view(stored, rounding=tables[1].rounding)
    found = invert_states(cuda, view, ranking=TokenRanking(tables[1]))
    assert found.tokens[:11] == RECORD.tokens[:11]
