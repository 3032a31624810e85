"""The release mechanisms of a sweep by name, and the geometry that each is fitted to."""

from collections.abc import Callable

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
