"""Every release mechanism, once: a new one joins here and inherits the contract."""

from dataclasses import dataclass

import torch
from torch import Tensor

from hidden.matrix_samples import normal, seeded, spread_psd
from insular.hidden.geometry.release_geometry import ReleaseGeometry, release_geometry
from insular.hidden.mechanisms import (
    AdaptiveOptimum,
    AlphaFamily,
    Complement,
    DiagonalInverseFisher,
    DiagonalMahalanobis,
    Dropout,
    FisherComplement,
    GeneralizedEigen,
    InverseFisher,
    Isotropic,
    MutualInformationOptimum,
    ReleaseMechanism,
    UniformQuantization,
    WorstCase,
)

D = 10
BUDGET_NATS = 0.3
FISHER_SHRINKAGE = 0.02


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """States, gradients and pairs that a mechanism is fitted to, with their geometry."""

    states: Tensor
    gradients: Tensor
    geometry: ReleaseGeometry

    @property
    def fisher(self) -> Tensor:
        """F from the raw gradients, the slow way: mean of the outer products, then shrunk."""
        found = torch.zeros((D, D), dtype=torch.float64)
        for row in self.gradients:
            found += torch.outer(row, row) / len(self.gradients)
        return (1 - FISHER_SHRINKAGE) * found + FISHER_SHRINKAGE * found.trace() / D * torch.eye(D)


def calibration() -> Calibration:
    """20,000 states with a mean, 300 gradients, 30 pairs."""
    states = normal(20_000, D, seed=1) @ (3 * spread_psd(D, seed=2, condition=10)) + 2.0
    gradients = 0.8 * normal(300, D, seed=3) @ spread_psd(D, seed=4, condition=30)
    at = torch.randint(0, len(states), (2, 30), generator=seeded(5))
    return Calibration(
        states=states,
        gradients=gradients,
        geometry=release_geometry(
            states,
            gradients,
            fisher_shrinkage=FISHER_SHRINKAGE,
            state_shrinkage=0.01,
            differences=states[at[0]] - states[at[1]],
        ),
    )


ROWS: dict[str, ReleaseMechanism] = {
    "isotropic": Isotropic(),
    "complement": Complement(rank=3),
    "complement with a floor": Complement(rank=3, floor_share=0.05),
    "fisher complement": FisherComplement(rank=3),
    "generalized eigen, rank one": GeneralizedEigen(rank=1),
    "generalized eigen": GeneralizedEigen(rank=4),
    "generalized eigen with a floor": GeneralizedEigen(rank=4, floor_share=0.1),
    "adaptive optimum": AdaptiveOptimum(),
    "inverse fisher": InverseFisher(),
    "diagonal inverse fisher": DiagonalInverseFisher(),
    "alpha 0.5": AlphaFamily(alpha=0.5),
    "alpha 2": AlphaFamily(alpha=2.0),
    "diagonal mahalanobis": DiagonalMahalanobis(),
    "mutual information optimum": MutualInformationOptimum(),
    "worst case": WorstCase(),
    "worst case with a floor": WorstCase(pair_shrinkage=0.05),
    "uniform quantization": UniformQuantization(),
    "dropout": Dropout(),
}
