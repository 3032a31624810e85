"""Exact nearest-neighbour search over rows, by NumPy or by faiss."""

from abc import ABC, abstractmethod
from typing import Any, Literal, final

import numpy as np

from insular import _check
from insular.errors import MissingDependencyError

IndexKind = Literal["numpy", "faiss"]
INDEX_KINDS: tuple[IndexKind, ...] = ("numpy", "faiss")
_TILE = 1 << 23
"""Distances that are held at once: 32 MiB."""


class RowIndex(ABC):
    """Rows that are found by Euclidean distance."""

    n_rows: int
    """Rows in it."""

    @abstractmethod
    def add(self, rows: np.ndarray) -> None:
        """Add float32 rows after those that are there."""

    @abstractmethod
    def search(self, wanted: np.ndarray, k: int) -> np.ndarray:
        """Places of the k nearest rows of each wanted one, nearest first; k at most ``n_rows``."""


@final
class NumpyIndex(RowIndex):
    """Every distance is computed, a block of queries at a time.

    Guarantees:
        * Of rows equally near, those that were added first come first.
        * Memory does not grow with the number of queries but for what is returned.

    Args:
        hidden_size: Numbers in a row.
    """

    def __init__(self, hidden_size: int) -> None:
        self.n_rows = 0
        self._rows = np.empty((0, hidden_size), np.float32)
        self._squares = np.empty(0, np.float32)

    def add(self, rows: np.ndarray) -> None:
        """Add float32 rows after those that are there."""
        self._rows = np.concatenate([self._rows, rows])
        self._squares = np.concatenate([self._squares, (rows**2).sum(1)])
        self.n_rows = len(self._rows)

    def search(self, wanted: np.ndarray, k: int) -> np.ndarray:
        """Places of the k nearest rows of each wanted one, nearest first."""
        found = np.empty((len(wanted), k), np.int64)
        step = max(1, _TILE // self.n_rows)
        for start in range(0, len(wanted), step):
            at = slice(start, start + step)
            # half the squared distance, less what is the same for every row
            apart = self._squares / 2 - wanted[at] @ self._rows.T
            found[at] = _least(apart, k)
        return found


@final
class FaissIndex(RowIndex):
    """An exact faiss index.

    Args:
        hidden_size: Numbers in a row.

    Raises:
        MissingDependencyError: If faiss is absent.
    """

    def __init__(self, hidden_size: int) -> None:
        try:
            import faiss  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise MissingDependencyError(
                "index='faiss' needs faiss, which is not installed; install insular[faiss], or use "
                "index='numpy'."
            ) from error
        self.n_rows = 0
        self._faiss: Any = faiss.IndexFlatL2(hidden_size)

    def add(self, rows: np.ndarray) -> None:
        """Add float32 rows after those that are there."""
        self._faiss.add(np.ascontiguousarray(rows))
        self.n_rows += len(rows)

    def search(self, wanted: np.ndarray, k: int) -> np.ndarray:
        """Places of the k nearest rows of each wanted one, nearest first."""
        return self._faiss.search(np.ascontiguousarray(wanted), k)[1]


def make_index(kind: IndexKind, *, hidden_size: int) -> RowIndex:
    """An empty index.

    Args:
        kind: ``numpy``, or ``faiss`` where that is installed.
        hidden_size: Numbers in a row.

    Returns:
        It.
    """
    _check.one_of(INDEX_KINDS, index=kind)
    return FaissIndex(hidden_size) if kind == "faiss" else NumpyIndex(hidden_size)


def _least(apart: np.ndarray, k: int) -> np.ndarray:
    """Places of the k least numbers of each line, least first; of equals, the first."""
    found = np.argpartition(apart, k - 1, axis=1)[:, :k]
    values = np.take_along_axis(apart, found, 1)
    # where more are equal to the last than fit, the partition took any of them
    crowded = (apart <= values.max(1, keepdims=True)).sum(1) > k
    order = np.lexsort((found, values))
    found = np.take_along_axis(found, order, 1)
    for line in np.flatnonzero(crowded):
        found[line] = np.argsort(apart[line], kind="stable")[:k]
    return found
