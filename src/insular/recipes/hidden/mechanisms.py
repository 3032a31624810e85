"""The release mechanisms of a sweep by name, and the geometry that each is fitted to."""

from collections.abc import Callable

from torch import Tensor

from insular.hidden.geometry.adjacency import nearest_pairs, pair_differences
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
from insular.recipes.hidden.spec import SweepSpec

NEAR = frozenset({"adaptive-optimum-near", "worst-case"})
"""Mechanisms whose differences are those of nearest neighbours."""

_MAKERS: dict[str, Callable[[SweepSpec], ReleaseMechanism]] = {
    "isotropic": lambda spec: Isotropic(),
    "complement": lambda spec: Complement(rank=spec.rank),
    "fisher-complement": lambda spec: FisherComplement(rank=spec.rank),
    "generalized-eigen": lambda spec: GeneralizedEigen(rank=spec.rank),
    "generalized-eigen-floor": lambda spec: GeneralizedEigen(rank=spec.rank, floor_share=0.5),
    "adaptive-optimum": lambda spec: AdaptiveOptimum(),
    "adaptive-optimum-near": lambda spec: AdaptiveOptimum(),
    "inverse-fisher": lambda spec: InverseFisher(),
    "diagonal-inverse-fisher": lambda spec: DiagonalInverseFisher(),
    "alpha-half": lambda spec: AlphaFamily(alpha=0.5),
    "diagonal-mahalanobis": lambda spec: DiagonalMahalanobis(),
    "mutual-information": lambda spec: MutualInformationOptimum(),
    "worst-case": lambda spec: WorstCase(pair_shrinkage=spec.shrinkage),
    "quantization": lambda spec: UniformQuantization(),
    "dropout": lambda spec: Dropout(),
}


def mechanism_named(name: str, spec: SweepSpec) -> ReleaseMechanism:
    """A mechanism by the name that the command line gives it.

    Args:
        name: One of ``MECHANISM_KINDS``.
        spec: Rank and shrinkage.

    Returns:
        The mechanism.
    """
    return _MAKERS[name](spec)


def fitted_geometries(
    states: Tensor, gradients: Tensor, *, shrinkage: float
) -> tuple[ReleaseGeometry, ReleaseGeometry]:
    """What the mechanisms of a layer are fitted to.

    Args:
        states: States of the prompts to fit on, float64, one a row.
        gradients: Rows whose second moment is the Fisher matrix, float64.
        shrinkage: Share of each matrix's trace that is spread evenly.

    Returns:
        The geometry whose differences are those of random pairs, and that of nearest neighbours.
    """

    def geometry(differences: Tensor | None) -> ReleaseGeometry:
        return release_geometry(
            states,
            gradients,
            fisher_shrinkage=shrinkage,
            state_shrinkage=shrinkage,
            differences=differences,
        )

    return geometry(None), geometry(pair_differences(states, nearest_pairs(states)))
