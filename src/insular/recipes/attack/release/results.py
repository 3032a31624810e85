"""What an attack on releases found. Torch-free."""

from dataclasses import dataclass
from typing import Literal, final

from insular.audit.statistics.bounds import EpsilonBound, TradeoffBound
from insular.evidence import ArrayRef
from insular.recipes.attack.release.spec import ReleaseSpec

ReleaseVerdict = Literal["refuted", "not refuted", "undecided"]
ENOUGH = 0.8
"""Chance to see the measured excess below which a run that sees none decides nothing."""


@final
@dataclass(frozen=True, kw_only=True)
class ReleaseShard:
    """Some of the releases of one neighbour."""

    stack: str
    """Name of the stack."""
    with_record: bool
    """Which neighbour."""
    shard: int
    """Position among the shards of that neighbour."""
    n: int
    """Releases."""
    seed: int
    """Of its generator."""
    mean: float
    """Mean of the statistic, in standard deviations of the noise."""
    std: float
    """Its standard deviation: 1 for ideal Gaussian noise."""
    digest: str
    """Digest of the statistic of every release."""
    seconds: float
    """Time that drawing took."""
    scores: ArrayRef | None = None
    """The statistic of every release: ``scores``."""


@final
@dataclass(frozen=True, kw_only=True)
class StackRelease:
    """The releases of one stack, held against what is promised for it."""

    stack: str
    """Name of the stack."""
    ratio: float
    """Distance of the two clipped sums over C, from the float32 sums that got the noise."""
    margin: float
    """How far above 1 the audit counts a ratio as an excess."""
    claimed_mu: float
    """Mu of the promised step, 1 / noise multiplier: the whole curve is the claim."""
    mu: float
    """Mu of the step that ran: ratio / noise multiplier."""
    claimed_epsilons: tuple[float, ...]
    """Epsilon of the promised step at each delta, in nats."""
    shards: tuple[ReleaseShard, ...]
    """Every shard of both neighbours."""
    tradeoff: TradeoffBound
    """The bound that decides."""
    points: tuple[EpsilonBound, ...]
    """The bound at each delta."""
    chance: float | None
    """Probability that so many draws refute the claim, given the ratio; None without an excess."""
    draws_needed: int | None
    """Draws of each neighbour that would refute it with probability 0.95; None without an excess,
    or if it takes more than 1e12."""

    @property
    def draws(self) -> int:
        """Releases of each neighbour."""
        return sum(shard.n for shard in self.shards if shard.with_record)

    @property
    def seconds(self) -> float:
        """Time of all shards."""
        return sum(shard.seconds for shard in self.shards)

    @property
    def releases_per_second(self) -> float:
        """Of one process."""
        return sum(shard.n for shard in self.shards) / self.seconds

    @property
    def excess(self) -> bool:
        """Whether the audit measured more than is promised."""
        return self.ratio > 1 + self.margin

    @property
    def points_refuted(self) -> tuple[bool, ...]:
        """Whether each point is refuted by itself."""
        pairs = zip(self.points, self.claimed_epsilons, strict=True)
        return tuple(bound.falsifies(claimed) for bound, claimed in pairs)

    @property
    def verdict(self) -> ReleaseVerdict:
        """Undecided: an excess was measured, and so few draws would often not show it."""
        if self.tradeoff.falsifies(self.claimed_mu):
            return "refuted"
        if self.excess and (self.chance is None or self.chance < ENOUGH):
            return "undecided"
        return "not refuted"


@final
@dataclass(frozen=True, kw_only=True)
class ReleaseResult:
    """An attack on the releases of an audited pair."""

    spec: ReleaseSpec
    """As it was asked for."""
    record: str
    """Id of the record that one neighbour has and the other has not."""
    n_baseline: int
    """Records of the smaller neighbour."""
    clip_norm: float
    """Bound C, in gradient units."""
    noise_multiplier: float
    """Noise standard deviation over C."""
    expected_batch_size: float
    """Divisor of the noisy sum."""
    n_params: int
    """Coordinates of a released adapter."""
    start: str
    """Where the adapter stands before the step."""
    stacks: tuple[StackRelease, ...]
    """In the order in which they were asked for."""

    @property
    def verdict(self) -> ReleaseVerdict:
        """Refuted if one stack's promise is, undecided if none is and one could not be judged."""
        found = {stack.verdict for stack in self.stacks}
        for verdict in ("refuted", "undecided"):
            if verdict in found:
                return verdict
        return "not refuted"

    @property
    def exit_code(self) -> int:
        """0: not refuted; 1: refuted; 2: undecided."""
        return {"not refuted": 0, "refuted": 1, "undecided": 2}[self.verdict]
