"""Release mechanisms: how a hidden state is changed before it leaves, for a budget in nats."""

from insular.hidden.mechanisms.coarse import (
    Dropout,
    DropoutRelease,
    QuantizedRelease,
    UniformQuantization,
)
from insular.hidden.mechanisms.composition import ComposedRelease
from insular.hidden.mechanisms.diagonal import (
    AlphaFamily,
    DiagonalInverseFisher,
    DiagonalMahalanobis,
)
from insular.hidden.mechanisms.gaussian import GaussianRelease
from insular.hidden.mechanisms.interface import Release, ReleaseMechanism, Seen
from insular.hidden.mechanisms.optimal import (
    AdaptiveOptimum,
    InverseFisher,
    MutualInformationOptimum,
)
from insular.hidden.mechanisms.saving import load_release, save_release
from insular.hidden.mechanisms.subspace import (
    Complement,
    FisherComplement,
    GeneralizedEigen,
    Isotropic,
)
from insular.hidden.mechanisms.table import MECHANISMS
from insular.hidden.mechanisms.worst_case import PairWeights, WorstCase, worst_case_weights

__all__ = [
    "MECHANISMS",
    "AdaptiveOptimum",
    "AlphaFamily",
    "Complement",
    "ComposedRelease",
    "DiagonalInverseFisher",
    "DiagonalMahalanobis",
    "Dropout",
    "DropoutRelease",
    "FisherComplement",
    "GaussianRelease",
    "GeneralizedEigen",
    "InverseFisher",
    "Isotropic",
    "MutualInformationOptimum",
    "PairWeights",
    "QuantizedRelease",
    "Release",
    "ReleaseMechanism",
    "Seen",
    "UniformQuantization",
    "WorstCase",
    "load_release",
    "save_release",
    "worst_case_weights",
]
