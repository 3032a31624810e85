"""What a vector index of released states loses, and what it still tells. Torch-free."""

from dataclasses import dataclass
from typing import Literal, final

from insular.hidden.states.storage_spec import StorageFormat
from insular.hidden.utility.intervals import MeanInterval

StoreAttacker = Literal["plain", "aware", "cells"]
"""Who says whose a kept row is.

    plain   compares kept rows with clean states
    aware   knows mechanism and storage format, and compares with what they make of clean states
    cells   the same, number by number: which noise would have moved a state into the stored cells
"""


@final
@dataclass(frozen=True, kw_only=True)
class StoreAttack:
    """How many kept rows an attacker names the prompt of."""

    attacker: StoreAttacker
    """Who."""
    top1: MeanInterval
    """Share of the queries' kept rows. Of candidates equally near, one is named at random, and its
    chance counts; copies of one prompt are one candidate."""
    n_tied: int
    """Rows whose true prompt is nearest, but another one, no copy of it, is exactly as near."""


@final
@dataclass(frozen=True, kw_only=True)
class StoreResult:
    """What a mechanism and a storage format cost a vector index, and what the index still tells."""

    mechanism: str
    """Kind of the release mechanism; ``"none"`` for clean states."""
    budget_nats: float | None
    """Its first-order budget; None for clean states."""
    storage: StorageFormat
    """Format of what is kept."""
    index: str
    """Kind of the index."""
    k: int
    """Neighbours of a search."""
    n_states: int
    """States in the index."""
    n_duplicates: int
    """States that are copies of another one; the others are the attacker's candidates."""
    state_bytes: int
    """Bytes that the format takes for one state."""
    recall: MeanInterval
    """Share of the clean index's k neighbours that are still found, mean over queries, which are
    states of the index. A copy of a neighbour, or a state as near, is a neighbour; the state that
    is searched with is none."""
    attacks: tuple[StoreAttack, ...]
    """What each attacker names."""
    seed: int
    """Of noise and intervals."""

    @property
    def recall_lost(self) -> float:
        """Share of neighbours that are no longer found."""
        return 1 - self.recall.mean

    @property
    def attack_top1(self) -> MeanInterval:
        """Share of kept rows whose prompt the best attacker names."""
        return self.best_attack.top1

    @property
    def best_attack(self) -> StoreAttack:
        """The attack that names most."""
        return max(self.attacks, key=lambda attack: attack.top1.mean)

    @property
    def n_candidates(self) -> int:
        """Different states."""
        return self.n_states - self.n_duplicates
