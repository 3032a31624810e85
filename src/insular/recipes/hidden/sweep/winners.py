"""Which mechanisms are best at equal measured KL, and at equal epsilon. Torch-free."""

import math
from collections.abc import Iterable, Sequence

from insular.recipes.hidden.sweep.results import SweepCell, Winner


def winners(cells: Sequence[SweepCell], *, repeat: int = 0) -> tuple[Winner, ...]:
    """The best mechanisms of each layer under each condition.

    At equal KL the best has the least top-1 of its best attacker; others are as good unless their
    interval lies above it. At equal epsilon, of a typical pair of prompts, the best costs the least
    KL, read off between the cells of each mechanism on logarithmic axes.

    Args:
        cells: Cells of one sweep.
        repeat: Seed of the noise that is compared.

    Returns:
        Conditions at which at least two mechanisms can be compared.
    """
    found = []
    mine = [cell for cell in cells if cell.status == "reached" and cell.repeat == repeat]
    for layer in dict.fromkeys(cell.layer for cell in mine):
        here = [cell for cell in mine if cell.layer == layer]
        for kl in sorted({cell.target_kl_nats for cell in here}):
            found.append(_at_kl(layer, kl, [c for c in here if c.target_kl_nats == kl]))
        for epsilon in _common_epsilons(here):
            found.append(_at_epsilon(layer, epsilon, here))
    return tuple(winner for winner in found if winner is not None)


def _at_kl(layer: int, kl: float, cells: Sequence[SweepCell]) -> Winner | None:
    """The least top-1."""
    if len(cells) < 2:
        return None
    ranked = sorted(cells, key=_top1)
    best = ranked[0]
    least_high = max(attack.top_1.upper for attack in best.attacks)
    ties = [
        cell.mechanism
        for cell in ranked
        if max(attack.top_1.lower for attack in cell.attacks) <= least_high
    ]
    return Winner(
        layer=layer,
        matched="kl",
        value=kl,
        mechanisms=tuple(ties),
        measure=_top1(best),
        n_compared=len(cells),
    )


def _at_epsilon(layer: int, epsilon: float, cells: Sequence[SweepCell]) -> Winner | None:
    """The least KL; mechanisms within a tenth of it are as good."""
    costs: dict[str, float] = {}
    for name in dict.fromkeys(cell.mechanism for cell in cells):
        cost = _kl_at(epsilon, [cell for cell in cells if cell.mechanism == name])
        if cost is not None:
            costs[name] = cost
    if len(costs) < 2:
        return None
    best = min(costs.values())
    ranked = sorted(costs, key=lambda name: costs[name])
    return Winner(
        layer=layer,
        matched="epsilon",
        value=epsilon,
        mechanisms=tuple(name for name in ranked if costs[name] <= 1.1 * best),
        measure=best,
        n_compared=len(costs),
    )


def _common_epsilons(cells: Sequence[SweepCell]) -> list[float]:
    """Round epsilons that lie within what at least two mechanisms span."""
    spans: dict[str, list[float]] = {}
    for cell in cells:
        if _is_usable(cell):
            assert cell.epsilon is not None
            spans.setdefault(cell.mechanism, []).append(cell.epsilon)
    return [
        epsilon
        for epsilon in (1.0, 10.0, 100.0, 1000.0)
        if sum(min(span) <= epsilon <= max(span) for span in spans.values()) >= 2
    ]


def _kl_at(epsilon: float, cells: Iterable[SweepCell]) -> float | None:
    """KL of one mechanism at an epsilon, between its cells; None outside them."""
    points = sorted(
        (math.log(cell.epsilon), math.log(cell.utility.kl_nats.mean))
        for cell in cells
        if _is_usable(cell) and cell.epsilon is not None and cell.utility is not None
    )
    wanted = math.log(epsilon)
    for (x0, y0), (x1, y1) in zip(points, points[1:], strict=False):
        if x0 <= wanted <= x1:
            share = (wanted - x0) / (x1 - x0) if x1 > x0 else 0.0
            return math.exp(y0 + share * (y1 - y0))
    return None


def _is_usable(cell: SweepCell) -> bool:
    """An epsilon and a KL that have logarithms."""
    return (
        cell.epsilon is not None
        and 0 < cell.epsilon < math.inf
        and cell.utility is not None
        and cell.utility.kl_nats.mean > 0
    )


def _top1(cell: SweepCell) -> float:
    """Top-1 of the best attacker."""
    assert cell.top1 is not None
    return cell.top1
