"""The whole of one training run. Torch-free: who reads evidence needs no GPU stack."""

import math
from dataclasses import dataclass
from typing import Literal, final

from insular.accounting import PrivacyCost, Relation, Unit
from insular.training.results import ExecutedRun, Liveness, PlannedRun, StepTelemetry


@final
@dataclass(frozen=True, kw_only=True)
class TrainData:
    """What was learnt from, in counts. Private where ``public_units`` says so."""

    name: str
    """Name of the corpus."""
    sha256: str
    """Digest over ids, owners and texts."""
    n_records: int
    """Rows that could be drawn."""
    n_units: int
    """Protected units."""
    largest_share: float
    """Share of the rows that the largest owner has."""
    n_over_limit: int
    """Rows left out because their owner had more than ``records_per_owner``."""
    duplicates_across_owners: int
    """Texts that more than one owner has: what one owner's removal does not remove."""
    n_too_short: int
    """Records left out for being too short to have a next-token loss."""
    n_truncated: int
    """Records that lost their end."""
    lost_tokens: int
    """Tokens that they lost."""
    n_without_owner: int
    """Records dropped, or made their own owner, because none was named."""


@final
@dataclass(frozen=True, kw_only=True)
class IsolationFinding:
    """What the audit of this very stack said before the first step."""

    verdict: Literal["isolated", "coupled", "undecided"]
    """Its verdict."""
    path: str
    """Device, mode, dtype, kernel and shapes that it holds for."""
    sentence: str
    """The finding in one sentence."""
    folder: str
    """Folder of its evidence, within the run's."""
    results_sha256: str
    """Digest of its results."""
    accepted: str
    """Why a coupled stack was accepted; empty where it was not needed."""


@final
@dataclass(frozen=True, kw_only=True)
class Utility:
    """Loss on public text, before and after."""

    text: str
    """The public text."""
    n_records: int
    """Records measured."""
    before_nats: float
    """Mean loss per token of the base model."""
    after_nats: float
    """Mean loss per token of the trained one."""


@final
@dataclass(frozen=True, kw_only=True)
class SpentAt:
    """Epsilon after some releases."""

    n_releases: int
    """Releases so far."""
    epsilon: float
    """Spent, in nats, by the first accountant."""


@final
@dataclass(frozen=True, kw_only=True)
class Artifact:
    """A file that may leave."""

    file: str
    """Path within the run's folder."""
    sha256: str
    """Digest."""
    size_bytes: int
    """Size."""


@final
@dataclass(frozen=True, kw_only=True)
class LedgerEntryRef:
    """What the ledger holds for this run."""

    ledger: str
    """Its path, or its address without a password."""
    population: str
    """Population charged."""
    release: str
    """Name of the release."""
    reserved_epsilon: str
    """Reserved, as an exact decimal."""
    reserved_delta: str
    """Reserved, as an exact decimal."""
    committed_epsilon: str
    """Committed, as an exact decimal."""
    committed_delta: str
    """Committed, as an exact decimal."""
    head: str
    """``NUMBER:SHA256`` of the last entry after the commit."""


@final
@dataclass(frozen=True, kw_only=True)
class TrainResult:
    """A private training run: what was planned, what ran, what it cost, what it made."""

    unit: Unit
    """Whose presence the guarantee hides."""
    owner_field: str
    """Field that named the owner; empty where each record is its own unit."""
    relation: Relation
    """Neighbouring data sets."""
    target_epsilon: float | None
    """The epsilon that noise was calibrated to; None if noise was given."""
    delta: float
    """Delta."""
    delta_reason: str
    """Why this delta, against the number of units."""
    planned: PlannedRun
    """The plan."""
    executed: ExecutedRun
    """What ran."""
    costs: tuple[PrivacyCost, ...]
    """What it cost, by accountant; the first one is the promise."""
    epsilon_path: tuple[SpentAt, ...]
    """Epsilon as it grew."""
    isolation: IsolationFinding
    """Verdict on the stack."""
    liveness: Liveness
    """Whether training happened."""
    telemetry: tuple[StepTelemetry, ...]
    """Every step. Private, and outside the guarantee."""
    utility: Utility | None
    """Loss on public text; None if none was named."""
    data: TrainData
    """What was learnt from."""
    model: str
    """Base model."""
    model_digest: str
    """Digest of its weights."""
    backbone: str
    """How the frozen layers computed."""
    optimiser: str
    """Optimiser and schedule in words."""
    n_trainable: int
    """Trainable coordinates."""
    clipping: str
    """The clipping rule in words."""
    noise: str
    """The noise generator in words."""
    artifacts: tuple[Artifact, ...]
    """What may leave."""
    ledger: LedgerEntryRef | None
    """Ledger entry; None without a ledger."""
    seconds: float
    """Time in steps."""

    @property
    def epsilon(self) -> float:
        """What was spent, in nats."""
        return self.costs[0].epsilon

    @property
    def as_planned(self) -> bool:
        """Whether what ran is what was planned, and everything learnt."""
        return not self.executed.differences and self.liveness.alive

    @property
    def exit_code(self) -> int:
        """0: the guarantee is the one that ran; 1: it is not, or nothing is protected."""
        cost = self.costs[0]
        promised = cost.standing == "guarantee" and math.isfinite(cost.epsilon)
        return 0 if self.as_planned and promised else 1
