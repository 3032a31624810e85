"""The store: nothing clean is kept, noise is fresh, recall and attack against hand-made cases."""

import sys

import numpy as np
import pytest
import torch

from insular.errors import InvalidArgumentError, MissingDependencyError
from insular.hidden.mechanisms import GaussianRelease, Isotropic
from insular.hidden.spectral import isotropic_matrix
from insular.hidden.store import HiddenStore, measure_store


def release(deviation: float, size: int = 8) -> GaussianRelease:
    return GaussianRelease(
        mechanism=Isotropic(), budget_nats=1.0, covariance=isotropic_matrix(size, deviation**2)
    )


def states(n: int = 40, size: int = 8) -> torch.Tensor:
    return torch.randn((n, size), generator=torch.Generator().manual_seed(0))


def test_nearest_by_hand() -> None:
    store = HiddenStore(hidden_size=1)
    store.write(["a", "b"], torch.tensor([[0.0], [10.0]]))
    store.write(["c"], torch.tensor([[4.0]]))
    assert store.search(torch.tensor([[6.0], [9.0]]), k=2) == [("c", "b"), ("b", "c")]
    assert store.search(torch.tensor([[6.0]]), k=9) == [("c", "b", "a")]


def test_only_released_states_enter_and_searching_draws_nothing() -> None:
    store = HiddenStore(hidden_size=8, release=release(1.0), seed=3)
    ids = [str(i) for i in range(40)]
    store.write(ids, states())
    noise = store.rows - states().numpy()
    assert 0.8 < noise.std() < 1.2  # 320 normals: wider than 5 standard errors
    before = store.rows.copy()
    store.search(states(), k=3)
    assert np.array_equal(before, store.rows)


def test_two_writes_never_share_noise() -> None:
    for seed in (3, None):
        store = HiddenStore(hidden_size=8, release=release(1.0), seed=seed)
        store.write(["a"], states(1))
        store.write(["b"], states(1))
        assert not np.allclose(store.rows[0], store.rows[1])


def test_clean_float32_loses_nothing_and_tells_everything() -> None:
    found = measure_store(states(), states(), release=None)
    assert found.recall_lost == 0
    assert found.attack_top1.mean == 1


def test_more_noise_costs_recall_and_tells_less() -> None:
    weak = measure_store(states(), states(), release=release(0.01))
    strong = measure_store(states(), states(), release=release(100.0))
    assert weak.recall_lost < 0.2
    assert weak.attack_top1.mean == 1
    assert strong.recall_lost > 0.5
    assert strong.attack_top1.mean <= 0.25  # binomial(40, 1/40): more with less than 1e-7


def test_storage_is_part_of_what_is_measured() -> None:
    coarse = measure_store(states(), states(), release=None, storage="int4")
    assert coarse.storage == "int4"
    assert coarse.recall_lost > 0


def test_wrong_sizes_are_named_and_nothing_is_a_valid_write() -> None:
    store = HiddenStore(hidden_size=8)
    store.write([], states(0))
    assert store.search(states(2), k=1) == [(), ()]
    with pytest.raises(InvalidArgumentError, match="8 numbers"):
        store.write(["a"], torch.ones(1, 7))
    with pytest.raises(InvalidArgumentError, match="8 numbers"):
        store.search(torch.ones(8), k=1)
    with pytest.raises(InvalidArgumentError, match="one a state"):
        store.write(["a"], states(2))
    with pytest.raises(InvalidArgumentError, match="mechanism's 8"):
        HiddenStore(hidden_size=9, release=release(1.0))


def test_faiss_finds_what_numpy_finds() -> None:
    found = []
    for index in ("numpy", "faiss"):
        store = HiddenStore(hidden_size=8, release=release(0.5), seed=3, index=index)
        store.write([str(i) for i in range(40)], states())
        found.append(store.search(states(), k=5))
    assert found[0] == found[1]


def test_a_missing_faiss_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingDependencyError, match=r"insular\[faiss\]"):
        HiddenStore(hidden_size=8, index="faiss")
