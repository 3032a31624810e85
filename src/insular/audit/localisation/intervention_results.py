"""What happens to a measured pair when outlier sets are held fixed. Torch-free."""

from dataclasses import dataclass
from typing import Literal, final

from insular.audit.localisation.places import block_of, kind_of
from insular.evidence import ArrayRef

Batch = Literal["D", "D'"]
"""The baseline batch, or the same with the candidate."""


@final
@dataclass(frozen=True, kw_only=True)
class UnionChange:
    """One int8 layer whose union is not the same in the two batches."""

    layer: str
    """Plain name of the layer."""
    n_base: int
    """Columns of the union in D."""
    entered: tuple[int, ...]
    """Input columns that are in the union of D' only."""
    left: tuple[int, ...]
    """Input columns that are in the union of D only: earlier changes moved a record below the
    threshold."""
    by_candidate: int
    """Entered columns that only the candidate's own rows reach."""

    @property
    def block(self) -> int | None:
        """Number of the decoder block, or None outside the blocks."""
        return block_of(self.layer)

    @property
    def kind(self) -> str:
        """What the layer is in its block, such as ``mlp.down_proj``."""
        return kind_of(self.layer)


@final
@dataclass(frozen=True, kw_only=True)
class Intervention:
    """The pair again, with the outlier sets of some layers held fixed in forward and backward."""

    name: str
    """What was done, in words."""
    ratio: float
    """Distance of the clipped sums over the run's own radius."""
    n_altered: int
    """Common records whose gradient still differs."""
    largest_change: float
    """Largest change of a common record's clipped contribution, in C."""
    n_layers: int
    """Layers that kept the union."""
    problem: str = ""
    """Why it could not be done, or empty; then the numbers are 0 and do not count."""
    gradients: ArrayRef | None = None
    """Saved gradients: ``base`` and ``with``."""

    @property
    def valid(self) -> bool:
        """Whether the numbers count."""
        return not self.problem


@final
@dataclass(frozen=True, kw_only=True)
class FactorialCell:
    """One forward of D in which one layer got the values and the mask of either batch."""

    values: Batch
    """Where the common records' activations at the layer came from."""
    mask: Batch
    """Whose union chose the columns."""
    logit_max: float
    """Largest change of a common record's logit from D as it is."""
    logit_l2: float
    """L2 norm of all changes."""
    problem: str = ""
    """Why the cell was rejected, or empty; then the numbers are 0 and do not count."""


@final
@dataclass(frozen=True, kw_only=True)
class Interventions:
    """Every intervention on one pair."""

    unions: tuple[UnionChange, ...]
    """Layers whose union changed, in order of execution."""
    n_layers: int
    """Int8 layers that take a union."""
    exact: bool
    """Whether the replaced product, with the union everywhere, gave the native gradients of both
    batches to the last bit; if not, the interventions are estimates."""
    steps: tuple[Intervention, ...]
    """The interventions, the unchanged pair first."""
    factorial_layer: str
    """First layer whose union changed; empty if none did."""
    values_equal: bool
    """Whether the common records' activations there are the same in both batches, to the last
    bit."""
    factorial: tuple[FactorialCell, ...]
    """Values x masks at that layer."""

    def step(self, name: str) -> Intervention | None:
        """An intervention by name.

        Args:
            name: Its words.

        Returns:
            The intervention, or None.
        """
        return next((step for step in self.steps if step.name == name), None)
