"""What the second computation of an audit's distances found. Torch-free."""

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, kw_only=True)
class Reconciliation:
    """Every distance that has saved gradients, computed again from those alone."""

    n_distances: int
    """Distances that were computed again."""
    n_unsaved: int
    """Distances of attempts whose gradients were not kept, which could not be."""
    largest_difference: float
    """Largest difference from the reported value: absolute up to 1, relative above it."""
    tolerance: float
    """Largest difference that counts as the same."""
    mismatches: tuple[str, ...]
    """Names of the distances that differ by more; any fails the run."""

    @property
    def agrees(self) -> bool:
        """Whether every distance came out the same."""
        return not self.mismatches
