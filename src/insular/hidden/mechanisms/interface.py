"""The one interface of all release mechanisms: a geometry and a budget in, a release out."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Bool, Float
from torch import Tensor

from insular import _check
from insular.hidden.geometry.release_geometry import ReleaseGeometry
from insular.hidden.matrices.covariance import PsdMatrix
from insular.hidden.matrices.draws import Draws


@dataclass(frozen=True, kw_only=True, eq=False)
class Seen:
    """What an attacker compares of one set of states: smaller squared distance, likelier match."""

    values: Float[Tensor, "record seen"]
    """Coordinates."""
    mask: Bool[Tensor, "record seen"] | None = None
    """Which coordinates of a released state say anything; all where this is None."""
    tolerance: Float[Tensor, " record"] | None = None
    """Squared distances up to this are rounding: such candidates match exactly."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Release(ABC):
    """A fitted mechanism: it turns states into released states."""

    mechanism: "ReleaseMechanism"
    """What it was fitted from."""
    budget_nats: float
    """First-order cost ``tr(F S)/2`` of the nominal covariance."""

    gaussian: ClassVar[bool]
    """Whether it adds Gaussian noise; only then is there an epsilon."""

    @property
    @abstractmethod
    def hidden_size(self) -> int:
        """Numbers in a state."""

    @property
    @abstractmethod
    def nominal_covariance(self) -> PsdMatrix:
        """S: mean square of what the release adds, over its randomness and the states."""

    @abstractmethod
    def sample(
        self, states: Float[Tensor, "record hidden"], *, generator: Draws
    ) -> Float[Tensor, "record hidden"]:
        """Release each state once, in float64, with fresh randomness for each.

        A seeded ``torch.Generator`` is for measurements. A release that is to protect takes
        ``SecureDraws()``, whose noise nobody can draw again.
        """

    def __call__(
        self,
        states: Float[Tensor, "record hidden"],
        /,
        *,
        generator: Draws,
        scale: float = 1.0,
    ) -> Float[Tensor, "record hidden"]:
        """Release at ``scale`` times the standard deviation, in the states' own dtype."""
        _check.positive_finite(scale=scale)
        return self.scaled(scale**2).sample(states, generator=generator).to(states.dtype)

    @abstractmethod
    def scaled(self, factor: float) -> "Release":
        """The same shape with ``factor`` times the nominal covariance, and so times the budget."""

    @abstractmethod
    def see_candidates(self, states: Float[Tensor, "record hidden"]) -> tuple[Seen, ...]:
        """What an attacker who knows the mechanism compares of clean candidates, in order.

        With two views, the first decides wherever it tells candidates apart.
        """

    @abstractmethod
    def see_released(self, released: Float[Tensor, "record hidden"]) -> tuple[Seen, ...]:
        """The same of released states."""

    @abstractmethod
    def implausible(
        self, released: Float[Tensor, "record hidden"], states: Float[Tensor, "record hidden"]
    ) -> str:
        """Why these states cannot have given these releases row by row; empty if they can.

        True pairs are called implausible with a probability of at most 3e-9.
        """

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """All that a file must hold besides the settings."""

    @classmethod
    @abstractmethod
    def restored(
        cls, mechanism: "ReleaseMechanism", budget_nats: float, tensors: Mapping[str, Tensor]
    ) -> "Release":
        """The inverse of ``tensors``; raises ``KeyError`` where one is missing."""


@dataclass(frozen=True, kw_only=True)
class ReleaseMechanism(ABC):
    """How a release is shaped; its fields are public settings."""

    kind: ClassVar[str]
    """Name in tables and files."""
    release_type: ClassVar[type[Release]]
    """What ``fit`` makes."""

    @abstractmethod
    def _fit(self, geometry: ReleaseGeometry, budget_nats: float) -> Release:
        """``fit``, once the budget is known to be a number."""

    def fit(self, geometry: ReleaseGeometry, *, budget_nats: float) -> Release:
        """The release of this shape whose first-order cost is the budget.

        Guarantees:
            * ``tr(F S)/2`` of the geometry's own F is the budget.

        Args:
            geometry: Of the calibration set.
            budget_nats: K.

        Returns:
            The release.
        """
        _check.positive_finite(budget_nats=budget_nats)
        return self._fit(geometry, budget_nats)
