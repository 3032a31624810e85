"""Retrieval attacks: find the prompt of a released state in a bank of candidates.

Distances of all candidates are computed in float32 tiles; the nearest few and the true one are
compared again in float64, and where float32 could have hidden a nearer one, the whole row is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from insular.errors import InvalidArgumentError
from insular.hidden.matrices.rows import checked_rows
from insular.hidden.mechanisms.interface import Release, Seen
from insular.hidden.retrieval.bank import CandidateBank
from insular.hidden.retrieval.results import RetrievalRate, RetrievalResult, retrieval_rate

N_RECHECKED = 32
"""Nearest candidates that are compared again in float64."""
_N_SURE = 10
"""Ranks up to this are exact; top-10 needs no more."""
_QUERIES, _CANDIDATES = 512, 8192
"""Sides of a tile."""
_GATHERED = 16
"""Queries whose candidates are gathered at once: few enough to stay in the cache."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class QueryRanks:
    """Where the truth came for each query."""

    ranks: Int[Tensor, " query"]
    """1 plus the candidates that are nearer than the true one. Exact up to 10; beyond, within what
    float32 can tell."""
    n_tied: Int[Tensor, " query"]
    """Other candidates exactly as near as the true one, where the rank is at most 10."""
    recomputed: Int[Tensor, " query"]
    """1 where the whole row was computed again in float64."""


def retrieve(
    bank: CandidateBank,
    released: Float[Tensor, "query hidden"],
    truth: Int[Tensor, " query"],
    *,
    release: Release | None,
    significance: float = 0.05,
) -> RetrievalResult:
    """Attack released states.

    Guarantees:
        * A bank that holds the released state in place of the clean one is refused, as is one whose
          states cannot have given these releases.
        * Top-1 and top-10 are those of float64 distances, ties told apart from wins.
        * The order of the candidates does not matter, nor do their duplicates.

    Args:
        bank: Clean candidates, the true ones among them.
        released: States as the mechanism released them.
        truth: Place of each query's true prompt among the candidates that were given to the bank.
        release: The mechanism that released them, at its scale; None where no noise was added.
        significance: Of each rate's interval.

    Returns:
        Rates with intervals, ties, duplicates.
    """
    if release is not None:
        refuse_wrong_bank(bank, released, truth, release=release)
    found = rank_queries(bank, released, truth)
    n = len(found.ranks)
    first, near, tied = found.ranks == 1, found.ranks <= _N_SURE, found.n_tied > 0

    def rate(which: Tensor) -> RetrievalRate:
        return retrieval_rate(int(which.sum()), n, significance=significance)

    return RetrievalResult(
        attacker=bank.attacker.name,
        n_queries=n,
        n_candidates=bank.n_candidates,
        n_duplicates=bank.n_duplicates,
        top_1=rate(first),
        top_1_untied=rate(first & ~tied),
        top_10=rate(near),
        median_rank=float(found.ranks.double().quantile(0.5)) if n else float("nan"),
        n_tied=int(tied.sum()),
        chance=1 / bank.n_candidates,
        n_recomputed=int(found.recomputed.sum()),
    )


def refuse_wrong_bank(
    bank: CandidateBank,
    released: Float[Tensor, "query hidden"],
    truth: Int[Tensor, " query"],
    *,
    release: Release,
) -> None:
    """Refuse a bank whose true candidates are not the clean states of these releases.

    A released state in its own bank makes any attacker look perfect, one with noise of its own
    makes it look worse. Gaussian noise of the wrong scale is refused too.

    Args:
        bank: The bank.
        released: Released states.
        truth: As in ``retrieve``.
        release: The mechanism that released them, at its scale.

    Raises:
        InvalidArgumentError: If they are not; true ones are refused with a probability below 3e-9.
    """
    rows, true = _checked(bank, released, truth)
    clean = bank.states[true]
    same = int((rows == clean).all(1).sum())
    if same:
        raise InvalidArgumentError(
            f"bank must hold clean states, got the released state itself for {same} of "
            f"{len(rows)} queries; take the states before noise is added."
        )
    reason = release.implausible(rows, clean)
    if reason:
        raise InvalidArgumentError(
            "bank must hold the clean states that truth points to, got states that cannot have "
            f"given these releases: {reason}; check truth, the scale of the release and that the "
            "bank was built without noise."
        )


def rank_queries(
    bank: CandidateBank, released: Float[Tensor, "query hidden"], truth: Int[Tensor, " query"]
) -> QueryRanks:
    """The rank of each query's true candidate.

    Args:
        bank: Candidates.
        released: Queries; none gives empty ranks.
        truth: As in ``retrieve``.

    Returns:
        Ranks and ties.
    """
    rows, true = _checked(bank, released, truth)
    found = QueryRanks(
        ranks=torch.ones(len(rows), dtype=torch.int64),
        n_tied=torch.zeros(len(rows), dtype=torch.int64),
        recomputed=torch.zeros(len(rows), dtype=torch.int64),
    )
    scratch = torch.empty(min(len(rows), _QUERIES) * min(bank.n_candidates, _CANDIDATES))
    for start in range(0, len(rows), _QUERIES):
        at = slice(start, start + _QUERIES)
        seen = tuple(
            Seen(values=view.values - mean, mask=view.mask, tolerance=view.tolerance)
            for view, mean in zip(bank.attacker.see_released(rows[at]), bank.means, strict=True)
        )
        tile = _rank_tile(bank, seen, true[at], scratch)
        found.ranks[at], found.n_tied[at], found.recomputed[at] = tile
    return found


def _rank_tile(
    bank: CandidateBank, seen: tuple[Seen, ...], true: Tensor, scratch: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Rank, ties and whether the row was recomputed, for one tile of queries."""
    exact_true = _exact(bank, seen, true[:, None])  # one column a view
    squares, error = _squares(seen[0]), _float32_error(bank, seen[0], exact_true[0][:, 0])
    # a candidate's score is (|a|^2 - distance)/2: larger is nearer
    threshold = (squares - exact_true[0][:, 0]) / 2 + error
    nearest, scores, n_above = _fast_scores(bank, seen[0], threshold, scratch)
    exact = _exact(bank, seen, nearest)
    order = torch.where(nearest == true[:, None], 1, _compare(exact, exact_true, seen))
    nearer, tied = (order < 0).sum(1), (order == 0).sum(1)
    # all that float32 left out is further than the truth, or enough are nearer anyway
    last = (squares - _tolerant(exact_true[0][:, 0], seen[0])) / 2
    whole = scores[:, -1].double() + error < last
    whole |= torch.tensor(nearest.shape[1] == bank.n_candidates)
    sure = whole | (nearer >= _N_SURE)
    ranks = 1 + torch.where(whole, nearer, torch.maximum(nearer, n_above))
    for row in torch.nonzero(~sure)[:, 0].tolist():
        one = tuple(_row(view, row) for view in seen)
        order = torch.cat(
            [
                _compare(
                    _exact(bank, one, block[None]), [c[row : row + 1] for c in exact_true], one
                )
                for block in torch.arange(bank.n_candidates).split(_CANDIDATES)
            ],
            1,
        )
        order[0, true[row]] = 1
        ranks[row], tied[row] = 1 + (order < 0).sum(), (order == 0).sum()
    return ranks, torch.where(ranks <= _N_SURE, tied, 0), (~sure).to(torch.int64)


def _fast_scores(
    bank: CandidateBank, seen: Seen, threshold: Tensor, scratch: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The nearest candidates in float32, their scores, and how many beat the threshold."""
    if seen.mask is None:
        left = seen.values.to(torch.float32)
        right, offset = bank.fast, bank.half_squares
    else:  # sum over kept coordinates of (a - b)^2, as one product
        mask = seen.mask.to(torch.float32)
        left = torch.cat([seen.values.to(torch.float32) * mask, mask], 1)
        right = torch.cat([bank.fast, -bank.fast.square() / 2], 1)
        offset = torch.zeros_like(bank.half_squares)
    bound = threshold.to(torch.float32)[:, None]
    scores = torch.empty((len(left), 0))
    nearest = torch.empty((len(left), 0), dtype=torch.int64)
    n_above = torch.zeros(len(left))
    for start in range(0, len(right), _CANDIDATES):
        block = right[start : start + _CANDIDATES]
        tile = scratch[: len(left) * len(block)].view(len(left), len(block))
        torch.addmm(offset[start : start + _CANDIDATES], left, block.T, beta=-1, out=tile)
        best, places = tile.topk(min(N_RECHECKED, tile.shape[1]), 1)
        scores, nearest = torch.cat([scores, best], 1), torch.cat([nearest, places + start], 1)
        scores, order = scores.topk(min(N_RECHECKED, scores.shape[1]), 1)
        nearest = nearest.gather(1, order)
        # in place: the tile is not needed any more, and sums of up to 2^24 ones are exact
        n_above += torch.gt(tile, bound, out=tile).sum(1)
    return nearest, scores, n_above.to(torch.int64)


def _float32_error(bank: CandidateBank, seen: Seen, true: Tensor) -> Tensor:
    """How far the score of a candidate that is nearer than the truth may be off."""
    lengths = _squares(seen).sqrt()
    # a candidate within D of a query of length |a| is no longer than |a| + D itself
    longest, terms = lengths + true.sqrt(), seen.values.shape[1] ** 0.5
    if seen.mask is None:
        longest = longest.clamp(max=(2 * float(bank.half_squares.max())) ** 0.5)
    # with a mask, the squares are summed along with the products
    of_squares = longest.square() / 2 * (1.0 if seen.mask is None else terms)
    return torch.finfo(torch.float32).eps * (8 + terms) * (lengths * longest + of_squares)


def _exact(bank: CandidateBank, seen: tuple[Seen, ...], picked: Tensor) -> tuple[Tensor, ...]:
    """Squared distances in float64 from each query to the candidates picked for it, each view."""
    found = []
    for view, candidates in zip(seen, bank.views, strict=True):
        squares = torch.empty(picked.shape, dtype=torch.float64)
        for start in range(0, len(picked), _GATHERED):
            at = slice(start, start + _GATHERED)
            apart = candidates[picked[at]].sub_(view.values[at, None]).square_()
            if view.mask is not None:
                apart *= view.mask[at, None]
            torch.sum(apart, 2, out=squares[at])
        found.append(squares)
    return tuple(found)


def _compare(exact: Sequence[Tensor], exact_true: Sequence[Tensor], seen: Sequence[Seen]) -> Tensor:
    """-1, 0 or 1 where a candidate is nearer than, as near as or further than the truth."""
    order = torch.zeros_like(exact[0])
    for found, true, view in zip(exact, exact_true, seen, strict=True):
        if view.tolerance is not None:
            floor = view.tolerance[:, None]
            found, true = found.clamp(min=floor), true.clamp(min=floor)
        order = torch.where(order == 0, (found - true).sign(), order)
    return order


def _squares(view: Seen) -> Tensor:
    """Squared length of each query, over the coordinates that count."""
    squares = view.values.square()
    return (squares if view.mask is None else squares * view.mask).sum(1)


def _tolerant(distances: Tensor, view: Seen) -> Tensor:
    """Distances, at least as large as what is taken for rounding."""
    return distances if view.tolerance is None else torch.maximum(distances, view.tolerance)


def _row(view: Seen, row: int) -> Seen:
    """One query of a view."""
    at = slice(row, row + 1)
    return Seen(
        values=view.values[at],
        mask=None if view.mask is None else view.mask[at],
        tolerance=None if view.tolerance is None else view.tolerance[at],
    )


def _checked(bank: CandidateBank, released: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
    """Queries in float64, and the rows of their true candidates in the bank."""
    rows = checked_rows(released, name="released", hidden_size=bank.attacker.hidden_size)
    given = len(bank.kept_at)
    if truth.shape != (len(rows),):
        raise InvalidArgumentError(
            f"truth must name one candidate for each of the {len(rows)} queries, got shape "
            f"{tuple(truth.shape)}."
        )
    if len(truth) and not (int(truth.min()) >= 0 and int(truth.max()) < given):
        raise InvalidArgumentError(
            f"truth must be from 0 to {given - 1}, the candidates given, got "
            f"{int(truth.min())} to {int(truth.max())}."
        )
    return rows, bank.kept_at[truth]
