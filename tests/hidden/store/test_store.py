"""The store: nothing clean is kept, noise is fresh, searches by hand, and the file of a store."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from insular.errors import EvidenceError, InvalidArgumentError, MissingDependencyError
from insular.hidden.matrices.spectral import isotropic_matrix
from insular.hidden.mechanisms import GaussianRelease, Isotropic
from insular.hidden.store import index as store_index
from insular.hidden.store.file import load_store, save_store
from insular.hidden.store.hidden_store import HiddenStore
from insular.hidden.store.index import INDEX_KINDS, IndexKind, NumpyIndex


def release(deviation: float, size: int = 8) -> GaussianRelease:
    return GaussianRelease(
        mechanism=Isotropic(), budget_nats=1.0, covariance=isotropic_matrix(size, deviation**2)
    )


def states(n: int = 40, size: int = 8) -> torch.Tensor:
    return torch.randn((n, size), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("index", INDEX_KINDS)
def test_nearest_by_hand(index: IndexKind) -> None:
    store = HiddenStore(hidden_size=1, index=index)
    store.write(["a", "b"], torch.tensor([[0.0], [10.0]]))
    assert store.search(torch.tensor([[6.0]]), k=1) == [("b",)]
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
    with pytest.raises((InvalidArgumentError, TypeError), match="index"):
        HiddenStore(hidden_size=8, index="annoy")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("massive", [1.0, 3e4])
def test_faiss_finds_what_numpy_finds(massive: float) -> None:
    rows = states(300)
    rows[:, 3] += massive  # one common large coordinate drowns squares in float32
    found = []
    for index in INDEX_KINDS:
        store = HiddenStore(hidden_size=8, release=release(0.5), seed=3, index=index)
        store.write([str(i) for i in range(200)], rows[:200])
        store.search(rows[:1], k=1)
        store.write([str(i) for i in range(200, 300)], rows[200:])
        found.append(store.search(rows, k=5))
    assert found[0] == found[1]


@given(seed=st.integers(0, 10**6), k=st.integers(1, 12), tile=st.sampled_from([1, 40, 10**6]))
def test_a_search_in_blocks_is_a_stable_sort_of_all_distances(seed: int, k: int, tile: int) -> None:
    draw = np.random.default_rng(seed)
    rows = draw.integers(-1, 2, (12, 2)).astype(np.float32)  # many are equally near
    wanted = draw.integers(-1, 2, (7, 2)).astype(np.float32)
    index = NumpyIndex(2)
    index.add(rows[:5])
    index.add(rows[5:])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_index, "_TILE", tile)
        found = index.search(wanted, k)
    apart = ((wanted[:, None] - rows[None]) ** 2).sum(2)
    assert np.array_equal(found, np.argsort(apart, axis=1, kind="stable")[:, :k])


def test_a_missing_faiss_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingDependencyError, match=r"insular\[faiss\]"):
        HiddenStore(hidden_size=8, index="faiss")


@pytest.mark.parametrize("storage", ["float32", "int8"])
def test_a_search_finds_what_it_found_before_the_store_was_saved(
    tmp_path: Path, storage: str
) -> None:
    file, ids = tmp_path / "store.safetensors", [f"note {i} \u00e9" for i in range(40)]
    store = HiddenStore(hidden_size=8, release=release(0.5), storage=storage)  # pyright: ignore[reportArgumentType]
    store.write(ids, states())
    save_store(store, file)
    again = load_store(file, release=release(0.5), index="faiss")
    assert again.ids == tuple(ids) and again.storage == storage
    assert np.array_equal(again.rows, store.rows)
    assert again.search(states(), k=5) == store.search(states(), k=5)
    again.write(["new"], states(1))
    assert not np.allclose(again.rows[-1], states(1).numpy())  # released, as all before it


def test_another_release_than_that_of_the_rows_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "store.safetensors"
    store = HiddenStore(hidden_size=8, release=release(0.5))
    store.write(["a"], states(1))
    save_store(store, file)
    for wrong, words in ((None, "none"), (release(0.4), "another one")):
        with pytest.raises(InvalidArgumentError, match=words):
            load_store(file, release=wrong)


def test_a_store_that_was_changed_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "store.safetensors"
    store = HiddenStore(hidden_size=8)
    store.write(["first", "other"], states(2))
    save_store(store, file)
    whole = file.read_bytes()
    for changed in (whole.replace(b"first", b"worst"), whole[:-1] + bytes([whole[-1] ^ 1])):
        file.write_bytes(changed)
        with pytest.raises(EvidenceError, match="changed"):
            load_store(file)
    for broken in (b"", b"no store", whole[:-4]):
        file.write_bytes(broken)
        with pytest.raises(EvidenceError, match="save_store"):
            load_store(file)
