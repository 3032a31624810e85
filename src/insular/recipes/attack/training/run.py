"""``insular attack training``: repeat a run's own training with canaries, test its promise."""

from collections.abc import Sequence
from pathlib import Path

from insular.audit.statistics.rates import bonferroni
from insular.audit.training.results import TrainingAttackResult
from insular.errors import EvidenceError
from insular.evidence import InputFact, RunStore
from insular.recipes.attack.release.run import open_pair
from insular.recipes.attack.training.games import (
    PAIR_SHARD_GAMES,
    Game,
    claimed_curve,
    game_tasks,
)
from insular.recipes.attack.training.judge import judge, scores_of
from insular.recipes.attack.training.page import training_page
from insular.recipes.attack.training.spec import TrainingAttackSpec
from insular.recipes.inputs import Progress, silent
from insular.recipes.run_folder import (
    RESULT,
    begin_or_continue,
    run_fact,
    run_status,
    write_run_page,
)
from insular.recipes.tasks import run_tasks
from insular.recipes.train import run as trains
from insular.recipes.train.results import TrainResult
from insular.recipes.train.spec import TrainSpec

KIND = "attack.training"


def attack_training(
    spec: TrainingAttackSpec,
    out: Path,
    *,
    command: Sequence[str],
    workers: int = 1,
    progress: Progress | None = None,
) -> TrainingAttackResult:
    """Repeat a run's training with canaries and bound from below what its noisy sums tell.

    The run's sampler, clipping, noise, divisor and loop do all of its steps, each time with fresh
    seeds; the model is not loaded.

    Guarantees:
        * The run's files are verified first, and none of them is changed.
        * The promise that is tested is what the run states: the event of its executed log, and its
          epsilon.
        * A shard that was played is not played again; the numbers do not depend on ``workers``.
        * A run that keeps its promise is refuted with probability ``significance`` at most.

    Args:
        spec: What to attack, and how often.
        out: Folder of the evidence: new, empty, or an unfinished run of the same spec.
        command: The command as typed, for the manifest.
        workers: Processes that play shards side by side, of one thread each.
        progress: Called from this process.

    Returns:
        The result.

    Raises:
        EvidenceError: If the training run cannot be used, or ``out`` holds another run.
    """
    report = progress or silent
    source, train, trained = open_training(Path(spec.run))
    games, facts = games_against(spec, train, trained), _facts(spec, source)
    store = begin_or_continue(KIND, out, spec, command=command, inputs=facts, other="another run")
    with run_status(store, stage="attack"):
        report("", "the promised curve")
        claim = claimed_curve(trained.executed.event)
        tasks = [game_tasks(game, seed=spec.seed) for game in games]
        shards = run_tasks(sum(tasks, []), store, workers=workers, progress=report)
        found = []
        for game, mine in zip(games, tasks, strict=True):
            played, shards = shards[: len(mine)], shards[len(mine) :]
            report("", f"bounds for the {game.name}")
            found.append(
                judge(
                    game,
                    scores_of(played, store),
                    tuple(played),
                    claim=claim,
                    epsilon=trained.epsilon,
                    delta=trained.delta,
                    excess=spec.excess,
                    significance=bonferroni(spec.significance, len(games)),
                )
            )
        result = TrainingAttackResult(
            run=spec.run,
            event=trained.executed.event,
            unit=trained.unit,
            relation=trained.relation,
            steps=trained.planned.steps,
            sampler=trained.planned.sampler.kind,
            clip_norm=trained.planned.clip_norm,
            noise_std=trained.planned.noise_std,
            direction=spec.direction,
            claim=claim,
            delta=trained.delta,
            claimed_epsilon=trained.epsilon,
            significance=spec.significance,
            games=tuple(found),
        )
        store.write_result(RESULT, result)
        store.finish("complete")
    write_page(store)
    return result


def open_training(run: Path) -> tuple[RunStore, TrainSpec, TrainResult]:
    """Read a training run whose promise stands.

    Args:
        run: Its folder.

    Returns:
        Its store, its settings, what it was.

    Raises:
        EvidenceError: If it is no complete training run, or was changed.
    """
    store = RunStore.open(run)
    if store.manifest.kind != trains.KIND or store.manifest.status != "complete":
        raise EvidenceError(
            f"{run} must hold a complete training run, whose promise stands; got a"
            f" {store.manifest.status} run ({store.manifest.kind})."
        )
    store.verify()
    return store, trains.read_spec(store), store.read_result(RESULT, TrainResult)


def games_against(
    spec: TrainingAttackSpec, train: TrainSpec, trained: TrainResult
) -> tuple[Game, ...]:
    """The games of an attack.

    Args:
        spec: The attack.
        train: The run's settings.
        trained: What it was.

    Returns:
        Canaries, and the pair if an audit is named.

    Raises:
        InvalidArgumentError: If the run cannot be played so.
    """
    plan = trained.planned
    # where samples are cut, canaries crowd each other out: only one alone is independent
    n_canaries = 1 if plan.sampler.kind == "truncated_poisson" else spec.canaries
    games = [
        Game(
            name="canaries",
            train=train,
            plan=plan,
            n_canaries=n_canaries,
            repetitions=spec.repetitions,
            shard_games=spec.shard_games,
            direction=spec.direction,
        )
    ]
    if spec.audit:
        games.append(_pair_game(spec, train, trained))
    for game in games:
        game.training()  # refuses what cannot be played, before anything is written
    return tuple(games)


def write_page(store: RunStore) -> Path:
    """Render the page of a finished run from its evidence alone.

    Args:
        store: The run.

    Returns:
        The page's path.
    """
    result = store.read_result(RESULT, TrainingAttackResult)
    return write_run_page(store, lambda manifest: training_page(result, manifest))


def _pair_game(spec: TrainingAttackSpec, train: TrainSpec, trained: TrainResult) -> Game:
    """The record of an audited pair in each step, as the run draws it."""
    import numpy as np

    from insular.audit.release.draws import clipped_sums

    pair = open_pair(Path(spec.audit))
    stack = spec.stack or pair.sensitivity.arms[0].stack
    (arm,) = pair.arms((stack,))
    assert arm.gradients is not None
    radius = arm.radii[0].radius
    stabiliser = pair.result.subject.manifest.stabiliser
    sums = clipped_sums(pair.store.read_arrays(arm.gradients), radius=radius, stabiliser=stabiliser)
    scale = np.float32(trained.planned.clip_norm / radius)
    return Game(
        name="pair",
        train=train,
        plan=trained.planned,
        n_canaries=1,
        repetitions=spec.pair_repetitions,
        shard_games=PAIR_SHARD_GAMES,
        stack=stack,
        sums=(sums[0] * scale, sums[1] * scale),
    )


def _facts(spec: TrainingAttackSpec, source: RunStore) -> tuple[InputFact, ...]:
    """The runs that are read, by the digests of their results."""
    folders = {"training": source.path}
    if spec.audit:
        folders["audit"] = Path(spec.audit)
    return tuple(run_fact(name, path) for name, path in folders.items())
