"""What indexes of released states lose and tell. Torch-free."""

from dataclasses import dataclass
from typing import final

from insular.hidden.states.storage_spec import StorageFormat
from insular.hidden.store.results import StoreResult
from insular.recipes.hidden.spec import NO_MECHANISM
from insular.recipes.hidden.sweep.results import CellStatus


@final
@dataclass(frozen=True, kw_only=True)
class StoreCell:
    """One index: states of one layer, through one mechanism, kept in one format."""

    layer: int | None
    """Layer of the states; None for states of a file."""
    mechanism: str
    """Name of the mechanism; ``"none"`` for clean states."""
    storage: StorageFormat
    """Format of what is kept."""
    status: CellStatus
    """Whether the mechanism was scaled to its target; only then, or without one, is there more."""
    target_kl_nats: float | None = None
    """KL that it was scaled to; None for clean states and for a release of a file."""
    kl_nats: float | None = None
    """KL on the calibration prompts, before storage."""
    reason: str = ""
    """Why it was not fitted."""
    measured: StoreResult | None = None
    """What was lost and told."""
    seconds: float = 0.0
    """Wall-clock time of writing, searching and attacking."""

    @property
    def released(self) -> bool:
        """Whether writes went through a mechanism."""
        return self.mechanism != NO_MECHANISM


@final
@dataclass(frozen=True, kw_only=True)
class StoreCells:
    """The indexes of one layer and mechanism."""

    cells: tuple[StoreCell, ...]
    """One a storage format."""


@final
@dataclass(frozen=True, kw_only=True)
class HiddenStoreResult:
    """Every index of a run."""

    model: str
    """What was loaded; empty for states of a file."""
    model_digest: str
    """Digest of its files."""
    source: str
    """The text, or the file of states."""
    significance: float
    """Error probability of each interval."""
    cells: tuple[StoreCell, ...]
    """Every index, layer by layer and mechanism by mechanism."""

    @property
    def measured(self) -> tuple[tuple[StoreCell, StoreResult], ...]:
        """Indexes that were measured."""
        return tuple((cell, cell.measured) for cell in self.cells if cell.measured is not None)

    @property
    def exit_code(self) -> int:
        """0 if every index was measured, else 2."""
        return 0 if len(self.measured) == len(self.cells) else 2

    @property
    def telling(self) -> tuple[StoreCell, ...]:
        """Indexes whose rows are named more often than by guessing, beyond the interval."""
        return tuple(
            cell
            for cell, found in self.measured
            if any(attack.top1.low > 1 / found.n_candidates for attack in found.attacks)
        )
