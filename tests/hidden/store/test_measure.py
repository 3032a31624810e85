"""What a store loses and tells: by hand, with copies, in any order, and by attackers who know."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from insular.errors import InvalidArgumentError
from insular.hidden.matrices.covariance import DiagonalMatrix
from insular.hidden.mechanisms import (
    Dropout,
    DropoutRelease,
    GaussianRelease,
    Isotropic,
    QuantizedRelease,
    UniformQuantization,
)
from insular.hidden.states.storage import round_states, state_bytes
from insular.hidden.states.storage_spec import STORAGE_FORMATS
from insular.hidden.store.cells import _costs, cell_ranks
from insular.hidden.store.index import INDEX_KINDS, IndexKind
from insular.hidden.store.measure import measure_store
from insular.hidden.store.results import StoreResult

from .test_store import release, states


def top1(result: StoreResult) -> dict[str, float]:
    return {attack.attacker: attack.top1.mean for attack in result.attacks}


@pytest.mark.parametrize("index", INDEX_KINDS)
def test_clean_float32_loses_nothing_and_tells_everything(index: IndexKind) -> None:
    found = measure_store(states(), release=None, index=index)
    assert found.recall_lost == 0 and found.index == index
    assert top1(found) == {"plain": 1.0, "aware": 1.0}
    assert (found.n_candidates, found.n_duplicates, found.state_bytes) == (40, 0, 32)


def test_more_noise_costs_recall_and_tells_less() -> None:
    weak = measure_store(states(), release=release(0.01))
    strong = measure_store(states(), release=release(100.0))
    assert weak.recall_lost < 0.2
    assert weak.attack_top1.mean == 1
    assert strong.recall_lost > 0.5
    assert strong.attack_top1.mean <= 0.25  # binomial(40, 1/40): more with less than 1e-7


def test_recall_by_hand_without_the_state_that_is_searched_with() -> None:
    # on a line; int4 keeps multiples of 1/7 of each state's own largest number, here 7
    rows = torch.tensor([[7.0, 0.0], [7.0, 1.0], [7.0, 2.4], [7.0, 3.6]])
    found = measure_store(rows, release=None, storage="int4", k=1, queries=4)
    # kept as 0, 1, 2, 4: the nearest others are 1; 0 or 2 (2 is right for no clean one); 1; 2
    # clean: 1; 0; 3 (1.2 away); 2. So the third query misses, and the second finds 0, kept first
    assert found.recall.mean == pytest.approx(3 / 4)


def test_copies_tie_and_each_is_credited_with_the_texts_they_share() -> None:
    # identical texts have identical vectors, others are orthogonal
    cat, hello, dog = torch.eye(3).unbind()
    rows = torch.stack([cat, hello, dog, hello])
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [1, 0, 3, 2]):
        found = measure_store(rows[order], release=None, k=1, queries=4)
        assert top1(found) == {"plain": 1.0, "aware": 1.0}
        assert found.recall.mean == 1.0
        assert (found.n_states, found.n_duplicates, found.n_candidates) == (4, 1, 3)
        assert [attack.n_tied for attack in found.attacks] == [0, 0]


def test_states_of_one_identity_are_one_candidate_even_if_rounding_moved_one() -> None:
    rows = states(20)
    rows[7] = rows[3] * (1 + 1e-7)
    names = [str(i) for i in range(20)]
    names[7] = names[3]
    found = measure_store(rows, release=None, storage="int8", identities=names)
    assert found.n_duplicates == 1
    assert top1(found)["aware"] == 1.0


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), storage=st.sampled_from(["float32", "int8", "int4"]))
def test_the_order_of_other_states_changes_no_share_and_recall_is_never_above_1(
    seed: int, storage: Any
) -> None:
    draw = torch.Generator().manual_seed(seed)
    rows = torch.randn((30, 4), generator=draw)
    rows[15:20] = rows[5:10]  # copies
    rows[20:26] = rows[0] * torch.tensor([1.0, 1.0, 1.01, 0.99])  # the same in few bits
    order = torch.cat([torch.arange(6), 6 + torch.randperm(24, generator=draw)])
    found, other = (
        measure_store(each, release=None, storage=storage, k=5, queries=6)
        for each in (rows, rows[order])
    )
    assert top1(found) == pytest.approx(top1(other))
    assert found.n_duplicates == other.n_duplicates == 10
    assert found.recall.mean == pytest.approx(other.recall.mean)
    assert 0 <= found.recall.mean <= 1


def test_rows_that_became_the_same_count_with_their_chance() -> None:
    rows = torch.zeros(5, 2)
    rows[:, 0], rows[:, 1] = 70.0, torch.tensor([0.0, 1.0, 2.0, 3.5, 4.9])  # int4: steps of 10
    found = measure_store(rows, release=None, storage="int4", k=1, queries=5)
    # all are kept as (70, 0): one of four others comes first, and 1, 2, 1, 1, 1 of them are right
    assert found.recall.mean == pytest.approx((1 + 2 + 1 + 1 + 1) / 4 / 5)
    assert top1(found)["aware"] == pytest.approx(1 / 5)
    assert found.attacks[1].n_tied == 5


def test_who_knows_the_storage_tells_rows_that_distances_do_not() -> None:
    rows = states(200, 16)
    rows[:, 0] += 700  # a massive coordinate leaves few bits to the others
    found = measure_store(rows, release=None, storage="int8")
    assert found.recall_lost > 0.1
    assert top1(found)["aware"] > 0.95 > 0.5 > top1(found)["plain"]
    noisy = measure_store(rows, release=release(0.3, 16), storage="int8")
    assert top1(noisy)["cells"] > top1(noisy)["aware"]
    assert noisy.best_attack.attacker == "cells"


def test_who_knows_the_grid_or_what_was_dropped_tells_all() -> None:
    rows = states(100, 16)
    grid = QuantizedRelease(
        mechanism=UniformQuantization(), budget_nats=1.0, steps=torch.full((16,), 2.5).double()
    )
    dropped = DropoutRelease(
        mechanism=Dropout(),
        budget_nats=1.0,
        mean_square=torch.ones(16).double(),
        odds=torch.tensor(1.0).double(),
    )
    for mechanism in (grid, dropped):
        for storage in ("float32", "int8"):
            found = measure_store(rows, release=mechanism, storage=storage)
            assert top1(found)["aware"] > 0.95
            assert set(top1(found)) == {"plain", "aware"}
    assert top1(measure_store(rows, release=grid))["plain"] < 0.95


def test_noise_in_some_directions_alone_hides_nothing_even_in_few_bits() -> None:
    variances = torch.zeros(16).double()
    variances[:10] = 100.0
    flat = GaussianRelease(
        mechanism=Isotropic(), budget_nats=1.0, covariance=DiagonalMatrix(variances=variances)
    )
    for storage in ("float32", "bf16"):
        found = measure_store(states(100, 16), release=flat, storage=storage)
        assert found.attack_top1.mean > 0.9 > top1(found)["plain"]


def test_noise_and_rounding_count_together() -> None:
    rows = states(200, 16)
    rows[:, 8:] *= 0.1  # int4 rounds these to 0 in most rows, and the noise alone would not
    variances = torch.full((16,), 0.01).double()
    variances[8:] = 1e-8
    fine = GaussianRelease(
        mechanism=Isotropic(), budget_nats=1.0, covariance=DiagonalMatrix(variances=variances)
    )
    assert top1(measure_store(rows, release=fine, storage="int4"))["aware"] > 0.9


def test_first_is_who_is_first_when_every_coordinate_is_compared() -> None:
    draw = torch.Generator().manual_seed(1)
    clean = torch.randn((60, 200), generator=draw).double()
    clean[40] = clean[41]
    noisy = clean + 4.0 * torch.randn((60, 200), generator=draw).double()
    kept, half = round_states(noisy.float(), "int4")
    variances = torch.full((200,), 16.0).double()
    found = cell_ranks(kept, clean, torch.arange(60), variances=variances, storage="int4")
    first, tied = [], []
    for row in range(60):
        cell = half[row].double()
        cell[kept[row].abs() == kept[row].abs().max()] = 0
        weight = 1 / (16 + cell.clamp(max=4).square() / 3)
        cost = _costs(clean, kept[row].double(), (cell - 4).clamp(min=0), weight).sum(1)
        first.append(int(cost[row] <= cost.min() * (1 + 1e-9)))
        tied.append(int((cost <= cost[row] * (1 + 1e-9)).sum()) - 1 if first[-1] else 0)
    assert found.first.tolist() == first and found.n_tied.tolist() == tied
    assert 5 < sum(first) < 55  # neither trivial nor hopeless
    assert sum(tied) > 0


def test_bytes_of_a_state() -> None:
    assert [state_bytes(one, hidden_size=9) for one in STORAGE_FORMATS] == [36, 18, 13, 9]


def test_too_few_states_are_named() -> None:
    with pytest.raises(InvalidArgumentError, match="at least 11 for k=10"):
        measure_store(states(10), release=None)
    with pytest.raises(InvalidArgumentError, match="k must be"):
        measure_store(states(), release=None, k=0)
