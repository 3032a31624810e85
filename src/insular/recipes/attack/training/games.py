"""The games against one training run as tasks: what is played, its shards, what is stored."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, final

from insular.accounting import TradeoffCurve, tradeoff_curve
from insular.accounting.events import Event
from insular.audit.spec import Direction
from insular.audit.training.game import Mixture, ScoreRule, play, spread
from insular.audit.training.results import GameName, GameShard
from insular.errors import UnsupportedEventError
from insular.evidence import ArrayRef, digest_array
from insular.recipes.audit.sensitivity import Report
from insular.recipes.parallel import Job, intra_op_threads
from insular.recipes.tasks import Output, Task
from insular.recipes.train.spec import TrainSpec
from insular.training.results import PlannedRun, SamplerFacts

if TYPE_CHECKING:
    import numpy as np

    from insular.recipes.attack.canary_training import CanaryTraining
    from insular.recipes.attack.training.pair import PairTraining

PAIR_SHARD_GAMES = 1000
"""Repetitions of a shard of the pair."""
LINES = 10
"""Lines of progress of a shard."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Game:
    """One game against a training run."""

    name: GameName
    """Which."""
    train: TrainSpec
    """The run."""
    plan: PlannedRun
    """What it did."""
    n_canaries: int
    """Canaries of each repetition."""
    repetitions: int
    """How often training is repeated."""
    shard_games: int
    """Repetitions of a shard."""
    direction: Direction = "dirac"
    """Of the canaries."""
    stack: str = ""
    """Stack of the pair."""
    sums: "tuple[np.ndarray, np.ndarray] | None" = None
    """Clipped sums of the pair, in gradient units of the run."""

    @property
    def sensitivity(self) -> float:
        """How far the unit moves a clipped sum, in gradient units."""
        import numpy as np

        if self.sums is None:
            return self.plan.clip_norm
        return float(np.linalg.norm(self.sums[1].astype(np.float64) - self.sums[0]))

    @property
    def ratio(self) -> float:
        """The same over the sensitivity that is promised."""
        return self.sensitivity / (self.plan.clip_norm * self.plan.influence)

    @property
    def rule(self) -> ScoreRule:
        """The score of a unit that moves the sum so far."""
        return score_rule(
            self.plan.sampler,
            shift=self.sensitivity / self.plan.noise_std,
            replaced=self.train.relation == "replace_one",
        )

    @property
    def scorers(self) -> "tuple[Callable[[np.ndarray], np.ndarray], ...]":
        """Ways to score a canary, in the order of ``SCORES``."""
        return self.rule.scores, spread

    def training(self) -> "CanaryTraining | PairTraining":
        """The run itself, to be repeated.

        Returns:
            It.
        """
        from insular.recipes.attack.canary_training import CanaryTraining
        from insular.recipes.attack.training.pair import PairTraining

        if self.sums is not None:
            return PairTraining(self.train, self.plan, sums=self.sums)
        return CanaryTraining(
            self.train, self.plan, n_canaries=self.n_canaries, direction=self.direction
        )


def score_rule(facts: SamplerFacts, *, shift: float, replaced: bool) -> ScoreRule:
    """The best score for a unit under a sampler that does what it states.

    For ``truncated_poisson`` it is that of Poisson, which is not the best one where samples are
    cut; the bounds hold for any score.

    Args:
        facts: The sampler.
        shift: What a unit's contribution adds, in standard deviations of the noise.
        replaced: Whether an absent unit is replaced by one with the opposite contribution.

    Returns:
        The score.

    Raises:
        UnsupportedEventError: If nothing is known about the sampler.
    """
    match facts.kind:
        case "poisson" | "truncated_poisson":
            weights = _entries(facts.sampling_prob or 0.0, facts.records_per_unit or 1)
        case "full_batch" | "shuffled":
            weights = (0.0, 1.0)
        case _:
            raise UnsupportedEventError(
                f"a sampler must be of a known kind, got {facts.kind!r}; no score is known for it."
            )

    def mixture(sign: float) -> Mixture:
        if facts.kind == "shuffled":
            return Mixture(shifts=(sign * shift,))
        shifts = tuple(sign * shift * entered for entered in range(len(weights)))
        return Mixture(shifts=shifts, weights=weights)

    slots = facts.slots if facts.kind == "shuffled" else None
    present = mixture(1.0)
    if replaced:
        return ScoreRule(present=present, absent=mixture(-1.0), slots=slots)
    return ScoreRule(present=present, slots=slots)


def claimed_curve(event: Event) -> TradeoffCurve:
    """The promised curve, at rates that a game can reach.

    Args:
        event: The promise.

    Returns:
        The curve.
    """
    import numpy as np

    low = np.geomspace(1e-7, 0.5, 80)
    rates = np.concatenate([[0.0], low, 1 - low[:-1], [1.0]])
    return tradeoff_curve(event, false_positive_rates=rates.tolist())


def game_tasks(game: Game, *, seed: int) -> list[Task]:
    """The tasks that play one game.

    Args:
        game: The game.
        seed: Of the attack.

    Returns:
        One task a shard.
    """
    tasks = []
    for shard, first in enumerate(range(0, game.repetitions, game.shard_games)):
        last = min(first + game.shard_games, game.repetitions)
        tasks.append(
            Task(
                job=Job(
                    name=f"{game.name} {shard + 1}",
                    work=play_shard,
                    args=(game, shard, first, last, seed),
                ),
                slug=f"{game.name}-{shard + 1:03d}",
                kind=GameShard,
                attach=_attach,
            )
        )
    return tasks


def play_shard(
    game: Game, shard: int, first: int, last: int, seed: int, *, progress: Report
) -> Output:
    """Play one shard, on one thread.

    Args:
        game: The game.
        shard: Position of the shard.
        first: Number of its first repetition.
        last: Number after its last one.
        seed: Of the attack.
        progress: Called with a short line now and then.

    Returns:
        A :class:`GameShard`, and its scores.
    """
    import time

    started = time.perf_counter()
    with intra_op_threads(1):
        scores = play(
            game.training(),
            game.scorers,
            n_canaries=game.n_canaries,
            games=range(first, last),
            seed=seed,
            progress=partial(_tell, progress, last - first),
        )
    result = GameShard(
        game=game.name,
        shard=shard,
        n_games=last - first,
        n_without=scores.without.shape[1],
        n_with=scores.with_record.shape[1],
        digest_without=digest_array(scores.without),
        digest_with=digest_array(scores.with_record),
        seconds=time.perf_counter() - started,
    )
    arrays = {"without": scores.without, "with": scores.with_record}
    return Output(result=result, arrays={f"{game.name}-scores": arrays})


def _entries(rate: float, n_records: int) -> tuple[float, ...]:
    """How many of a unit's records enter a step: a binomial law."""
    from scipy.stats import binom

    return tuple(float(binom.pmf(k, n_records, rate)) for k in range(n_records + 1))


def _attach(shard: GameShard, refs: Mapping[str, ArrayRef]) -> GameShard:
    """Put the reference of the saved scores into a shard."""
    (scores,) = refs.values()
    return replace(shard, scores=scores)


def _tell(progress: Report, n: int, done: int) -> Any:
    """A line now and then: about ``LINES`` a shard."""
    if done % max(1, n // LINES) == 0 or done == n:
        progress(f"{done} of {n}")
