"""An attacker who knows the cell that each stored number lies in, and the noise before it."""

from dataclasses import dataclass
from itertools import pairwise
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from insular.hidden.states.storage import round_states
from insular.hidden.states.storage_spec import StorageFormat

_BLOCKS = (0, 8, 32, 128)
"""Coordinates that have been compared each time hopeless candidates are dropped."""
_ROUNDING = 1e-12
"""Share by which one sum of the same costs may differ from another."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class CellRanks:
    """Whether the true candidate is the likeliest, for each kept row."""

    first: Int[Tensor, " record"]
    """1 where no candidate is nearer."""
    n_tied: Int[Tensor, " record"]
    """Others exactly as near, where the true one is first."""


def cell_ranks(
    kept: Float[Tensor, "record hidden"],
    candidates: Float[Tensor, "candidate hidden"],
    truth: Int[Tensor, " record"],
    *,
    variances: Float[Tensor, " hidden"],
    storage: StorageFormat,
) -> CellRanks:
    r"""Rank the true candidate of each row by how well its noisy state fits the row's cells.

    A coordinate of a state h with noise of deviation s, stored as z within a half cell a, costs

    .. math:: \max(|h - z| - \max(a - s, 0), 0)^2 / (s^2 + \min(a, s)^2 / 3)

    close to twice the negative log-likelihood, up to what is the same for every candidate. Costs
    only grow along the coordinates, so a candidate is dropped once it is further than the true one.

    Guarantees:
        * First is who would be first if every coordinate of every candidate were compared.

    Args:
        kept: What the index holds.
        candidates: Different clean states.
        truth: Place of each row's true candidate.
        variances: Of the noise, coordinate by coordinate.
        storage: Format of what is kept.

    Returns:
        Where the true one is first.
    """
    half = round_states(kept.float(), storage)[1].double()
    if storage.startswith("int"):  # the largest magnitude sets the scale, and is kept exactly
        half = half.masked_fill(kept.abs() == kept.abs().amax(1, keepdim=True), 0.0)
    deviation = variances.sqrt().clamp(min=torch.finfo(torch.float32).tiny)
    # the most telling coordinates first: spread of the candidates over noise and cell
    blur = (variances + half.median(0).values.square() / 3).sqrt()
    order = (candidates.std(0) / blur.clamp(min=1e-30)).argsort(descending=True)
    known, rows = candidates[:, order].contiguous(), kept.double()[:, order]
    half, deviation = half[:, order], deviation[order]
    first = torch.zeros(len(rows), dtype=torch.int64)
    n_tied = torch.zeros(len(rows), dtype=torch.int64)
    for at in range(len(rows)):
        reach = (half[at] - deviation).clamp(min=0)
        weight = 1 / (deviation.square() + torch.minimum(half[at], deviation).square() / 3)
        found = _equal_to(int(truth[at]), known, rows[at], reach, weight)
        first[at], n_tied[at] = int(found >= 0), max(found, 0)
    return CellRanks(first=first, n_tied=n_tied)


def _equal_to(true: int, known: Tensor, row: Tensor, reach: Tensor, weight: Tensor) -> int:
    """How many others cost as much as the true candidate; -1 if one costs less."""

    def costs(states: Tensor, start: int = 0, end: int | None = None) -> Tensor:
        at = slice(start, end)
        return _costs(states[:, at], row[at], reach[at], weight[at]).sum(1)

    mine = costs(known[true : true + 1])
    limit = mine * (1 + _ROUNDING)
    left, cost = known, torch.zeros(len(known), dtype=torch.float64)
    for start, end in pairwise((*_BLOCKS, len(row))):
        if start >= len(row):
            break
        cost = cost + costs(left, start, end)
        if bool((costs(left[int(cost.argmin())][None]) < mine * (1 - _ROUNDING)).any()):
            return -1
        likely = cost <= limit
        left, cost = left[likely], cost[likely]
        if len(left) == 1:
            return 0
    whole = costs(left)
    if bool((whole < mine * (1 - _ROUNDING)).any()):
        return -1
    return int((whole <= limit).sum()) - 1


def _costs(states: Tensor, row: Tensor, reach: Tensor, weight: Tensor) -> Tensor:
    """What each coordinate of each state costs."""
    return ((states - row).abs_().sub_(reach).clamp_(min=0)).square_().mul_(weight)
