"""Releases without Gaussian noise: uniform quantisation and dropout. They have no epsilon.

Both show states exactly to whoever knows the mechanism: a quantised candidate either equals the
released state or does not, and what dropout keeps is the state itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor

from insular import _check
from insular.errors import InvalidArgumentError
from insular.hidden.geometry.release_geometry import ReleaseGeometry
from insular.hidden.matrices.covariance import DiagonalMatrix
from insular.hidden.matrices.draws import Draws, even
from insular.hidden.matrices.rows import checked_rows
from insular.hidden.mechanisms.interface import Release, ReleaseMechanism, Seen


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class QuantizedRelease(Release):
    """``z_j = step_j round(h_j / step_j)``; the same state gives the same release."""

    steps: Float[Tensor, " hidden"]
    """Width of each coordinate's cells; 0 leaves it as it is."""

    gaussian: ClassVar[bool] = False

    @property
    def hidden_size(self) -> int:
        """Numbers in a state."""
        return len(self.steps)

    @property
    def nominal_covariance(self) -> DiagonalMatrix:
        """``step_j^2 / 12``: rounding of states that are smooth on the scale of a cell."""
        return DiagonalMatrix(variances=self.steps.square() / 12)

    @property
    def margin_change(self) -> float:
        """No distance between two states changes by more than this: ``sqrt(sum step_j^2)``."""
        return float(torch.linalg.norm(self.steps))

    def sample(
        self, states: Float[Tensor, "record hidden"], *, generator: Draws
    ) -> Float[Tensor, "record hidden"]:
        """Round each state; the generator is not used."""
        rows = checked_rows(states, name="states", hidden_size=self.hidden_size)
        width = torch.where(self.steps > 0, self.steps, 1.0)
        return torch.where(self.steps > 0, (rows / width).round() * width, rows)

    def scaled(self, factor: float) -> "QuantizedRelease":
        """Steps that are ``sqrt(factor)`` times as wide."""
        _check.positive_finite(factor=factor)
        return QuantizedRelease(
            mechanism=self.mechanism,
            budget_nats=self.budget_nats * factor,
            steps=self.steps * factor**0.5,
        )

    def see_candidates(self, states: Float[Tensor, "record hidden"]) -> tuple[Seen, ...]:
        """Cells of the candidates."""
        return self.see_released(self.sample(states, generator=torch.Generator()))

    def see_released(self, released: Float[Tensor, "record hidden"]) -> tuple[Seen, ...]:
        """Cells: whole numbers, so that equal cells are equal."""
        rows = checked_rows(released, name="released", hidden_size=self.hidden_size)
        width = torch.where(self.steps > 0, self.steps, 1.0)
        return (Seen(values=torch.where(self.steps > 0, (rows / width).round(), rows)),)

    def implausible(
        self, released: Float[Tensor, "record hidden"], states: Float[Tensor, "record hidden"]
    ) -> str:
        """By rounding the states again."""
        (found,), (expected,) = self.see_released(released), self.see_candidates(states)
        close = torch.isclose(found.values, expected.values, rtol=1e-5, atol=1e-9)
        return "" if bool(close.all()) else "they do not round to what was released"

    def tensors(self) -> dict[str, Tensor]:
        """The steps."""
        return {"steps": self.steps}

    @classmethod
    def restored(
        cls, mechanism: ReleaseMechanism, budget_nats: float, tensors: Mapping[str, Tensor]
    ) -> "QuantizedRelease":
        """The inverse of ``tensors``."""
        return cls(mechanism=mechanism, budget_nats=budget_nats, steps=tensors["steps"])


@final
@dataclass(frozen=True, kw_only=True)
class UniformQuantization(ReleaseMechanism):
    """Cells in proportion to each coordinate's standard deviation. Not Gaussian: no epsilon.

    ``step_j = c sd_j`` with ``c^2 sum F_jj sd_j^2 = 24 K``. Nothing is clipped.
    """

    kind: ClassVar[str] = "uniform quantization"
    release_type: ClassVar[type[Release]] = QuantizedRelease

    def _fit(self, geometry: ReleaseGeometry, budget_nats: float) -> QuantizedRelease:
        """The release."""
        variances = geometry.states.diagonal()
        cost = _cost(geometry, variances)
        steps = (variances * (24 * budget_nats / cost)).sqrt()
        return QuantizedRelease(mechanism=self, budget_nats=budget_nats, steps=steps)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class DropoutRelease(Release):
    """``z_j = h_j / (1 - p)`` with probability ``1 - p``, else 0."""

    mean_square: Float[Tensor, " hidden"]
    """Mean square of each coordinate of a state."""
    odds: Float[Tensor, ""]
    """``p / (1 - p)``."""

    gaussian: ClassVar[bool] = False

    @property
    def hidden_size(self) -> int:
        """Numbers in a state."""
        return len(self.mean_square)

    @property
    def drop_prob(self) -> float:
        """P."""
        return float(self.odds / (1 + self.odds))

    @property
    def nominal_covariance(self) -> DiagonalMatrix:
        """``p / (1 - p)`` times the mean square of each coordinate."""
        return DiagonalMatrix(variances=self.odds * self.mean_square)

    def sample(
        self, states: Float[Tensor, "record hidden"], *, generator: Draws
    ) -> Float[Tensor, "record hidden"]:
        """Drop coordinates of each state afresh."""
        rows = checked_rows(states, name="states", hidden_size=self.hidden_size)
        drawn = even(len(rows), self.hidden_size, generator)
        return torch.where(drawn < self.drop_prob, 0.0, rows * float(1 + self.odds))

    def scaled(self, factor: float) -> "DropoutRelease":
        """``factor`` times the odds of being dropped."""
        _check.positive_finite(factor=factor)
        return DropoutRelease(
            mechanism=self.mechanism,
            budget_nats=self.budget_nats * factor,
            mean_square=self.mean_square,
            odds=self.odds * factor,
        )

    def see_candidates(self, states: Float[Tensor, "record hidden"]) -> tuple[Seen, ...]:
        """The candidates themselves."""
        return (Seen(values=checked_rows(states, name="states", hidden_size=self.hidden_size)),)

    def see_released(self, released: Float[Tensor, "record hidden"]) -> tuple[Seen, ...]:
        """What was kept, at the size that it had."""
        rows = checked_rows(released, name="released", hidden_size=self.hidden_size)
        return (Seen(values=rows / float(1 + self.odds), mask=rows != 0),)

    def implausible(
        self, released: Float[Tensor, "record hidden"], states: Float[Tensor, "record hidden"]
    ) -> str:
        """By the coordinates that were kept."""
        (seen,), (clean,) = self.see_released(released), self.see_candidates(states)
        close = torch.isclose(seen.values, clean.values, rtol=1e-5, atol=0.0)
        assert seen.mask is not None
        return "" if bool((close | ~seen.mask).all()) else "they differ where nothing was dropped"

    def tensors(self) -> dict[str, Tensor]:
        """Mean squares and odds."""
        return {"mean_square": self.mean_square, "odds": self.odds}

    @classmethod
    def restored(
        cls, mechanism: ReleaseMechanism, budget_nats: float, tensors: Mapping[str, Tensor]
    ) -> "DropoutRelease":
        """The inverse of ``tensors``."""
        return cls(
            mechanism=mechanism,
            budget_nats=budget_nats,
            mean_square=tensors["mean_square"],
            odds=tensors["odds"],
        )


@final
@dataclass(frozen=True, kw_only=True)
class Dropout(ReleaseMechanism):
    """One probability for all coordinates. Not Gaussian: no epsilon.

    ``p / (1 - p) sum F_jj E h_j^2 = 2K``.
    """

    kind: ClassVar[str] = "dropout"
    release_type: ClassVar[type[Release]] = DropoutRelease

    def _fit(self, geometry: ReleaseGeometry, budget_nats: float) -> DropoutRelease:
        """The release."""
        mean_square = geometry.states.diagonal() + geometry.mean.square()
        odds = torch.tensor(2 * budget_nats / _cost(geometry, mean_square), dtype=torch.float64)
        return DropoutRelease(
            mechanism=self, budget_nats=budget_nats, mean_square=mean_square, odds=odds
        )


def _cost(geometry: ReleaseGeometry, variances: Tensor) -> float:
    """``sum F_jj v_j``, refused at 0."""
    cost = float(geometry.fisher.diagonal() @ variances)
    if not cost > 0:
        raise InvalidArgumentError(
            "states must vary where the Fisher matrix is above 0, got a cost of 0 for any noise; "
            "estimate it with fisher_shrinkage > 0."
        )
    return cost
