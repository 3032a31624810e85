"""What a private hyperparameter search tried, kept and cost. Torch-free."""

import math
from dataclasses import dataclass
from typing import final

from insular.accounting import PrivacyCost, RepeatAndSelectEvent
from insular.recipes.train.results import Artifact, LedgerEntryRef
from insular.recipes.train.search.spec import Candidate

WINNER = "winner"
"""Name of the results of the run that was kept, a ``TrainResult``. Private, all but its
artifacts."""


@final
@dataclass(frozen=True, kw_only=True)
class SearchDraws:
    """How many runs were drawn, and what each takes. Private: the cost rests on nobody seeing it.

    Written before the first run, so that a search that was killed goes on with the same draws.
    """

    noise_multiplier: float
    """Of every run."""
    choices: tuple[int, ...]
    """Position of each run's settings in the public list; its length is the number of runs."""


@final
@dataclass(frozen=True, kw_only=True)
class SearchRun:
    """One run of a search. Private, all of it: only the winner is paid for."""

    settings: Candidate
    """What was drawn for it."""
    score_nats: float
    """Mean loss per token on public text; infinite where it was not a number."""
    n_releases: int
    """Lines of its log."""
    log_file: str
    """Its log, within the folder."""
    log_sha256: str
    """Digest of the log."""
    differences: tuple[str, ...]
    """Each way in which it was not what was planned; empty if none."""


@final
@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """A search: what was drawn, which run won, and the cost of choosing it."""

    target_epsilon: float | None
    """Epsilon that the noise was calibrated to, for the whole search; None if noise was given."""
    delta: float
    """Delta."""
    delta_reason: str
    """Why this delta."""
    noise_multiplier: float
    """Noise multiplier of every run."""
    event: RepeatAndSelectEvent
    """What the search is to an accountant."""
    cost: PrivacyCost
    """What it costs: the promise, and what a ledger is charged."""
    one_run: PrivacyCost
    """What one run alone would cost, had there been no choice. Not a promise about this adapter."""
    all_runs: PrivacyCost | None
    """Plain composition of the runs that were made: what it would cost to publish all of them.
    Private, as it tells their number; None if there were none."""
    candidates: tuple[Candidate, ...]
    """The public list."""
    base_nats: float | None
    """Loss of the base model on the public text; None if nothing ran."""
    scored_on: str
    """The public text; nothing else entered the choice."""
    runs: tuple[SearchRun, ...]
    """Every run. Private."""
    winner: int | None
    """Position of the run that was kept; None if none was."""
    n_deleted: int
    """Adapters of other runs, deleted: they are not paid for."""
    artifacts: tuple[Artifact, ...]
    """What may leave."""
    ledger: LedgerEntryRef | None
    """Ledger entry of the whole search; None without a ledger."""

    @property
    def epsilon(self) -> float:
        """What the search cost, in nats."""
        return self.cost.epsilon

    @property
    def as_planned(self) -> bool:
        """Whether every run was what was planned."""
        return not any(run.differences for run in self.runs)

    @property
    def exit_code(self) -> int:
        """0: the guarantee is the one that ran; 1: it is not, or nothing is protected."""
        promised = self.cost.standing == "guarantee" and math.isfinite(self.cost.epsilon)
        return 0 if self.as_planned and promised else 1
