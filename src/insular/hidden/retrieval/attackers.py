"""What retrieval attackers compare: plain states, a subspace of them, or what a mechanism left."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from insular.errors import InvalidArgumentError
from insular.hidden.matrices.rows import checked_rows
from insular.hidden.mechanisms.interface import Release, Seen


class Attacker(ABC):
    """Ranks candidates by squared distances between views of clean and released states."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name in tables."""

    @property
    @abstractmethod
    def hidden_size(self) -> int:
        """Numbers in a state."""

    @abstractmethod
    def see_candidates(self, states: Float[Tensor, "record hidden"]) -> tuple[Seen, ...]:
        """Views of clean candidates; the first decides wherever it tells two apart."""

    @abstractmethod
    def see_released(self, released: Float[Tensor, "record hidden"]) -> tuple[Seen, ...]:
        """Views of released states, of the same number and width."""


@final
@dataclass(frozen=True, kw_only=True)
class EuclideanAttacker(Attacker):
    """Plain distances between states: knows nothing of the mechanism."""

    size: int
    """Numbers in a state."""

    @property
    def name(self) -> str:
        """``euclidean``."""
        return "euclidean"

    @property
    def hidden_size(self) -> int:
        """Numbers in a state."""
        return self.size

    def see_candidates(self, states: Float[Tensor, "record hidden"]) -> tuple[Seen, ...]:
        """The states."""
        return (Seen(values=checked_rows(states, name="states", hidden_size=self.size)),)

    def see_released(self, released: Float[Tensor, "record hidden"]) -> tuple[Seen, ...]:
        """The states."""
        return (Seen(values=checked_rows(released, name="released", hidden_size=self.size)),)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class SubspaceAttacker(Attacker):
    """Plain distances within a subspace, such as the complement of where noise was added."""

    basis: Float[Tensor, "hidden rank"]
    """Orthonormal columns, float64."""

    def __post_init__(self) -> None:
        """Refuse columns that are not orthonormal."""
        eye = torch.eye(self.basis.shape[1], dtype=torch.float64)
        if not torch.allclose(self.basis.double().T @ self.basis.double(), eye, atol=1e-6):
            raise InvalidArgumentError(
                "basis must have orthonormal columns, got others; pass torch.linalg.qr(basis)[0]."
            )

    @property
    def name(self) -> str:
        """With the number of directions."""
        return f"subspace of {self.basis.shape[1]}"

    @property
    def hidden_size(self) -> int:
        """Numbers in a state."""
        return self.basis.shape[0]

    def see_candidates(self, states: Float[Tensor, "record hidden"]) -> tuple[Seen, ...]:
        """Coordinates in the subspace."""
        rows = checked_rows(states, name="states", hidden_size=self.hidden_size)
        return (Seen(values=rows @ self.basis.double()),)

    def see_released(self, released: Float[Tensor, "record hidden"]) -> tuple[Seen, ...]:
        """Coordinates in the subspace."""
        rows = checked_rows(released, name="released", hidden_size=self.hidden_size)
        return (Seen(values=rows @ self.basis.double()),)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class AwareAttacker(Attacker):
    """Knows the mechanism and its covariance: the likeliest candidate, all else being equal.

    Gaussian noise: exact where the covariance is zero, then the whitened distance. Quantisation:
    cells. Dropout: what was kept.

    Guarantees:
        * Its ranking is the same for every scale of one Gaussian covariance, so that a bank that
          was prepared once serves all budgets.
    """

    release: Release
    """The mechanism, as fitted."""

    @property
    def name(self) -> str:
        """With the mechanism."""
        return f"aware of {self.release.mechanism.kind}"

    @property
    def hidden_size(self) -> int:
        """Numbers in a state."""
        return self.release.hidden_size

    def see_candidates(self, states: Float[Tensor, "record hidden"]) -> tuple[Seen, ...]:
        """As the mechanism says."""
        return self.release.see_candidates(states)

    def see_released(self, released: Float[Tensor, "record hidden"]) -> tuple[Seen, ...]:
        """As the mechanism says."""
        return self.release.see_released(released)
