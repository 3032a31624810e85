"""How many to guess: what is simulated is what happens."""

import numpy as np
import pytest

from insular.accounting import GaussianEvent, TradeoffCurve, tradeoff_curve
from insular.audit.one_run.bound import count_correct, epsilon_bound
from insular.audit.one_run.curve import fewest_correct
from insular.audit.one_run.plan import best_guess, guess_chances, guess_choices
from insular.audit.one_run.results import GuessChance, GuessCounts
from insular.audit.training.game import Mixture, ScoreRule

RATES = [0.0, *np.geomspace(1e-6, 0.5, 60).tolist(), *(1 - np.geomspace(1e-6, 0.4, 60)).tolist(), 1]
RULE = ScoreRule(present=Mixture(shifts=(1.0,)))


def promise() -> TradeoffCurve:
    step = GaussianEvent(noise_multiplier=1.0, relation="add_or_remove_one", unit="record")
    return tradeoff_curve(step, false_positive_rates=RATES)


def chances(ratio: float, choices: list[GuessCounts]) -> tuple[GuessChance, ...]:
    return guess_chances(
        RULE,
        steps=1,
        n_canaries=1000,
        claim=promise(),
        ratio=ratio,
        delta=1e-5,
        significance=0.05,
        choices=choices,
    )


def test_choices_are_halves_or_all_high_and_fit() -> None:
    for m in (1, 2, 30, 1000):
        found = guess_choices(m)
        assert len(set(found)) == len(found) and all(1 <= one.n <= m for one in found)
    assert GuessCounts(highest=10, lowest=10) in guess_choices(1000)
    assert GuessCounts(highest=20, lowest=0) in guess_choices(1000)


def test_chances_follow_from_the_promise_alone() -> None:
    counts = [GuessCounts(highest=60, lowest=60)]
    assert chances(2.0, counts) == chances(2.0, counts)


def test_a_shuffled_unit_is_in_one_step_of_each_pass() -> None:
    def rule(slots: int) -> ScoreRule:
        return ScoreRule(present=Mixture(shifts=(2.0,)), slots=slots)

    # one slot a pass: as in every step; a hundred slots: hardly to be found
    always, rarely = (
        guess_chances(
            rule(slots),
            steps=3,
            n_canaries=500,
            claim=promise(),
            ratio=1.5,
            delta=1e-5,
            significance=0.05,
            choices=[GuessCounts(highest=50, lowest=50)],
        )
        for slots in (1, 100)
    )
    assert always[0].chance == 1.0 and rarely[0].chance == 0.0
    every = ScoreRule(present=Mixture(shifts=(2.0,)))
    (plain,) = guess_chances(
        every,
        steps=3,
        n_canaries=500,
        claim=promise(),
        ratio=1.5,
        delta=1e-5,
        significance=0.05,
        choices=[GuessCounts(highest=50, lowest=50)],
    )
    assert plain.expected_epsilon == pytest.approx(always[0].expected_epsilon, abs=0.3)


def test_a_chance_is_what_happens() -> None:
    counts = GuessCounts(highest=60, lowest=60)
    (planned,) = chances(2.0, [counts])
    needed = fewest_correct(120, n_canaries=1000, claim=promise(), significance=0.05)
    assert needed is not None and planned.needed == needed
    refuted = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        present = rng.random(1000) < 0.5
        scores = rng.normal(0, 1, 1000) + 2.0 * present
        refuted += count_correct(scores, present, counts).correct >= needed
    # two shares of 200: apart by more than 0.2 once in 60,000 at most
    assert refuted / 200 == pytest.approx(planned.chance, abs=0.2)


def test_a_unit_that_weighs_what_it_may_is_hardly_ever_seen() -> None:
    assert max(one.chance for one in chances(1.0, list(guess_choices(1000)))) <= 0.05


def test_the_best_guess_is_about_as_probable_as_any_and_proves_most() -> None:
    def chance(n: int, value: float, epsilon: float) -> GuessChance:
        counts = GuessCounts(highest=n, lowest=0)
        return GuessChance(counts=counts, needed=n, chance=value, expected_epsilon=epsilon)

    assert best_guess([chance(1, 0.2, 3.0), chance(2, 0.9, 1.0)]).counts.n == 2
    assert best_guess([chance(1, 0.92, 1.0), chance(2, 0.9, 1.1)]).counts.n == 2
    assert best_guess([chance(1, 0.0, 0.3), chance(2, 0.0, 0.1)]).counts.n == 1


def test_too_few_guesses_can_never_refute() -> None:
    (found,) = chances(2.0, [GuessCounts(highest=2, lowest=2)])
    assert found.needed is None and found.chance == 0.0


def test_what_is_expected_is_about_what_is_proven() -> None:
    counts = GuessCounts(highest=60, lowest=60)
    (planned,) = chances(2.0, [counts])
    found = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        present = rng.random(1000) < 0.5
        scores = rng.normal(0, 1, 1000) + present
        guesses = count_correct(scores, present, counts)
        found.append(epsilon_bound(guesses, delta=1e-5, significance=0.05))
    assert planned.expected_epsilon == pytest.approx(np.mean(found), abs=0.2)
