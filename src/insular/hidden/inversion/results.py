"""What an inversion recovered, prompt by prompt and on the whole. Torch-free."""

from dataclasses import dataclass
from typing import Literal, final

from insular.hidden.inversion.spec import InversionSpec
from insular.hidden.states.storage_spec import StorageFormat
from insular.hidden.utility.calibration_results import CalibrationStatus
from insular.hidden.utility.intervals import MeanInterval

TokenStatus = Literal["accepted", "ambiguous", "doubtful", "unobserved"]
"""How sure a recovered token is.

    accepted     its state fits, and no other hypothesis is within the margin
    ambiguous    another hypothesis is within the margin
    doubtful     its state fits nothing that was tried
    unobserved   no state at or after it was kept: the prior's guess
"""

InversionStatus = CalibrationStatus | Literal["clean", "given", "not fitted"]
"""What the states of a cell went through, or why there are none.

    clean        no mechanism
    given        a release from a file, applied here or before
    reached      fitted here, at the measured KL that was asked for
    not fitted   the mechanism has no release for this layer
    others       no scale has the KL, as a calibration says
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
        """Whether every token up to the last kept state is right; None without truth.

        What comes after it has left no trace: no attacker could read it.
        """
        if self.correct is None:
            return None
        pairs = zip(self.statuses, self.correct, strict=True)
        traced = [right for status, right in pairs if status != "unobserved"]
        return bool(traced) and all(traced)

    @property
    def tokens_right(self) -> float:
        """Share of all tokens that are right; 0 without truth."""
        return sum(self.correct) / len(self.correct) if self.correct else 0.0

    @property
    def certain(self) -> bool:
        """Whether every token up to the last kept state was accepted."""
        return set(self.statuses) - {"unobserved"} == {"accepted"}


@final
@dataclass(frozen=True, kw_only=True)
class InversionCell:
    """One layer, mechanism and storage, and the prompts that were read behind them."""

    layer: int
    """The output of that block, from 0."""
    mechanism: str
    """Kind of the release mechanism; ``"none"`` for clean states."""
    storage: StorageFormat
    """How the states were kept."""
    every: int
    """Positions 0, g, 2 g, ... were kept."""
    status: InversionStatus
    """Whether there is such a release; prompts are there only if there is."""
    reason: str = ""
    """Why it was not fitted."""
    scale: float | None = None
    """Noise over that of the nominal budget; None unless it was scaled here."""
    kl: MeanInterval | None = None
    """Measured KL at that scale, in nats, over the calibration prompts."""
    budget_nats: float | None = None
    """First-order budget of the release; None for clean states."""
    rounding: float
    """Relative rounding of the model's own arithmetic at the layer."""
    prompts: tuple[PromptInversion, ...] = ()
    """Each prompt."""
    exact_match: MeanInterval | None = None
    """Share of prompts recovered exactly up to their last kept state, Clopper-Pearson; None without
    truth or for one prompt."""
    token_accuracy: MeanInterval | None = None
    """Share of tokens that are right, mean over prompts with a bootstrap interval."""
    ranked_first: float | None = None
    """Share of kept positions at which the true token stood first in the ranking."""
    candidates_per_token: float = 0.0
    """Mean number of continuations that were run."""
    seconds_per_token: float = 0.0
    """Median over prompts."""

    @property
    def n_exact(self) -> int | None:
        """Prompts recovered exactly; None without truth."""
        known = [one.exact for one in self.prompts if one.exact is not None]
        return sum(known) if known else None

    @property
    def n_certain(self) -> int:
        """Prompts of which every token up to the last kept state was accepted."""
        return sum(one.certain for one in self.prompts)

    @property
    def n_read(self) -> int:
        """Prompts recovered exactly, or without truth and without a doubt."""
        return sum(one.certain if one.exact is None else one.exact for one in self.prompts)

    @property
    def read_share(self) -> float:
        """The same as a share of the prompts."""
        return self.n_read / max(len(self.prompts), 1)

    @property
    def tokens_right(self) -> float | None:
        """Share of all tokens that are right; None without truth."""
        known = [right for one in self.prompts for right in one.correct or ()]
        return sum(known) / len(known) if known else None

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


@final
@dataclass(frozen=True, kw_only=True)
class InversionResult:
    """Exact inversion of stored states: by layer, mechanism and storage, over the same prompts."""

    model: str
    """The model."""
    target_kl_nats: float
    """Measured KL that every mechanism was scaled to."""
    spec: InversionSpec
    """How was searched."""
    cells: tuple[InversionCell, ...]
    """Each layer, mechanism and storage."""
    seed: int
    """Noise, intervals and the choice of prompts follow from it."""
    notes: tuple[str, ...] = ()
    """What a reader must know besides."""

    @property
    def attacked(self) -> tuple[InversionCell, ...]:
        """Cells with prompts."""
        return tuple(cell for cell in self.cells if cell.prompts)

    @property
    def worst(self) -> InversionCell | None:
        """The cell of which most was read; None if nothing was attacked."""
        return max(
            self.attacked,
            key=lambda cell: (cell.read_share, cell.tokens_right or 0.0),
            default=None,
        )

    @property
    def silent_errors(self) -> int | None:
        """Wrong tokens that were called accepted, in all cells; None without truth."""
        known = [cell.silent_errors for cell in self.cells if cell.silent_errors is not None]
        return sum(known) if known else None

    @property
    def exit_code(self) -> int:
        """1 if a prompt of any cell was read, 0 if none was, 2 if nothing shows whether one was."""
        if any(cell.n_read for cell in self.cells):
            return 1
        return 0 if any(cell.n_exact is not None for cell in self.cells) else 2
