"""The one repetition of an audit by one run: coins, a training with canaries, their scores."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

from insular.audit.one_run.results import OneRunScores
from insular.audit.training.game import TrainingRun, game_seed
from insular.errors import InvalidArgumentError, UnsupportedEventError
from insular.evidence import ArrayRef, RunStore, digest_array
from insular.recipes.attack.one_run.spec import OneRunSpec
from insular.recipes.attack.training.games import Game
from insular.recipes.audit.sensitivity import Report
from insular.recipes.parallel import Job
from insular.recipes.tasks import Output, Task
from insular.recipes.train.spec import TrainSpec
from insular.training.results import PlannedRun

if TYPE_CHECKING:
    import numpy as np

SLUG = "played"


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Observed:
    """What the player of one repetition has: a score and a coin for each canary."""

    scores: "np.ndarray"
    """Higher speaks for presence."""
    present: "np.ndarray"
    """Whether it was in the data."""


def one_run_game(spec: OneRunSpec, train: TrainSpec, plan: PlannedRun) -> Game:
    """The game of an audit by one run.

    Args:
        spec: The audit.
        train: The run's settings.
        plan: What it did.

    Returns:
        The game, with one repetition.

    Raises:
        UnsupportedEventError: If the run's samples are cut.
        InvalidArgumentError: If the run's data cannot hold so many canaries.
    """
    if plan.sampler.kind == "truncated_poisson":
        raise UnsupportedEventError(
            "a run that is audited at once must not cut its samples, got sampler"
            " truncated_poisson: many canaries would crowd each other out; use insular attack"
            " training."
        )
    game = Game(
        name="canaries",
        train=train,
        plan=plan,
        n_canaries=spec.canaries,
        repetitions=1,
        shard_games=1,
        direction=spec.direction,
    )
    game.training()  # refuses what cannot be played, before anything is written
    return game


def observe(training: TrainingRun, game: Game, *, seed: int) -> Observed:
    """Train once, with a fair coin for each canary, and score every one of them.

    Guarantees:
        * No part of the run sees a coin but through its data.
        * A score is that of the promised mechanism: the log-likelihood ratio of the canary's
          presence, from its own noisy sums alone.

    Args:
        training: The run.
        game: Canaries, and what is promised.
        seed: Of coins, draws and noise.

    Returns:
        Scores and coins.

    Raises:
        InvalidArgumentError: If the run returns another number of columns, or what is not finite.
    """
    import numpy as np

    coins = np.random.default_rng(game_seed(seed, 0, "coins"))
    present = coins.random(game.n_canaries) < 0.5
    observed = training(present, seed=game_seed(seed, 0, "run"))
    if observed.ndim != 2 or observed.shape[1] != game.n_canaries:
        raise InvalidArgumentError(
            f"a training run must return sums for {game.n_canaries} canaries, got shape"
            f" {observed.shape}."
        )
    if not np.isfinite(observed).all():
        raise InvalidArgumentError("a training run must return finite sums, got one that is not.")
    return Observed(scores=game.rule.scores(observed), present=present)


def one_run_task(game: Game, *, seed: int) -> Task:
    """The repetition as a task, which is not run again once it is stored.

    Args:
        game: The game.
        seed: Of the audit.

    Returns:
        The task.
    """
    return Task(
        job=Job(name="one run", work=train_once, args=(game, seed)),
        slug=SLUG,
        kind=OneRunScores,
        attach=_attach,
    )


def train_once(game: Game, seed: int, *, progress: Report) -> Output:
    """Play the repetition, on one thread.

    Args:
        game: The game.
        seed: Of the audit.
        progress: Called with a short line.

    Returns:
        A :class:`OneRunScores`, and its arrays.
    """
    import time

    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    started = time.perf_counter()
    progress(f"{game.plan.steps} steps")
    try:
        found = observe(game.training(), game, seed=seed)
    finally:
        torch.set_num_threads(threads)
    result = OneRunScores(
        n_canaries=game.n_canaries,
        digest_scores=digest_array(found.scores),
        digest_present=digest_array(found.present),
        seconds=time.perf_counter() - started,
    )
    arrays = {"scores": found.scores, "present": found.present}
    return Output(result=result, arrays={"one-run-scores": arrays})


def observed_of(played: OneRunScores, store: RunStore) -> Observed:
    """The stored scores.

    Args:
        played: The repetition.
        store: The run that keeps them.

    Returns:
        Scores and coins.
    """
    assert played.arrays is not None
    arrays = store.read_arrays(played.arrays)
    return Observed(scores=arrays["scores"], present=arrays["present"].astype(bool))


def _attach(played: OneRunScores, refs: Mapping[str, ArrayRef]) -> OneRunScores:
    """Put the reference of the saved scores into the result."""
    (arrays,) = refs.values()
    return replace(played, arrays=arrays)
