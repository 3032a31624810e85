"""The clipped contributions of one batch's records, at any radius."""

from typing import final

import torch
from torch import Tensor

from insular.audit.isolation.measure import same_values


@final
class Contributions:
    """One batch's gradients, held in float64 so that they can be clipped again at any radius.

    Args:
        gradients: Unclipped, ``[record, param]``.
        stabiliser: Added to each norm before it divides; Opacus adds 1e-6.
    """

    def __init__(self, gradients: Tensor, *, stabiliser: float) -> None:
        self.gradients = gradients
        self.norms = gradients.double().norm(dim=1)  # a flat float32 norm is some 1e-5 low
        self.finite = bool(self.norms.isfinite().all())
        self._stabiliser = stabiliser
        self._wide = gradients.double()

    def __len__(self) -> int:
        """Number of records."""
        return len(self.gradients)

    def sum_at(self, radius: float) -> Tensor:
        """Sum of the contributions, each at most ``radius`` long, in float64."""
        return self._factors(radius) @ self._wide

    def row_at(self, i: int, radius: float) -> Tensor:
        """Contribution of one record, in float64."""
        return self._factors(radius)[i] * self._wide[i]

    def _factors(self, radius: float) -> Tensor:
        """min(1, C / (norm + e)) of each record."""
        return (radius / (self.norms + self._stabiliser)).clamp(max=1.0)


def ratio_at(base: Contributions, other: Contributions, radius: float) -> float:
    """Distance of two batches' clipped sums over the radius that clipped both.

    Args:
        base: One batch.
        other: Another.
        radius: Clip norm, in gradient units.

    Returns:
        The ratio; infinite where a gradient is not finite.
    """
    if not (base.finite and other.finite):
        return float("inf")
    return float((other.sum_at(radius) - base.sum_at(radius)).norm()) / radius


def altered(base: Contributions, other: Contributions) -> tuple[int, ...]:
    """Records at the start of both batches whose gradient is not the same to the last bit.

    Args:
        base: The smaller batch.
        other: A batch that starts with the same records.

    Returns:
        Their positions.
    """
    pairs = zip(base.gradients, other.gradients, strict=False)
    return tuple(i for i, (one, two) in enumerate(pairs) if not same_values(one, two))


def largest_change(base: Contributions, other: Contributions, radius: float) -> float:
    """Largest change of one record's contribution, in units of the radius.

    Args:
        base: The smaller batch.
        other: A batch that starts with the same records.
        radius: Clip norm, in gradient units.

    Returns:
        The change; 0 where every gradient is the same, infinite where one is not finite.
    """
    if not (base.finite and other.finite):
        return float("inf")
    changes = [
        torch.dist(base.row_at(i, radius), other.row_at(i, radius)) / radius
        for i in altered(base, other)
    ]
    return max((float(change) for change in changes), default=0.0)
