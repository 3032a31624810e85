"""What a game against whole training runs found. Torch-free."""

from dataclasses import dataclass
from typing import Literal, final

from insular.accounting import Event, Relation, TradeoffCurve, Unit
from insular.audit.spec import Direction
from insular.audit.statistics.bounds import EpsilonBound, TradeoffBound, promised_rate
from insular.evidence import ArrayRef

GameName = Literal["canaries", "pair"]
"""Planted canaries, or the record of a pair that an audit found."""
TrainingVerdict = Literal["refuted", "not refuted", "undecided"]
Score = Literal["likelihood", "spread"]
SCORES: tuple[Score, ...] = ("likelihood", "spread")
"""Each canary's scores: the log-likelihood ratio under the promise, the spread over the steps."""
ENOUGH = 0.8
"""Chance to see the excess below which a game that sees none decides nothing."""


@final
@dataclass(frozen=True, kw_only=True)
class GameShard:
    """Some of the repetitions of a game."""

    game: GameName
    """Which game."""
    shard: int
    """Its position."""
    n_games: int
    """Training runs that were repeated."""
    n_without: int
    """Scores of canaries that were not in the data."""
    n_with: int
    """Scores of those that were."""
    digest_without: str
    """Digest of the former."""
    digest_with: str
    """Digest of the latter."""
    seconds: float
    """Time that they took."""
    scores: ArrayRef | None = None
    """The scores, ``without`` and ``with``: a row for each of ``SCORES``."""


@final
@dataclass(frozen=True, kw_only=True)
class GameFinding:
    """One game, held against what is promised."""

    game: GameName
    """Which game."""
    stack: str
    """Stack of the pair; empty for canaries."""
    n_canaries: int
    """Canaries of each repetition."""
    n_params: int
    """Coordinates that got noise; 1 for a pair is the direction of the difference alone."""
    ratio: float
    """How far the unit moves a clipped sum, over the sensitivity that is promised."""
    score: Score
    """The score that shows most."""
    tradeoff: TradeoffBound
    """Its bound, held against the whole curve."""
    allowed_rate: float
    """The most true positives that the promised curve allows at the bound's false positives."""
    curve_refuted: bool
    """Whether the attacker finds more."""
    point: EpsilonBound
    """The bound at the promised delta."""
    claimed_epsilon: float
    """The promise there, in nats."""
    largest_epsilon: float
    """The most that so many scores could prove there, of a perfect attack."""
    excess: float | None
    """Sensitivity over the promised one that ``chance`` is for; None where none was measured."""
    chance: float | None
    """Probability that so many scores refute the curve if a unit weighs ``excess``."""
    draws_needed: int | None
    """Scores of each kind that do it with probability 0.95; None if it takes more than 1e8."""
    shards: tuple[GameShard, ...]
    """Every shard."""

    @property
    def n_games(self) -> int:
        """Training runs that were repeated."""
        return sum(shard.n_games for shard in self.shards)

    @property
    def n_scores(self) -> int:
        """Scores of both kinds."""
        return sum(shard.n_without + shard.n_with for shard in self.shards)

    @property
    def seconds(self) -> float:
        """Time of all shards."""
        return sum(shard.seconds for shard in self.shards)

    @property
    def games_needed(self) -> int | None:
        """Repetitions that give the scores that are needed."""
        if self.draws_needed is None:
            return None
        return -(-2 * self.draws_needed // self.n_canaries)

    @property
    def point_refuted(self) -> bool:
        """Whether the one point (epsilon, delta) is refuted by itself."""
        return self.point.falsifies(self.claimed_epsilon)

    @property
    def verdict(self) -> TrainingVerdict:
        """Undecided: so few scores would often not show the excess."""
        if self.curve_refuted or self.point_refuted:
            return "refuted"
        if self.excess is not None and (self.chance is None or self.chance < ENOUGH):
            return "undecided"
        return "not refuted"


@final
@dataclass(frozen=True, kw_only=True)
class TrainingAttackResult:
    """A white-box audit of a training run: every noisy sum seen, the composed promise tested."""

    run: str
    """Folder of the run."""
    event: Event
    """What the run says that it did: the promise."""
    unit: Unit
    """Whose presence is to be hidden."""
    relation: Relation
    """Neighbouring data sets."""
    steps: int
    """Steps of each repetition."""
    sampler: str
    """Sampler of the run."""
    clip_norm: float
    """Bound C, in gradient units."""
    noise_std: float
    """Standard deviation of the noise on the sum."""
    direction: Direction
    """Of the canaries."""
    claim: TradeoffCurve
    """The promised curve."""
    delta: float
    """Delta of the promised point."""
    claimed_epsilon: float
    """Its epsilon, in nats."""
    significance: float
    """Error probability of everything that is refuted, together."""
    games: tuple[GameFinding, ...]
    """Canaries first."""

    @property
    def verdict(self) -> TrainingVerdict:
        """Refuted if one game refutes, undecided if none does and one could not say."""
        found = {game.verdict for game in self.games}
        for verdict in ("refuted", "undecided"):
            if verdict in found:
                return verdict
        return "not refuted"

    @property
    def exit_code(self) -> int:
        """0: not refuted; 1: refuted; 2: undecided."""
        return {"not refuted": 0, "refuted": 1, "undecided": 2}[self.verdict]


def beyond(bound: TradeoffBound, claim: TradeoffCurve) -> tuple[float, bool]:
    """What a promise allows at a bound's false positives, and whether the attacker finds more.

    Args:
        bound: The bound.
        claim: The promise.

    Returns:
        The allowed true positive rate, and whether it is exceeded.
    """
    return promised_rate(claim, bound.fpr.upper), bound.falsifies(claim)
