"""Every release mechanism, by the name that files and tables give it."""

from insular.hidden.mechanisms.coarse import Dropout, UniformQuantization
from insular.hidden.mechanisms.diagonal import (
    AlphaFamily,
    DiagonalInverseFisher,
    DiagonalMahalanobis,
)
from insular.hidden.mechanisms.interface import ReleaseMechanism
from insular.hidden.mechanisms.optimal import (
    AdaptiveOptimum,
    InverseFisher,
    MutualInformationOptimum,
)
from insular.hidden.mechanisms.subspace import (
    Complement,
    FisherComplement,
    GeneralizedEigen,
    Isotropic,
)
from insular.hidden.mechanisms.worst_case import WorstCase

MECHANISMS: dict[str, type[ReleaseMechanism]] = {
    mechanism.kind: mechanism
    for mechanism in (
        Isotropic,
        Complement,
        FisherComplement,
        GeneralizedEigen,
        AdaptiveOptimum,
        InverseFisher,
        DiagonalInverseFisher,
        AlphaFamily,
        DiagonalMahalanobis,
        MutualInformationOptimum,
        WorstCase,
        UniformQuantization,
        Dropout,
    )
}
