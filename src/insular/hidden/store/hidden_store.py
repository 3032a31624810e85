"""A vector index that releases states by a mechanism as they are written."""

from collections.abc import Sequence
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from insular import _check
from insular.errors import InvalidArgumentError
from insular.hidden.matrices.draws import Draws, SecureDraws
from insular.hidden.mechanisms import Release
from insular.hidden.states.storage import round_states
from insular.hidden.states.storage_spec import STORAGE_FORMATS, StorageFormat
from insular.hidden.store.index import IndexKind, make_index


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
        if release is not None and release.hidden_size != hidden_size:
            raise InvalidArgumentError(
                f"hidden_size must be the mechanism's {release.hidden_size}, got "
                f"hidden_size={hidden_size}."
            )
        self.release = release
        self.storage: StorageFormat = storage
        self.hidden_size = hidden_size
        self._draws: Any = SecureDraws() if seed is None else torch.Generator().manual_seed(seed)
        self._ids: list[str] = []
        self._parts: list[np.ndarray] = []
        self._offset: np.ndarray | None = None
        self._index = make_index(index, hidden_size=hidden_size)

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids in the order of writing."""
        return tuple(self._ids)

    @property
    def rows(self) -> np.ndarray:
        """What is kept, one row an id: all that whoever reads the index sees."""
        if len(self._parts) != 1:
            empty = np.empty((0, self.hidden_size), np.float32)
            self._parts = [np.concatenate([empty, *self._parts])]
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
        if len(ids):
            kept = kept_states(states, self.release, self.storage, generator=self._draws)
            self._keep(ids, kept.cpu().numpy())

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
        rows = self.rows
        if self._offset is None:
            # distances do not change, but squares of massive coordinates would drown them
            self._offset = rows.mean(0, dtype=np.float64).astype(np.float32)
        if self._index.n_rows < len(rows):
            self._index.add(rows[self._index.n_rows :] - self._offset)
        found = self._index.search(queries.float().cpu().numpy() - self._offset, most)
        return [tuple(self._ids[row] for row in line) for line in found.tolist()]

    def _keep(self, ids: Sequence[str], kept: np.ndarray) -> None:
        """Add rows that were released before."""
        self._parts.append(kept)
        self._ids.extend(ids)

    def _check_rows(self, rows: Tensor, name: str) -> None:
        """Refuse rows of another size, and what is no number."""
        # one pass without a matrix of booleans; a sum that overflows is looked at again
        finite = bool(rows.sum().isfinite()) or bool(rows.isfinite().all())
        if rows.ndim != 2 or rows.shape[1] != self.hidden_size or not finite:
            raise InvalidArgumentError(
                f"{name} must be finite, with {self.hidden_size} numbers a row, got shape "
                f"{tuple(rows.shape)}."
            )


def kept_states(
    states: Tensor, release: Release | None, storage: StorageFormat, *, generator: Draws
) -> Tensor:
    """What a store keeps of states: released once, then rounded.

    Args:
        states: Clean states.
        release: The mechanism; None for none.
        storage: Format of what is kept.
        generator: Of the noise.

    Returns:
        Float32 rows.
    """
    given = states if release is None else release.sample(states, generator=generator)
    return round_states(given.float(), storage)[0]
