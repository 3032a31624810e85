"""A vector index that releases states by a mechanism as they are written, and what it costs."""

from collections.abc import Sequence
from typing import Any, Literal, final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from insular import _check
from insular.errors import InvalidArgumentError, MissingDependencyError
from insular.hidden.draws import SecureDraws
from insular.hidden.intervals import mean_interval
from insular.hidden.inversion_results import StoreResult
from insular.hidden.mechanisms import Release
from insular.hidden.storage import round_states
from insular.hidden.storage_spec import STORAGE_FORMATS, StorageFormat

IndexKind = Literal["numpy", "faiss"]


@final
class HiddenStore:
    """States by id, searchable by Euclidean distance; only released states ever enter.

    Guarantees:
        * Without a seed the noise is drawn from a secure stream, and no two writes share it.
        * A state is released once, when it is written: reading or searching draws nothing.
        * What is kept is what the storage format leaves of the released state.

    Args:
        hidden_size: Numbers in a state.
        release: Fitted mechanism; None keeps the states as they are.
        storage: Format of what is kept.
        seed: Of the noise, for measurements; None for noise that protects.
        index: ``numpy``, or ``faiss`` where that is installed.

    Raises:
        InvalidArgumentError: If the mechanism is for another size.
        MissingDependencyError: If faiss is asked for and absent.
    """

    def __init__(
        self,
        *,
        hidden_size: int,
        release: Release | None = None,
        storage: StorageFormat = "float32",
        seed: int | None = None,
        index: IndexKind = "numpy",
    ) -> None:
        _check.at_least(1, hidden_size=hidden_size)
        _check.one_of(STORAGE_FORMATS, storage=storage)
        _check.one_of(("numpy", "faiss"), index=index)
        if release is not None and release.hidden_size != hidden_size:
            raise InvalidArgumentError(
                f"hidden_size must be the mechanism's {release.hidden_size}, got "
                f"hidden_size={hidden_size}."
            )
        self.release = release
        self.storage: StorageFormat = storage
        self._size = hidden_size
        self._draws: Any = SecureDraws() if seed is None else torch.Generator().manual_seed(seed)
        self._ids: list[str] = []
        self._parts: list[np.ndarray] = []
        self._faiss = _faiss_index(hidden_size) if index == "faiss" else None

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids in the order of writing."""
        return tuple(self._ids)

    @property
    def rows(self) -> np.ndarray:
        """What is kept, one row an id: all that whoever reads the index sees."""
        if len(self._parts) != 1:
            self._parts = [np.concatenate([np.empty((0, self._size), np.float32), *self._parts])]
        return self._parts[0]

    def write(self, ids: Sequence[str], states: Tensor) -> None:
        """Release states and keep what the storage leaves of them.

        Args:
            ids: One a state.
            states: Clean states; they are not kept.

        Raises:
            InvalidArgumentError: If sizes do not match or a number is not finite.
        """
        self._check_rows(states, "states")
        if len(ids) != len(states):
            raise InvalidArgumentError(
                f"ids must be one a state, got {len(ids)} for {len(states)} states."
            )
        if not len(ids):
            return
        given = states
        if self.release is not None:
            given = self.release.sample(states, generator=self._draws)
        kept = round_states(given.float(), self.storage)[0].cpu().numpy()
        self._parts.append(kept)
        self._ids.extend(ids)
        if self._faiss is not None:
            self._faiss.add(np.ascontiguousarray(kept))

    def search(self, queries: Tensor, *, k: int) -> list[tuple[str, ...]]:
        """The nearest kept states of each query, nearest first.

        Args:
            queries: Clean or released states.
            k: How many; fewer where the store holds fewer.

        Returns:
            Ids, one tuple a query.
        """
        _check.at_least(1, k=k)
        self._check_rows(queries, "queries")
        most = min(k, len(self._ids))
        if most == 0 or not len(queries):
            return [() for _ in range(len(queries))]
        wanted = np.ascontiguousarray(queries.float().cpu().numpy())
        if self._faiss is not None:
            found = self._faiss.search(wanted, most)[1]
        else:
            rows = self.rows
            # less the mean: squares of massive coordinates would drown the differences
            mean = rows.mean(0, dtype=np.float64).astype(np.float32)
            rows, wanted = rows - mean, wanted - mean
            apart = (rows**2).sum(1)[None] - 2 * wanted @ rows.T
            found = np.argsort(apart, axis=1, kind="stable")[:, :most]
        return [tuple(self._ids[row] for row in line) for line in found]

    def _check_rows(self, rows: Tensor, name: str) -> None:
        """Refuse rows of another size, and what is no number."""
        # one pass without a matrix of booleans; a sum that overflows is looked at again
        finite = bool(rows.sum().isfinite()) or bool(rows.isfinite().all())
        if rows.ndim != 2 or rows.shape[1] != self._size or not finite:
            raise InvalidArgumentError(
                f"{name} must be finite, with {self._size} numbers a row, got shape "
                f"{tuple(rows.shape)}."
            )


def measure_store(
    states: Float[Tensor, "record hidden"],
    queries: Float[Tensor, "query hidden"],
    *,
    release: Release | None,
    storage: StorageFormat = "float32",
    k: int = 10,
    seed: int = 0,
    significance: float = 0.05,
) -> StoreResult:
    """Write states once with and once without the mechanism: search quality and attack.

    The attacker knows the mechanism and the clean states of all candidates, and says for each kept
    row whose it is.

    Guarantees:
        * Recall and attack are measured on one and the same index.
        * Without a mechanism and in float32 nothing is lost, and all distinct states are told.

    Args:
        states: Clean states of the candidates.
        queries: Clean states to search with.
        release: The mechanism; None for clean states.
        storage: Format of what is kept.
        k: Neighbours of a search.
        seed: Of the noise and the intervals.
        significance: Error probability of each interval.

    Returns:
        What was lost and what was told.
    """
    ids = [str(row) for row in range(len(states))]
    size = states.shape[1]
    clean = HiddenStore(hidden_size=size)
    clean.write(ids, states)
    kept = HiddenStore(hidden_size=size, release=release, storage=storage, seed=seed)
    kept.write(ids, states)
    shared = [
        len(set(before) & set(after)) / max(len(before), 1)
        for before, after in zip(clean.search(queries, k=k), kept.search(queries, k=k), strict=True)
    ]
    told = _attack(torch.tensor(kept.rows), states, release)
    right = (told == torch.arange(len(states))).double().numpy()
    return StoreResult(
        mechanism="none" if release is None else release.mechanism.kind,
        budget_nats=None if release is None else release.budget_nats,
        storage=storage,
        k=k,
        n_states=len(states),
        recall=mean_interval(np.array(shared), significance=significance, seed=seed),
        attack_top1=mean_interval(right, significance=significance, method="binomial"),
        seed=seed,
    )


def _attack(kept: Tensor, candidates: Tensor, release: Release | None) -> Tensor:
    """The candidate that each kept row is most likely of."""
    if release is None:
        return torch.cdist(kept.double(), candidates.double()).argmin(1)
    total = torch.zeros(len(kept), len(candidates), dtype=torch.float64)
    seen = release.see_released(kept.double())
    known = release.see_candidates(candidates.double())
    for weight, (mine, theirs) in zip(
        (1.0,) if len(seen) == 1 else (1e9, 1.0), zip(seen, known, strict=True), strict=True
    ):
        for row in range(len(kept)):
            apart = theirs.values - mine.values[row]
            if mine.mask is not None:
                apart = apart * mine.mask[row]
            total[row] += weight * apart.square().sum(1)
    return total.argmin(1)


def _faiss_index(hidden_size: int) -> Any:
    """An exact faiss index."""
    try:
        import faiss  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise MissingDependencyError(
            "index='faiss' needs faiss, which is not installed; install insular[faiss], or use "
            "index='numpy'."
        ) from error
    return faiss.IndexFlatL2(hidden_size)
