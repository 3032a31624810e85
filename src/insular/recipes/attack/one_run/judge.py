"""How an audit by one run guesses, and what its guesses prove of the run's promise."""

from dataclasses import dataclass
from typing import final

from insular.accounting import TradeoffCurve
from insular.audit.one_run.bound import one_run_bound, other_counts
from insular.audit.one_run.plan import best_guess, guess_chances, guess_choices
from insular.audit.one_run.results import GuessChance, GuessCounts, GuessPoint, OneRunBound
from insular.audit.statistics.rates import bonferroni
from insular.recipes.attack.one_run.spec import OneRunSpec
from insular.recipes.attack.one_run.training import Observed
from insular.recipes.attack.training.games import Game

KINDS = 2
"""The point and the curve share the significance."""


@final
@dataclass(frozen=True, kw_only=True)
class GuessPlan:
    """What is guessed, fixed before the scores are seen."""

    planned: bool
    """Whether it was chosen from the promise; else it was given."""
    chances: tuple[GuessChance, ...]
    """Of each number of guesses."""


def plan_guesses(spec: OneRunSpec, game: Game, claim: TradeoffCurve, *, delta: float) -> GuessPlan:
    """Fix how many canaries are guessed, from the promise alone.

    Guarantees:
        * Nothing of the repetition enters.

    Args:
        spec: The audit.
        game: Its game.
        claim: The promised curve.
        delta: Of the point.

    Returns:
        The plan.
    """
    given = [GuessCounts(highest=n - n // 2, lowest=n // 2) for n in spec.guesses]
    n_attempts = max(1, len(given)) * (2 if spec.two_sided else 1)
    chances = guess_chances(
        game.rule,
        steps=game.plan.steps,
        n_canaries=game.n_canaries,
        claim=claim,
        ratio=spec.excess / game.ratio,  # the rule's unit weighs ``ratio`` of what is promised
        delta=delta,
        significance=bonferroni(spec.significance, KINDS * n_attempts),
        choices=given or guess_choices(game.n_canaries),
    )
    if given:
        return GuessPlan(planned=False, chances=chances)
    return GuessPlan(planned=True, chances=(best_guess(chances),))


def judge_one_run(
    spec: OneRunSpec, observed: Observed, plan: GuessPlan, *, claim: TradeoffCurve, delta: float
) -> OneRunBound:
    """Guess as planned, and hold the right guesses against the promise.

    Guarantees:
        * A run that keeps its promise is refuted with probability ``significance`` at most.

    Args:
        spec: The audit.
        observed: Scores and coins.
        plan: How many are guessed.
        claim: The promised curve.
        delta: Of the point.

    Returns:
        The bounds.
    """
    return one_run_bound(
        observed.scores,
        observed.present,
        counts=[one.counts for one in plan.chances],
        delta=delta,
        significance=bonferroni(spec.significance, KINDS),
        claim=claim,
        two_sided=spec.two_sided,
    )


def points_beside(bound: OneRunBound, observed: Observed) -> tuple[GuessPoint, ...]:
    """What other numbers of guesses would have proven, each as if it alone had been fixed.

    Args:
        bound: What was proven.
        observed: Scores and coins.

    Returns:
        The points, at the significance of one attempt.
    """
    return other_counts(
        observed.scores,
        observed.present,
        attempt=bound.best,
        delta=bound.delta,
        significance=bonferroni(bound.significance, len(bound.attempts)),
    )
