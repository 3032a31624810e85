"""Gradients as saved arrays: one row a record, without the coordinates that nothing touched."""

from collections.abc import Mapping

import numpy as np

MOST_RANGES = 4096
"""Runs of touched coordinates above which all coordinates are kept."""


def pack_rows(rows: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Gradient matrices over the same coordinates, as arrays to save.

    LoRA's A has gradient 0 while B is 0: half of all coordinates. Coordinates that are 0 in every
    row of every matrix are left out; ``ranges`` says which ones stayed.

    Guarantees:
        * ``unpack_rows`` gives back every value; of a left-out coordinate, 0 without its sign.

    Args:
        rows: Matrices ``[record, param]`` by name, with one number of params.

    Returns:
        The matrices, shortened, with ``ranges`` ``[run, 2]`` (start and stop) and ``n_params``.
    """
    (n_params,) = {matrix.shape[1] for matrix in rows.values()}
    touched = np.zeros(n_params, dtype=bool)
    for matrix in rows.values():
        touched |= (matrix != 0).any(axis=0)
    edges = np.flatnonzero(np.diff(touched, prepend=False, append=False))
    ranges = edges.reshape(-1, 2).astype(np.int64)
    if len(ranges) > MOST_RANGES:
        ranges = np.array([[0, n_params]], dtype=np.int64)
    columns = _columns(ranges)
    kept = {name: np.ascontiguousarray(matrix[:, columns]) for name, matrix in rows.items()}
    return {**kept, "ranges": ranges, "n_params": np.array([n_params], dtype=np.int64)}


def unpack_rows(arrays: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    """One matrix with all its coordinates again.

    Args:
        arrays: What ``pack_rows`` returned.
        name: Name of the matrix.

    Returns:
        The matrix ``[record, param]``.
    """
    kept = arrays[name]
    full = np.zeros((kept.shape[0], int(arrays["n_params"][0])), dtype=kept.dtype)
    full[:, _columns(arrays["ranges"])] = kept
    return full


def _columns(ranges: np.ndarray) -> np.ndarray:
    """Every coordinate of the ranges, ascending."""
    if not len(ranges):
        return np.zeros(0, dtype=np.int64)
    return np.concatenate([np.arange(start, stop) for start, stop in ranges.tolist()])
