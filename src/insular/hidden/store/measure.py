"""What a mechanism and a storage format cost a vector index, and what the index still tells."""

from collections import defaultdict
from collections.abc import Hashable, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from insular import _check
from insular.errors import InvalidArgumentError
from insular.hidden.matrices.rows import checked_rows
from insular.hidden.mechanisms import Release
from insular.hidden.states.storage import state_bytes
from insular.hidden.states.storage_spec import StorageFormat
from insular.hidden.store.attack import attack_store
from insular.hidden.store.hidden_store import HiddenStore
from insular.hidden.store.index import IndexKind
from insular.hidden.store.results import StoreResult
from insular.hidden.utility.intervals import mean_interval

_AS_NEAR = 1e-6
"""Squared distances within this share are equal: float32 tells no more."""


def measure_store(
    states: Float[Tensor, "record hidden"],
    *,
    release: Release | None,
    storage: StorageFormat = "float32",
    index: IndexKind = "numpy",
    queries: int = 200,
    k: int = 10,
    identities: Sequence[Hashable] | None = None,
    seed: int = 0,
    significance: float = 0.05,
) -> StoreResult:
    """Write states once with and once without the mechanism: search quality and attack.

    The first states are searched with, clean; each looks for its k nearest others. Their kept rows
    are attacked: who knows the clean states of all rows says whose each of them is.

    Guarantees:
        * Recall and attack are measured on one and the same index.
        * Without a mechanism and in float32 nothing is lost, and all distinct states are told.
        * Recall is never above 1: a copy of a neighbour is found as that neighbour, and of rows
          that became the same, each counts with its chance to be returned.
        * Without noise, the order of the states that are no queries changes no share.

    Args:
        states: Clean states, 3 or more.
        release: The mechanism; None for clean states.
        storage: Format of what is kept.
        index: Kind of the index.
        queries: States that are searched with and attacked, the first ones; fewer where there are
            fewer.
        k: Neighbours of a search.
        identities: What tells prompts apart, such as digests of their text; by default the states.
        seed: Of the noise and the intervals.
        significance: Error probability of each interval.

    Returns:
        What was lost and what was told.

    Raises:
        InvalidArgumentError: If there are too few states for so many neighbours.
    """
    rows = checked_rows(states, name="states")
    _check.at_least(1, k=k)
    _check.at_least(2, queries=queries)
    if len(rows) < max(3, k + 1):
        raise InvalidArgumentError(
            f"states must be at least {max(3, k + 1)} for k={k} other neighbours, got {len(rows)};"
            " give more states or a smaller --k."
        )
    ids, size = [str(row) for row in range(len(rows))], rows.shape[1]
    clean = HiddenStore(hidden_size=size, index=index)
    clean.write(ids, rows)
    store = HiddenStore(hidden_size=size, release=release, storage=storage, seed=seed, index=index)
    store.write(ids, rows)
    wanted = rows[:queries]
    shares = _recall(rows, wanted, _others(clean, wanted, k), _others(store, wanted, k), store.rows)
    attacks, copies = attack_store(
        torch.tensor(store.rows[:queries]),
        rows,
        release=release,
        storage=storage,
        identities=identities,
        significance=significance,
    )
    return StoreResult(
        mechanism="none" if release is None else release.mechanism.kind,
        budget_nats=None if release is None else release.budget_nats,
        storage=storage,
        index=index,
        k=k,
        n_states=len(rows),
        n_duplicates=copies,
        state_bytes=state_bytes(storage, hidden_size=size),
        recall=mean_interval(shares, significance=significance, seed=seed),
        attacks=attacks,
        seed=seed,
    )


def _others(store: HiddenStore, wanted: Tensor, k: int) -> np.ndarray:
    """Places of the k nearest kept rows of each state, its own left out."""
    found = store.search(wanted, k=k + 1)
    return np.array(
        [[int(row) for row in line if row != str(own)][:k] for own, line in enumerate(found)]
    )


def _recall(
    states: Tensor, wanted: Tensor, clean: np.ndarray, found: np.ndarray, kept: np.ndarray
) -> np.ndarray:
    """For each query the share of found rows that are as near, clean, as a clean neighbour."""
    limit = _apart(states, wanted, clean).max(1) * (1 + _AS_NEAR)
    hits = (_apart(states, wanted, found) <= limit[:, None]).astype(np.float64)
    same = _same_rows(kept)
    for query, line in enumerate(found):
        # which of the rows that are the same as the last one come first is the order of writing
        group = [row for row in same.get(int(line[-1]), ()) if row != query]
        returned = np.isin(line, group)
        if returned.sum() < len(group):
            near = _apart(states, wanted[query : query + 1], np.array([group]))[0] <= limit[query]
            hits[query, returned] = near.mean()
    return hits.mean(1)


def _apart(states: Tensor, wanted: Tensor, places: np.ndarray) -> np.ndarray:
    """Squared clean distances between each query and its rows."""
    found = [
        (states[torch.from_numpy(line)] - query).square().sum(1)
        for query, line in zip(wanted, places, strict=True)
    ]
    return torch.stack(found).numpy()


def _same_rows(kept: np.ndarray) -> dict[int, list[int]]:
    """For each row that is kept more than once, all places where it is."""
    places: defaultdict[bytes, list[int]] = defaultdict(list)
    for at, row in enumerate(kept + 0.0):  # + 0.0: no negative zeros
        places[row.tobytes()].append(at)
    return {at: group for group in places.values() if len(group) > 1 for at in group}
