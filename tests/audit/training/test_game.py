"""The game on runs that are written by hand: scores, coins, bounds, what could have been seen."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from insular.accounting import PoissonGaussianEvent, RepeatedEvent, TradeoffCurve, tradeoff_curve
from insular.audit.statistics.scores import tradeoff_bound
from insular.audit.training.game import Mixture, ScoreRule, Scores, game_seed, play, spread
from insular.audit.training.power import ExcessPower, excess_power
from insular.errors import InvalidArgumentError

RATES = sorted({0.0, 1.0, *np.geomspace(1e-6, 0.5, 60), *(1 - np.geomspace(1e-6, 0.5, 60))})


class Ideal:
    """The mechanism itself: a coin for each step, Gaussian noise, a contribution of so much."""

    def __init__(self, rate: float, shift: float, steps: int) -> None:
        self.rate, self.shift, self.steps = rate, shift, steps

    def __call__(self, present: np.ndarray, *, seed: int) -> np.ndarray:
        rng = np.random.default_rng(seed)
        size = (self.steps, len(present))
        entered = (rng.random(size) < self.rate) & present
        return rng.standard_normal(size) + self.shift * entered


def poisson(rate: float, shift: float) -> ScoreRule:
    return ScoreRule(present=Mixture(shifts=(0.0, shift), weights=(1 - rate, rate)))


def promise(rate: float, noise: float, steps: int) -> TradeoffCurve:
    step = PoissonGaussianEvent(
        noise_multiplier=noise, sampling_prob=rate, relation="add_or_remove_one", unit="record"
    )
    return tradeoff_curve(RepeatedEvent(event=step, count=steps), false_positive_rates=RATES)


def refuted(scores: Scores, claim: TradeoffCurve) -> bool:
    (without,), (with_record,) = scores.without, scores.with_record
    return tradeoff_bound(without, with_record, claim=claim).falsifies(claim)


def test_score_by_hand() -> None:
    # q = 1/2, c = 1: log(1/2 + e^(x - 1/2) / 2) at x = 1/2 is 0, at 3/2 is log((1 + e)/2)
    observed = np.array([[0.5, 0.5], [0.5, 1.5]])
    assert poisson(0.5, 1.0).scores(observed) == pytest.approx([0, np.log((1 + np.e) / 2)])


@given(st.floats(0.01, 1), st.floats(0.1, 6), st.integers(1, 5), st.integers(0, 99))
def test_score_is_the_ratio_of_densities(rate: float, c: float, steps: int, seed: int) -> None:
    x = np.random.default_rng(seed).normal(0, 2, (steps, 3))
    mixed = (1 - rate) * norm.pdf(x) + rate * norm.pdf(x - c)
    slow = np.log(mixed / norm.pdf(x)).sum(axis=0)
    assert poisson(rate, c).scores(x) == pytest.approx(slow, rel=1e-9, abs=1e-9)


def test_a_replaced_unit_is_scored_against_its_opposite() -> None:
    rule = ScoreRule(present=Mixture(shifts=(2.0,)), absent=Mixture(shifts=(-2.0,)))
    x = np.array([[0.3], [-1.0]])
    slow = (norm.logpdf(x - 2) - norm.logpdf(x + 2)).sum(axis=0)
    assert rule.scores(x) == pytest.approx(slow)


@pytest.mark.parametrize("steps", [3, 4, 7])
def test_a_shuffled_unit_is_in_one_slot_of_each_pass(steps: int) -> None:
    rule, c = ScoreRule(present=Mixture(shifts=(1.5,)), slots=4), 1.5
    x = np.random.default_rng(0).normal(0, 1, (steps, 2))
    slow = np.zeros(2)
    for first in range(0, steps, 4):
        part = x[first : first + 4]
        likelihoods = [np.exp(row * c - c * c / 2) for row in part]
        likelihoods += [np.ones(2)] * (4 - len(part))
        slow += np.log(np.mean(likelihoods, axis=0))
    assert rule.scores(x) == pytest.approx(slow)


def test_a_canarys_score_depends_on_its_own_column_alone() -> None:
    x = np.random.default_rng(1).normal(0, 1, (5, 4))
    other = x.copy()
    other[:, 1:] += 9
    for rule in (poisson(0.3, 1.0), ScoreRule(present=Mixture(shifts=(1.0,)), slots=5)):
        assert rule.scores(other)[0] == rule.scores(x)[0]


def test_coins_are_fair_and_games_follow_from_their_number_alone() -> None:
    run, rule = Ideal(0.5, 1.0, 3), poisson(0.5, 1.0)
    whole = play(run, [rule.scores, spread], n_canaries=8, games=range(100), seed=4)
    second = play(run, [rule.scores, spread], n_canaries=8, games=range(50, 100), seed=4)
    n, n_with = second.with_record.shape[1], whole.with_record.shape[1]
    assert np.array_equal(whole.with_record[:, -n:], second.with_record)
    assert whole.without.shape[0] == 2 and whole.without.shape[1] == 800 - n_with
    # 800 coins: 5 standard deviations, a false alarm in 1.7 million
    assert abs(n_with - 400) < 5 * np.sqrt(200)
    assert len({game_seed(0, g, p) for g in range(50) for p in ("coins", "run")}) == 100


def test_the_mechanism_itself_is_not_refuted_and_twice_its_weight_is() -> None:
    claim, rule = promise(0.25, 1.0, 8), poisson(0.25, 1.0)
    verdicts = []
    for seed in range(20):  # each refutes with 0.05 at most; where both rates count, near 0.003
        scores = play(
            Ideal(0.25, 1.0, 8), [rule.scores], n_canaries=32, games=range(100), seed=seed
        )
        verdicts.append(refuted(scores, claim))
    assert not any(verdicts)
    scores = play(Ideal(0.25, 2.0, 8), [rule.scores], n_canaries=32, games=range(100), seed=0)
    assert refuted(scores, claim)


def power(ratio: float) -> ExcessPower:
    return excess_power(
        poisson(0.25, 1.0), steps=8, claim=promise(0.25, 1.0, 8), ratio=ratio, significance=0.05
    )


def test_power_grows_and_says_how_many_scores_it_takes() -> None:
    double = power(2.0)
    chances = [double.chance(n) for n in (50, 200, 1000, 5000)]
    assert chances == sorted(chances) and chances[0] < 0.2 and chances[-1] > 0.999
    needed = double.draws_needed(0.95)
    assert needed is not None
    assert double.chance(needed) >= 0.95 > double.chance(int(0.9 * needed))
    assert power(1.3).draws_needed(0.95) > 4 * needed  # pyright: ignore[reportOptionalOperand]


def test_power_is_what_happens() -> None:
    claim, rule, needed = promise(0.25, 1.0, 8), poisson(0.25, 1.0), power(2.0).draws_needed(0.95)
    assert needed is not None
    n_refuted = 0
    for seed in range(40):
        scores = play(
            Ideal(0.25, 2.0, 8), [rule.scores], n_canaries=2 * needed, games=range(1), seed=seed
        )
        n_refuted += refuted(scores, claim)
    assert n_refuted >= 28  # 0.95 at the best threshold; a run has to find its own


def test_a_unit_that_weighs_what_it_may_is_never_likely_to_refute() -> None:
    assert power(1.0).chance(20_000) < 0.05


@pytest.mark.parametrize(
    ("shifts", "weights", "words"),
    [((0.0,), (0.5,), "add up to 1"), ((0.0,), (0.5, 0.5), "as many"), ((0.0,), (2.0,), "weight")],
)
def test_what_is_no_distribution_is_refused(
    shifts: tuple[float, ...], weights: tuple[float, ...], words: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        Mixture(shifts=shifts, weights=weights)


def test_noise_that_is_used_again_cancels_in_the_spread() -> None:
    noise, entered = np.array([[5.0, -3.0]]), np.array([[0, 0], [0, 1.0], [0, 0]])
    assert spread(noise + entered) == pytest.approx([0, 2 / 3])


def test_a_run_that_returns_nonsense_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="finite sums for 4 canaries"):
        play(
            lambda present, *, seed: np.full((2, 4), np.nan),
            [spread],
            n_canaries=4,
            games=range(1),
            seed=0,
        )
