"""How many canaries of one run to guess, decided by the promise alone before anything runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np

from insular import _check
from insular.accounting import TradeoffCurve
from insular.audit.one_run.bound import epsilon_bound
from insular.audit.one_run.curve import fewest_correct
from insular.audit.one_run.results import GuessChance, GuessCounts, Guesses
from insular.audit.training.game import ScoreRule

SHARES = (0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.16, 0.3, 0.5)
"""Shares of the canaries that may be guessed."""
NEARLY = 0.95
"""Share of the best chance that is about as good."""
_NUMBERS = 3_000_000
"""Random numbers that a simulation may take."""
_LEAST, _MOST = 2_000, 20_000
"""Scores of each kind that are simulated."""
_GAMES = 200
"""Runs that are put together of them."""

Array = np.ndarray


def guess_choices(n_canaries: int) -> tuple[GuessCounts, ...]:
    """Numbers of guesses to choose from: half high and half low, or all of them high.

    Args:
        n_canaries: Canaries.

    Returns:
        The choices, without repetition.
    """
    _check.at_least(1, n_canaries=n_canaries)
    found = []
    for share in SHARES:
        n = max(1, round(share * n_canaries))
        found += [
            GuessCounts(highest=n - n // 2, lowest=n // 2),
            GuessCounts(highest=n, lowest=0),
        ]
    return tuple(dict.fromkeys(found))


def guess_chances(
    rule: ScoreRule,
    *,
    steps: int,
    n_canaries: int,
    claim: TradeoffCurve,
    ratio: float,
    delta: float,
    significance: float,
    choices: Sequence[GuessCounts],
    seed: int = 0,
) -> tuple[GuessChance, ...]:
    """Simulate the promise with units that weigh too much, or too little noise, and guess.

    Guarantees:
        * Nothing but the promise enters, so that a choice among the answers costs no significance.

    Args:
        rule: The promised mechanism.
        steps: Of the run.
        n_canaries: Canaries.
        claim: The promised curve.
        ratio: A unit's contribution over the one that is promised, and the promised noise over the
            one that is added: a chance is the lesser of both.
        delta: Of the bound on epsilon.
        significance: Error probability of a refuted curve, and of a bound, for each choice.
        choices: Numbers of guesses.
        seed: Of the simulation.

    Returns:
        The chances, in the order of the choices.
    """
    _check.positive_finite(ratio=ratio)
    law = partial(_running_counts, rule, steps, n_canaries, seed=seed)
    heavy, quiet, usual = law(weight=ratio), law(noise=1 / ratio), law()
    found = []
    for counts in choices:
        needed = fewest_correct(
            counts.n, n_canaries=n_canaries, claim=claim, significance=significance
        )
        least = counts.n + 1 if needed is None else needed
        expected = int(usual.correct(counts).mean())
        guesses = Guesses(n_canaries=n_canaries, n=counts.n, correct=expected)
        found.append(
            GuessChance(
                counts=counts,
                needed=needed,
                chance=min(float((one.correct(counts) >= least).mean()) for one in (heavy, quiet)),
                expected_epsilon=epsilon_bound(guesses, delta=delta, significance=significance),
            )
        )
    return tuple(found)


def best_guess(chances: Sequence[GuessChance]) -> GuessChance:
    """Of those that show the excess about as probably as any, the one expected to prove most.

    Args:
        chances: At least one.

    Returns:
        One of them.
    """
    enough = NEARLY * max(one.chance for one in chances)
    return max(
        (one for one in chances if one.chance >= enough),
        key=lambda one: (one.expected_epsilon, one.chance),
    )


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class _Running:
    """Games by k: the right ones among the k highest scores, and among the k lowest."""

    high: Array
    low: Array

    def correct(self, counts: GuessCounts) -> Array:
        """The right ones of each game."""
        return self.high[:, counts.highest] + self.low[:, counts.lowest]


def _running_counts(
    rule: ScoreRule,
    steps: int,
    n_canaries: int,
    *,
    seed: int,
    weight: float = 1.0,
    noise: float = 1.0,
) -> _Running:
    """Games with units of another weight, or noise of another size."""
    rng = np.random.default_rng(seed)
    n = min(_MOST, max(_LEAST, _NUMBERS // steps))
    pools = [
        rule.scores(
            noise * rng.standard_normal((steps, n))
            + weight * _shifts(rule, steps, n, with_record=side, rng=rng)
        )
        for side in (False, True)
    ]
    shape = (_GAMES, n_canaries)
    present = rng.random(shape) < 0.5
    drawn = [rng.choice(pool, size=shape) for pool in pools]
    order = np.argsort(np.where(present, drawn[1], drawn[0]), axis=1)
    right = np.take_along_axis(present, order, axis=1)
    none = np.zeros((_GAMES, 1), dtype=int)
    return _Running(
        high=np.concatenate([none, right[:, ::-1].cumsum(axis=1)], axis=1),
        low=np.concatenate([none, (~right).cumsum(axis=1)], axis=1),
    )


def _shifts(
    rule: ScoreRule, steps: int, n: int, *, with_record: bool, rng: np.random.Generator
) -> Array:
    """What units of the promised weight add to each step."""
    mixture = rule.present if with_record else rule.absent
    if rule.slots is None:
        return rng.choice(mixture.shifts, size=(steps, n), p=mixture.weights)
    step = np.arange(steps)
    mine = rng.integers(rule.slots, size=(-(-steps // rule.slots), n))  # its slot of each pass
    return (mine[step // rule.slots] == (step % rule.slots)[:, None]) * mixture.shifts[0]
