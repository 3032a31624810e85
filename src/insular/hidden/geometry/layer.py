"""How a layer's output sensitivity and its prompt differences lie to each other.

Fewer rows than directions show structure in data that has none, so every number is computed three
times: from all records, from each half, and from simulated rows of the same lengths in random
directions.
"""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from insular import _check
from insular.errors import InvalidArgumentError
from insular.hidden.geometry.results import GeometryNumber, HiddenGeometry, NullRange
from insular.hidden.matrices.psd_algebra import largest_ratio, root_fidelity_trace
from insular.hidden.matrices.rows import checked_rows
from insular.hidden.matrices.spectral import SpectralMatrix, matrix_from_rows

NAMES = (
    "fisher_energy",
    "coupling",
    "effective_rank",
    "euclidean_gain",
    "adaptive_gain",
    "projector_bound",
)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class _Rows:
    """Rows whose outer products add up to the matrices."""

    gradients: Tensor
    """One a label; a mean of squares gives F."""
    differences: Tensor
    """Centred states, or differences of pairs; up to its scale a sum of squares gives S_d."""


def measure_geometry(
    states: Float[Tensor, "record hidden"],
    gradients: Float[Tensor, "label hidden"],
    *,
    rank: int,
    fisher_shrinkage: float = 1e-3,
    differences: Float[Tensor, "pair hidden"] | None = None,
    n_simulations: int = 10,
    seed: int = 0,
) -> HiddenGeometry:
    """Measure E_k, coupling, effective rank, both gains and the projector bound.

    Guarantees:
        * ``G_mah >= projector bound >= 1``, for all rows, within rounding.
        * The null has the same n, d, row lengths and shrinkage; the same seed gives the same null.
        * Halves are of records: several gradients of one record stay together if they follow each
          other, the same number for each.

    Args:
        states: Of different prompts.
        gradients: Of log p with respect to the state, labels drawn from the model; in the order of
            the states, one or several a state.
        rank: Directions k of the projector on the top of F.
        fisher_shrinkage: Share of tr F that is spread evenly; above 0 where n < d.
        differences: Of an adjacency set, in place of all pairs of states.
        n_simulations: Simulations of the null.
        seed: Of the halves and the null.

    Returns:
        The numbers, each with halves and null.

    Raises:
        InvalidArgumentError: If there are too few rows for two halves of that rank.
    """
    rows = checked_rows(states, name="states")
    size = rows.shape[1]
    slopes = checked_rows(gradients, name="gradients", hidden_size=size)
    _check.at_least(1, rank=rank, n_simulations=n_simulations)
    _check.at_least(0, seed=seed)
    centred = rows - rows.mean(0) if len(rows) else rows
    moved = centred
    if differences is not None:
        moved = checked_rows(differences, name="differences", hidden_size=size)
    _check_enough(len(slopes), len(moved), rank=rank, size=size)
    generator = torch.Generator().manual_seed(seed)
    # several gradients of one record follow each other: a half must not hold some of them
    group = len(slopes) // len(rows) if len(slopes) % max(1, len(rows)) == 0 else 1

    def measured(data: _Rows) -> tuple[dict[str, float], list[dict[str, float]]]:
        whole = _numbers(data, data, rank, fisher_shrinkage)
        first, second = _halves(data, group, generator)
        return whole, [
            _numbers(first, second, rank, fisher_shrinkage),
            _numbers(second, first, rank, fisher_shrinkage),
        ]

    data = _Rows(gradients=slopes, differences=moved)
    whole, halves = measured(data)
    nulls = [measured(_without_structure(data, generator)) for _ in range(n_simulations)]
    numbers = {name: _number(name, whole, halves, nulls) for name in NAMES}
    mean = rows.mean(0)
    return HiddenGeometry(
        n_states=len(rows),
        n_gradients=len(slopes),
        hidden_size=size,
        rank=rank,
        fisher_shrinkage=fisher_shrinkage,
        seed=seed,
        heaviest_gradients_share=_heaviest(slopes),
        heaviest_states_share=_heaviest(centred),
        mean_share=float(mean.square().sum() / rows.square().sum(1).mean()),
        heaviest_coordinate_share=float(mean.square().max() / mean.square().sum()),
        **numbers,
    )


def _numbers(fitted: _Rows, measured: _Rows, rank: int, shrinkage: float) -> dict[str, float]:
    """Every number; the projector is of one set of rows and is held against another."""
    fisher, differences = _matrices(measured, shrinkage)
    own = fisher if fitted is measured else _matrices(fitted, shrinkage)[0]
    top, share = own.top(rank).T, rank / own.hidden_size
    energy = float(fisher.quadratic(top).sum()) / fisher.trace()
    moved = float(differences.quadratic(top).sum()) / differences.trace()
    fidelity = root_fidelity_trace(fisher, differences)
    return {
        "fisher_energy": energy,
        "coupling": moved / share,
        "effective_rank": _directions_of(fisher, 0.95) / fisher.hidden_size,
        "euclidean_gain": largest_ratio(differences, fisher) * fisher.trace() / differences.trace(),
        "adaptive_gain": fisher.trace() * differences.trace() / fidelity**2,
        "projector_bound": projector_bound(min(1.0, energy), min(1.0, moved)),
    }


def projector_bound(energy: float, share: float) -> float:
    """``(sqrt(a b) + sqrt((1 - a)(1 - b)))^-2``: what a projector alone says of G_mah.

    Args:
        energy: a, share of the Fisher trace within the projector.
        share: b, share of the differences' trace within it.

    Returns:
        The bound, at least 1; infinite where the two do not overlap.
    """
    _check.probability(energy=energy, share=share)
    overlap = (energy * share) ** 0.5 + ((1 - energy) * (1 - share)) ** 0.5
    return max(1.0, overlap**-2) if overlap > 0 else float("inf")


def _matrices(rows: _Rows, shrinkage: float) -> tuple[SpectralMatrix, SpectralMatrix]:
    """F and S_d; every number is free of S_d's scale."""
    return (
        matrix_from_rows(rows.gradients / len(rows.gradients) ** 0.5, shrinkage=shrinkage),
        matrix_from_rows(rows.differences / len(rows.differences) ** 0.5),
    )


def _halves(data: _Rows, group: int, generator: torch.Generator) -> tuple[_Rows, _Rows]:
    """Two random halves of the records."""

    def parts(n: int, together: int) -> tuple[Tensor, Tensor]:
        order = torch.randperm(n // together, generator=generator)
        rows = order[:, None] * together + torch.arange(together)
        middle = len(order) // 2
        return rows[:middle].flatten(), rows[middle:].flatten()

    group = max(1, group)
    slopes = parts(len(data.gradients), group)
    moved = parts(len(data.differences), 1)
    first, second = (
        _Rows(gradients=data.gradients[g], differences=data.differences[m])
        for g, m in zip(slopes, moved, strict=True)
    )
    return first, second


def _without_structure(data: _Rows, generator: torch.Generator) -> _Rows:
    """Rows of the same lengths in random directions."""

    def turned(rows: Tensor) -> Tensor:
        drawn = torch.randn(rows.shape, dtype=torch.float64, generator=generator)
        lengths = torch.linalg.norm(rows, dim=1) / torch.linalg.norm(drawn, dim=1)
        return drawn * lengths[:, None]

    return _Rows(gradients=turned(data.gradients), differences=turned(data.differences))


def _number(
    name: str,
    whole: dict[str, float],
    halves: list[dict[str, float]],
    nulls: list[tuple[dict[str, float], list[dict[str, float]]]],
) -> GeometryNumber:
    """One number with its halves and its null."""
    values = [null[name] for null, _ in nulls]
    of_halves = [half[name] for _, pair in nulls for half in pair]
    return GeometryNumber(
        value=whole[name],
        halves=(halves[0][name], halves[1][name]),
        null=NullRange(
            mean=sum(values) / len(values),
            lowest=min(values),
            highest=max(values),
            halves_mean=sum(of_halves) / len(of_halves),
            n_simulations=len(values),
        ),
    )


def _directions_of(matrix: SpectralMatrix, share: float) -> int:
    """The fewest directions that hold a share of the trace."""
    every = torch.cat(
        [matrix.values, torch.full((matrix.n_rest,), matrix.rest, dtype=torch.float64)]
    )
    summed = every.sort(descending=True).values.cumsum(0)
    return int((summed < share * summed[-1] * (1 - 1e-12)).sum()) + 1


def _heaviest(rows: Tensor) -> float:
    """Share of the squared lengths in the longest 1% of rows."""
    squares = rows.square().sum(1).sort(descending=True).values
    return float(squares[: max(1, len(squares) // 100)].sum() / squares.sum())


def _check_enough(n_gradients: int, n_differences: int, *, rank: int, size: int) -> None:
    """Refuse a rank that half of the rows cannot determine."""
    if n_gradients < 2 * rank + 2 or rank >= size or n_differences < 4:
        raise InvalidArgumentError(
            f"rank must be below the hidden size {size}, with at least 2 rank + 2 gradients and 4 "
            f"states or differences; got rank={rank}, {n_gradients} and {n_differences}."
        )
