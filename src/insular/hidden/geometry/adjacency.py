"""Which pairs of prompts a release should not tell apart: nearest pairs, and how they differ."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from insular import _check
from insular.errors import InvalidArgumentError
from insular.hidden.matrices.rows import checked_rows

_TILE = 1024


def nearest_pairs(
    states: Float[Tensor, "record hidden"], *, n_neighbors: int = 1
) -> Int[Tensor, "pair 2"]:
    """Each record with its nearest others: the pairs that are hardest to hide by accident.

    Guarantees:
        * A record is never its own neighbour, nor is an exact copy of it.
        * No pair comes twice, in either order.

    Args:
        states: One row a record.
        n_neighbors: Neighbours of each record; fewer where it has no more that differ.

    Returns:
        Places of the two records of each pair, the smaller one first, in ascending order.

    Raises:
        InvalidArgumentError: If there are not enough records.
    """
    rows = checked_rows(states, name="states")
    _check.at_least(1, n_neighbors=n_neighbors)
    if len(rows) <= n_neighbors:
        raise InvalidArgumentError(
            f"states must hold more than n_neighbors={n_neighbors} rows, got {len(rows)}."
        )
    # rows of equal number are copies of each other
    copies = torch.unique(rows, dim=0, return_inverse=True)[1]
    centred = rows - rows.mean(0)
    squares = centred.square().sum(1)
    pairs = set()
    for start in range(0, len(rows), _TILE):
        at = slice(start, start + _TILE)
        apart = squares[at, None] + squares[None] - 2 * centred[at] @ centred.T
        apart[copies[at, None] == copies[None]] = torch.inf
        nearest = apart.topk(n_neighbors, 1, largest=False)
        for row, (values, places) in enumerate(
            zip(nearest.values.tolist(), nearest.indices.tolist(), strict=True), start
        ):
            for value, place in zip(values, places, strict=True):
                if value < torch.inf:
                    pairs.add((min(row, place), max(row, place)))
    return _as_tensor(sorted(pairs))


def pair_differences(
    states: Float[Tensor, "record hidden"], pairs: Int[Tensor, "pair 2"]
) -> Float[Tensor, "pair hidden"]:
    """The first state of each pair less the second, in float64.

    Args:
        states: One row a record.
        pairs: Places in it.

    Returns:
        The differences.
    """
    rows = checked_rows(states, name="states")
    return rows[pairs[:, 0]] - rows[pairs[:, 1]]


def _as_tensor(pairs: list[tuple[int, int]]) -> Tensor:
    """Places, also where there is no pair."""
    return torch.tensor(pairs, dtype=torch.int64).reshape(len(pairs), 2)
