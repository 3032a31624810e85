"""``insular attack one-run``: one more training with many canaries, held against the promise."""

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import NormalDist

from insular.accounting import TradeoffCurve
from insular.audit.one_run.results import OneRunResult
from insular.evidence import RunStore
from insular.recipes.attack.one_run.judge import judge_one_run, plan_guesses, points_beside
from insular.recipes.attack.one_run.page import one_run_page
from insular.recipes.attack.one_run.spec import OneRunSpec
from insular.recipes.attack.one_run.training import observed_of, one_run_game, one_run_task
from insular.recipes.attack.training.games import claimed_curve
from insular.recipes.attack.training.run import open_training
from insular.recipes.inputs import Progress, silent
from insular.recipes.run_folder import (
    RESULT,
    begin_or_continue,
    run_fact,
    run_status,
    write_run_page,
)
from insular.recipes.tasks import run_tasks

KIND = "attack.one-run"


def attack_one_run(
    spec: OneRunSpec,
    out: Path,
    *,
    command: Sequence[str],
    progress: Progress | None = None,
) -> OneRunResult:
    """Repeat a run's training once with canaries and bound from below what its noisy sums tell.

    The run's sampler, clipping, noise, divisor and loop do all of its steps with fresh seeds; the
    model is not loaded.

    Guarantees:
        * The run's files are verified first, and none of them is changed.
        * The number of guesses is fixed by the promise, or given, before the repetition is scored.
        * The promise that is tested is what the run states: the event of its executed log, and its
          epsilon. A run that keeps it is refuted with probability ``significance`` at most.
        * A repetition that was stored is not played again.

    Args:
        spec: What to attack.
        out: Folder of the evidence: new, empty, or an unfinished run of the same spec.
        command: The command as typed, for the manifest.
        progress: Called from this process.

    Returns:
        The result.

    Raises:
        EvidenceError: If the training run cannot be used, or ``out`` holds another run.
    """
    report = progress or silent
    source, train, trained = open_training(Path(spec.run))
    game = one_run_game(spec, train, trained.planned)
    store = begin_or_continue(
        KIND,
        out,
        spec,
        command=command,
        inputs=(run_fact("training", source.path),),
        other="another run",
    )
    with run_status(store, stage="attack"):
        report("", "the promised curve, and how many to guess")
        claim = claimed_curve(trained.executed.event)
        plan = plan_guesses(spec, game, claim, delta=trained.delta)
        task = one_run_task(game, seed=spec.seed)
        (played,) = run_tasks([task], store, workers=1, progress=report)
        report("", "bounds")
        observed = observed_of(played, store)
        bound = judge_one_run(spec, observed, plan, claim=claim, delta=trained.delta)
        result = OneRunResult(
            run=spec.run,
            event=trained.executed.event,
            unit=trained.unit,
            relation=trained.relation,
            steps=trained.planned.steps,
            sampler=trained.planned.sampler.kind,
            clip_norm=trained.planned.clip_norm,
            noise_std=trained.planned.noise_std,
            direction=spec.direction,
            ratio=game.ratio,
            claim=claim,
            claimed_mu=gaussian_mu_of(claim),
            claimed_epsilon=trained.epsilon,
            significance=spec.significance,
            excess=spec.excess,
            planned=plan.planned,
            chances=plan.chances,
            bound=bound,
            points=points_beside(bound, observed),
            played=played,
        )
        store.write_result(RESULT, result)
        store.finish("complete")
    write_page(store)
    return result


def gaussian_mu_of(claim: TradeoffCurve) -> float | None:
    """The mu of a curve that is one Gaussian's.

    Args:
        claim: The curve.

    Returns:
        It; None for any other curve, and for one that promises nothing.
    """
    if not claim.exact or not 0 <= claim.advantage < 1:
        return None
    mu = 2 * NormalDist().inv_cdf((1 + claim.advantage) / 2)
    return mu if math.isfinite(mu) else None


def write_page(store: RunStore) -> Path:
    """Render the page of a finished run from its evidence alone.

    Args:
        store: The run.

    Returns:
        The page's path.
    """
    result = store.read_result(RESULT, OneRunResult)
    return write_run_page(store, lambda manifest: one_run_page(result, manifest))
