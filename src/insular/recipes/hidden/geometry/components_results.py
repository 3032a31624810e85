"""Which part of a layer's states the prediction lives in, and how near prompts are. Torch-free."""

from dataclasses import dataclass
from typing import Literal, final

from insular.hidden.states.numerics_results import StateShift
from insular.hidden.utility.results import ProjectionResult, TransplantResult


@final
@dataclass(frozen=True, kw_only=True)
class ComponentsResult:
    """One layer's states, taken apart along the directions that the model reads most."""

    layer: int
    """Output of that block, from 0."""
    uncentred: ProjectionResult
    """Parts about zero: P h, or the rest."""
    centred: ProjectionResult
    """Parts about the mean mu of the fitting states: mu + P (h - mu), or the rest."""
    transplants: TransplantResult
    """Parts of another prompt's state, about zero."""
    nearest_relative: float
    """Least distance of a query's state to another candidate's, over the longer one's length."""
    nearest_median_relative: float
    """Median over the queries of the same distance to each one's nearest candidate."""
    n_nearest: int
    """Queries that these two are of."""

    def carrier(self, *, centred: bool) -> Literal["inside", "outside"] | None:
        """The part that keeps more of the prediction, read by the remaining layers.

        Guarantees:
            * No part is named where the intervals of the two KLs overlap.

        Args:
            centred: Whether parts are about the mean, or about zero.

        Returns:
            It, or None if these prompts do not tell.
        """
        found = self.centred if centred else self.uncentred
        inside, outside = (found.entry("injection", part).kl_nats for part in ("inside", "outside"))
        if inside.overlaps(outside):
            return None
        return "inside" if inside.mean < outside.mean else "outside"

    @property
    def centring_decides(self) -> bool:
        """Whether one centring names the one part and the other centring the other."""
        named = {self.carrier(centred=True), self.carrier(centred=False)}
        return named == {"inside", "outside"}

    def keeps_apart(self, shift: StateShift) -> bool:
        """Whether a move of that length leaves every prompt nearest to itself.

        Args:
            shift: How far states moved at this layer.

        Returns:
            True if twice the largest move is below the least distance of two prompts.
        """
        return 2 * shift.max_relative < self.nearest_relative
