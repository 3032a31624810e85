"""What an attacker compares of a released trajectory: cells of a storage, or noise of a law."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Float
from scipy.special import gammainccinv
from torch import Tensor

from insular.errors import InvalidArgumentError
from insular.hidden.matrices.covariance import DiagonalMatrix, PsdMatrix
from insular.hidden.mechanisms import DropoutRelease, GaussianRelease, QuantizedRelease, Release
from insular.hidden.states.storage import StoredStates

SHARPNESS = 20.0
"""Nats that an e-fold larger distance costs where the noise has no known size."""
FIT_LIMIT = 30.0
"""Exact states fit where they are within this of the rounding seen so far."""
FARTHEST = 0.1
"""No arithmetic moves a state by more than this share of its length."""
_SMOOTHING = 10.0
_FALSE_ALARM = 1e-6


class View(ABC):
    """A trajectory as seen by who inverts it."""

    values: Float[Tensor, "token hidden"]
    """Best single guess of each state."""
    observed: Bool[Tensor, " token"]
    """Positions with a state."""
    noisy: bool
    """Whether the distances follow a known law, so that the prior's nats can be added."""

    @property
    def n_tokens(self) -> int:
        """Length of the prompt."""
        return len(self.values)

    @abstractmethod
    def distances(
        self, position: int, states: Float[Tensor, "candidate hidden"]
    ) -> Float[Tensor, " candidate"]:
        """Distance of candidate states from what was released."""

    @abstractmethod
    def scores(self, distances: Float[Tensor, " candidate"]) -> Float[Tensor, " candidate"]:
        """Log-likelihood of each distance, in nats up to a constant."""

    @abstractmethod
    def fits(self, distance: float, seen: Sequence[float]) -> bool:
        """Whether a true state can be so far off, given the distances before; NaN: no state."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class ExactView(View):
    r"""States that were only rounded: candidates lie in their cells or do not.

    The distance is what lies outside the cell, over the state's length. Its law is unknown
    (other kernels, batches, padding), so the score depends on ratios of distances alone:
    :math:`-\kappa \log \sqrt{r^2 + (10 \phi)^2}`, phi the rounding of one model run in two ways.
    """

    values: Float[Tensor, "token hidden"]
    """What was read, NaN where nothing was kept."""
    half_cells: Float[Tensor, "token hidden"]
    """Half the width of each cell."""
    observed: Bool[Tensor, " token"]
    """Positions with a state."""
    rounding: float
    """Relative rounding phi of the model's own arithmetic."""
    mask: Bool[Tensor, "token hidden"] | None = None
    """Coordinates that say anything; all where this is None."""

    @property
    def noisy(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The distances have no known law."""
        return False

    def distances(
        self, position: int, states: Float[Tensor, "candidate hidden"]
    ) -> Float[Tensor, " candidate"]:
        """What lies outside the cell, over the length of the state."""
        seen = self.values[position]
        outside = ((states - seen).abs() - self.half_cells[position]).clamp(min=0)
        if self.mask is not None:
            outside = outside * self.mask[position]
        return outside.double().norm(dim=1) / max(float(seen.double().norm()), 1e-30)

    def scores(self, distances: Float[Tensor, " candidate"]) -> Float[Tensor, " candidate"]:
        """``-kappa log sqrt(r^2 + (10 phi)^2)``: a few times the rounding tells nothing apart."""
        floor = _SMOOTHING * self.rounding
        return -SHARPNESS / 2 * (distances.square() + floor**2).log()

    def fits(self, distance: float, seen: Sequence[float]) -> bool:
        """By the larger of the model's rounding and the least distance so far."""
        # another kernel or dtype moves all states alike; a wrong token moves those after it
        least = min((one for one in seen if not math.isnan(one)), default=0.0)
        allowed = FIT_LIMIT * max(self.rounding, least)
        return distance <= min(allowed, FARTHEST)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class GaussianView(View):
    """States with Gaussian noise of known covariance, stored or not: the distance is D."""

    values: Float[Tensor, "token hidden"]
    """What was read, NaN where nothing was kept."""
    observed: Bool[Tensor, " token"]
    """Positions with a state."""
    covariance: PsdMatrix
    """Of noise and storage together, of full rank."""

    @property
    def noisy(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The distances follow the chi law."""
        return True

    def distances(
        self, position: int, states: Float[Tensor, "candidate hidden"]
    ) -> Float[Tensor, " candidate"]:
        """``sqrt((z - h)' S^-1 (z - h))``."""
        return self.covariance.whiten(states.double() - self.values[position].double()).norm(dim=1)

    def scores(self, distances: Float[Tensor, " candidate"]) -> Float[Tensor, " candidate"]:
        """``-D^2 / 2``."""
        return -distances.square() / 2

    def fits(self, distance: float, seen: Sequence[float]) -> bool:
        """By the chi-squared law: a true state fails with a probability of 1e-6."""
        del seen
        limit = 2 * float(gammainccinv(self.covariance.rank / 2, _FALSE_ALARM))
        return distance**2 <= limit


def make_view(stored: StoredStates, *, rounding: float, release: Release | None = None) -> View:
    """What an attacker who knows mechanism and storage compares.

    Args:
        stored: The released states as read back.
        rounding: Relative rounding of the model's own arithmetic, as the token table measured it.
        release: The mechanism that was applied before storing; None for clean states.

    Returns:
        The view.

    Raises:
        InvalidArgumentError: If the mechanism is for another size, or of a kind without an
            inversion.
    """
    if release is not None and release.hidden_size != stored.values.shape[1]:
        raise InvalidArgumentError(
            f"states must have the mechanism's hidden size {release.hidden_size}, got "
            f"{stored.values.shape[1]}."
        )
    if isinstance(release, GaussianRelease):
        kept = stored.values[stored.kept]
        floor = rounding**2 * float(kept.double().square().mean(1).median()) if len(kept) else 0.0
        covariance = release.covariance.plus_identity(
            max(stored.rounding_variance + floor, torch.finfo(torch.float32).tiny)
        )
        return GaussianView(values=stored.values, observed=stored.kept, covariance=covariance)
    half, values, mask = stored.half_cells, stored.values, None
    if isinstance(release, QuantizedRelease):
        half = half + (release.steps / 2).to(half.dtype)
    elif isinstance(release, DropoutRelease):
        keep = 1 - release.drop_prob
        mask, half, values = values != 0, half * keep, values * keep
    elif release is not None:
        raise InvalidArgumentError(
            f"mechanism must be Gaussian, quantised or dropout to be inverted, got "
            f"{release.mechanism.kind}."
        )
    return ExactView(
        values=values, half_cells=half, observed=stored.kept, rounding=rounding, mask=mask
    )


def ranking_covariance(view: View) -> PsdMatrix | None:
    """What the view adds to the table's residual covariance.

    Args:
        view: The view.

    Returns:
        The covariance; None where it adds nothing.
    """
    if isinstance(view, GaussianView):
        return view.covariance
    assert isinstance(view, ExactView)
    if not bool(view.observed.any()):
        return None
    amount = float((view.half_cells[view.observed].square() / 3).mean(1).median())
    if not amount > 0 or not math.isfinite(amount):
        return None
    size = view.values.shape[1]
    return DiagonalMatrix(variances=torch.full((size,), amount, dtype=torch.float64))
