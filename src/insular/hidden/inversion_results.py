"""What an inversion recovered, prompt by prompt and on the whole. Torch-free."""

from dataclasses import dataclass
from typing import Literal, final

from insular.hidden.intervals import MeanInterval
from insular.hidden.inversion_spec import InversionSpec
from insular.hidden.storage_spec import StorageFormat

TokenStatus = Literal["accepted", "ambiguous", "doubtful", "unobserved"]
"""How sure a recovered token is.

    accepted     its state fits, and no other hypothesis is within the margin
    ambiguous    another hypothesis is within the margin
    doubtful     its state fits nothing that was tried
    unobserved   no state at or after it was kept: the prior's guess
"""


@final
@dataclass(frozen=True, kw_only=True)
class PromptInversion:
    """One prompt. Holds text only if that was asked for."""

    record_id: str
    """The record."""
    statuses: tuple[TokenStatus, ...]
    """How sure each token is."""
    correct: tuple[bool, ...] | None
    """Which tokens are right; None without truth."""
    true_ranks: tuple[int | None, ...]
    """Place of each true token in the first-order ranking, from 1."""
    tried: tuple[int, ...]
    """Continuations that were run at each position."""
    opened: int
    """How often earlier choices were opened again."""
    seconds: float
    """Time that it took."""
    recovered_text: str | None = None
    """What was read; None unless asked for."""
    true_text: str | None = None
    """What it was; None unless asked for."""

    @property
    def n_tokens(self) -> int:
        """Length of the prompt."""
        return len(self.statuses)

    @property
    def exact(self) -> bool | None:
        """Whether every token is right; None without truth."""
        return None if self.correct is None else all(self.correct)

    @property
    def certain(self) -> bool:
        """Whether every token was accepted."""
        return all(status == "accepted" for status in self.statuses)


@final
@dataclass(frozen=True, kw_only=True)
class InversionResult:
    """Exact inversion of stored states, over prompts."""

    model: str
    """The model."""
    layer: int
    """The output of that block, from 0."""
    storage: StorageFormat
    """How the states were kept."""
    every: int
    """Positions 0, g, 2 g, ... were kept."""
    mechanism: str
    """Kind of the release mechanism; ``"none"`` for clean states."""
    budget_nats: float | None
    """Its first-order budget; None for clean states."""
    spec: InversionSpec
    """How was searched."""
    rounding: float
    """Relative rounding of the model's own arithmetic at the layer."""
    prompts: tuple[PromptInversion, ...]
    """Each prompt."""
    exact_match: MeanInterval | None
    """Share of prompts recovered exactly, Clopper-Pearson; None without truth or for one prompt."""
    token_accuracy: MeanInterval | None
    """Share of tokens that are right, mean over prompts with a bootstrap interval."""
    ranked_first: float | None
    """Share of positions at which the true token stood first in the ranking."""
    candidates_per_token: float
    """Mean number of continuations that were run."""
    seconds_per_token: float
    """Median over prompts."""
    seed: int
    """Noise, intervals and the choice of prompts follow from it."""
    notes: tuple[str, ...] = ()
    """What a reader must know besides."""

    @property
    def n_exact(self) -> int | None:
        """Prompts recovered exactly; None without truth."""
        known = [one.exact for one in self.prompts if one.exact is not None]
        return sum(known) if known else None

    @property
    def n_certain(self) -> int:
        """Prompts of which every token was accepted."""
        return sum(one.certain for one in self.prompts)

    @property
    def silent_errors(self) -> int | None:
        """Wrong tokens that were called accepted; None without truth."""
        if self.n_exact is None:
            return None
        return sum(
            status == "accepted" and not right
            for one in self.prompts
            if one.correct is not None
            for status, right in zip(one.statuses, one.correct, strict=True)
        )

    @property
    def exit_code(self) -> int:
        """0 if no prompt was read, 1 if one was, 2 if nothing shows whether one was."""
        if self.n_exact is not None:
            return int(self.n_exact > 0)
        return 1 if self.n_certain else 2


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
    k: int
    """Neighbours of a search."""
    n_states: int
    """States in the index, which are also the attacker's candidates."""
    recall: MeanInterval
    """Share of the clean index's k neighbours that are still found, mean over queries."""
    attack_top1: MeanInterval
    """Share of kept rows whose candidate the attacker names."""
    seed: int
    """Of noise and intervals."""

    @property
    def recall_lost(self) -> float:
        """Share of neighbours that are no longer found."""
        return 1 - self.recall.mean
