"""Training runs audited by one more run: planted bugs are refuted, clean runs are not.

A promise that holds is refuted with probability 0.05 at most by each audit, half of it for the
point and half for the curve; both bounds leave room, and near none of 20 clean runs is refuted.
The seeds are fixed.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest

from insular.accounting import pair_epsilon, spend
from insular.audit.one_run.results import OneRunBound, OneRunResult
from insular.errors import EvidenceError, InvalidArgumentError, UnsupportedEventError
from insular.evidence import RunStore
from insular.recipes.attack.one_run.judge import judge_one_run, plan_guesses
from insular.recipes.attack.one_run.run import (
    attack_one_run,
    gaussian_mu_of,
    write_page,
)
from insular.recipes.attack.one_run.spec import OneRunSpec
from insular.recipes.attack.one_run.summary import one_run_blocks
from insular.recipes.attack.one_run.training import observe, observed_of, one_run_game
from insular.recipes.attack.training.games import claimed_curve
from insular.recipes.attack.training.repeat import TrainingParts
from insular.recipes.run_folder import RESULT, read_settings
from insular.recipes.train.run import train_privately
from insular.recipes.train.spec import TrainSpec
from insular.training.clipping import FlatClipping
from recipes.attack.test_training import count_twice, planned, settings, with_noise
from recipes.train_inputs import tiny_train

Plant = Callable[[TrainingParts], TrainingParts]
DELTA = 1e-5


def audited(
    train: TrainSpec,
    *,
    plant: Plant = lambda parts: parts,
    seeds: range = range(1),
    **changes: object,
) -> tuple[list[OneRunBound], float, float]:
    """Audit a run with something planted: the bounds, the promised epsilon, the chance."""
    plan = planned(train)
    spec = OneRunSpec(run="none", **changes)  # pyright: ignore[reportArgumentType]
    game, claim = one_run_game(spec, train, plan), claimed_curve(plan.event)
    guesses = plan_guesses(spec, game, claim, delta=DELTA)
    training = game.training()
    training.parts = plant(training.parts)
    bounds = []
    for seed in seeds:
        seen = observe(training, game, seed=seed)
        bounds.append(judge_one_run(spec, seen, guesses, claim=claim, delta=DELTA))
    epsilon = spend(plan.event, delta=DELTA).epsilon
    return bounds, epsilon, max(one.chance for one in guesses.chances)


def never_clip(parts: TrainingParts) -> TrainingParts:
    assert isinstance(parts.clipped_sum, partial)
    unbounded = partial(parts.clipped_sum, clipping=FlatClipping(clip_norm=1e9))
    return replace(parts, clipped_sum=unbounded)


FULL = settings(sampler="full_batch", noise_multiplier=3.0)
SPARSE = settings(steps=150, batch=10, public_units=1000, noise_multiplier=0.7)
PLANTS: dict[str, tuple[TrainSpec, Plant, str]] = {
    "noise halved": (FULL, with_noise(lambda step: 0.5), "dirac"),
    "noise halved, sampled": (SPARSE, with_noise(lambda step: 0.5), "dirac"),
    "noise added once": (FULL, with_noise(lambda step: float(step == 0)), "dirac"),
    "clipping missing": (FULL, never_clip, "long"),
    "clipping missing, sampled": (SPARSE, never_clip, "long"),
    "record counted twice": (SPARSE, count_twice, "dirac"),
}


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_bug_is_refuted_by_one_run(name: str) -> None:
    train, plant, direction = PLANTS[name]
    (found,), epsilon, chance = audited(train, plant=plant, direction=direction)
    assert found.curve_refuted and chance >= 0.8
    (clean,), _, _ = audited(train, direction=direction)
    assert not clean.curve_refuted and not clean.falsifies(epsilon)


@cache
def twenty_clean(train: TrainSpec) -> tuple[list[OneRunBound], float, float]:
    return audited(train, seeds=range(20))


@pytest.mark.parametrize("train", [FULL, SPARSE], ids=["full batch", "sampled"])
def test_twenty_clean_runs_are_not_refuted(train: TrainSpec) -> None:
    bounds, epsilon, chance = twenty_clean(train)
    assert chance >= 0.8
    assert not any(one.curve_refuted or one.falsifies(epsilon) for one in bounds)
    mu = gaussian_mu_of(claimed_curve(planned(train).event))
    if mu is not None:
        assert mu == pytest.approx(8**0.5 / 3) and max(one.mu_lower_bound for one in bounds) < mu


def test_one_run_reaches_about_half_of_a_full_batch_and_little_of_a_sampled_one() -> None:
    bounds, epsilon, _ = twenty_clean(FULL)
    by_curve = [pair_epsilon(one.mu_lower_bound, DELTA) for one in bounds]
    assert epsilon == pytest.approx(4.09, abs=0.01)
    assert 0.5 * epsilon < np.mean(by_curve) < epsilon
    sampled, epsilon, _ = twenty_clean(SPARSE)
    assert np.mean([one.epsilon_lower_bound for one in sampled]) < 0.2 * epsilon


@pytest.mark.parametrize(
    "changes",
    [
        {"relation": "replace_one"},
        {"sampler": "shuffled", "relation": "replace_one", "public_units": 400, "batch": 100},
        {"unit": "user_id"},
        {"unit": "user_id", "sample": "record", "records_per_owner": 3, "noise_multiplier": 2.0},
    ],
    ids=["replaced", "shuffled", "owners", "owners of drawn records"],
)
def test_every_sampler_and_unit_keeps_its_own_promise(changes: dict[str, object]) -> None:
    bounds, epsilon, _ = audited(settings(**changes), seeds=range(3), canaries=300)
    assert not any(one.curve_refuted or one.falsifies(epsilon) for one in bounds)


@pytest.mark.parametrize(("canaries", "ceiling"), [(1000, 5.60), (100, 3.28)])
def test_the_ceiling_stands_beside_the_bound(canaries: int, ceiling: float) -> None:
    (found,), _, _ = audited(FULL, canaries=canaries, guesses=(canaries,))
    assert found.largest_epsilon == pytest.approx(ceiling, abs=0.005)
    assert found.epsilon_lower_bound < found.largest_epsilon


def test_given_numbers_of_guesses_are_halved_and_paid_for() -> None:
    (one,), _, _ = audited(FULL, guesses=(101,))
    (two,), _, _ = audited(FULL, guesses=(101, 40), two_sided=True)
    assert [(a.counts.highest, a.counts.lowest) for a in one.attempts] == [(51, 50)]
    assert [a.reversed for a in two.attempts] == [False, True, False, True]
    assert two.attempts[0].correct == one.attempts[0].correct
    assert two.attempts[0].epsilon_lower_bound < one.attempts[0].epsilon_lower_bound


def test_samples_that_are_cut_and_too_many_canaries_are_refused() -> None:
    train = settings(sampler="truncated_poisson", max_batch=6)
    with pytest.raises(UnsupportedEventError, match="use insular attack training"):
        one_run_game(OneRunSpec(run="none"), train, planned(train))
    train = settings(sampler="shuffled", relation="replace_one")
    with pytest.raises(InvalidArgumentError, match="fewer than the run's 20 units"):
        one_run_game(OneRunSpec(run="none"), train, planned(train))


def test_a_run_that_returns_nonsense_is_refused() -> None:
    game = one_run_game(OneRunSpec(run="none", canaries=4), FULL, planned(FULL))
    with pytest.raises(InvalidArgumentError, match="sums for 4 canaries"):
        observe(lambda present, *, seed: np.zeros((2, 3)), game, seed=0)
    with pytest.raises(InvalidArgumentError, match="finite sums"):
        observe(lambda present, *, seed: np.full((2, 4), np.nan), game, seed=0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"canaries": 0}, "canaries must be an integer >= 1"),
        ({"canaries": 5001}, "canaries must be at most 5000"),
        ({"guesses": (2000,)}, "guesses must be at most the canaries"),
        ({"guesses": (5, 5)}, "each number once"),
        ({"guesses": (0,)}, "guesses must be an integer >= 1"),
        ({"direction": "far"}, "direction must be one of"),
        ({"excess": 1.0}, "excess must be above 1"),
        ({"significance": 1}, "significance must be below 1"),
    ],
)
def test_settings_that_break_their_rule_are_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        OneRunSpec(run="none", **changes)  # pyright: ignore[reportArgumentType]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    train_privately(tiny_train(folder, noise_seed=3), folder / "run", command=())
    return folder / "run"


@pytest.fixture(scope="module")
def attack(trained: Path) -> tuple[Path, OneRunResult]:
    out = trained.parent / "attack"
    spec = OneRunSpec(run=str(trained))
    return out, attack_one_run(spec, out, command=("insular", "attack", "one-run"))


def test_a_real_run_is_audited_from_its_folder(attack: tuple[Path, OneRunResult]) -> None:
    out, result = attack
    store = RunStore.open(out)
    assert store.read_result(RESULT, OneRunResult) == result
    assert read_settings(store, OneRunSpec).canaries == result.bound.n_canaries == 1000
    assert not result.point_refuted and not result.bound.curve_refuted and result.exit_code != 1
    assert result.claimed_epsilon == pytest.approx(3.0, abs=0.01)
    assert result.bound.epsilon_lower_bound < result.bound.largest_epsilon
    assert result.planned and len(result.chances) == 1 and result.claimed_mu is None
    seen = observed_of(result.played, store)
    assert seen.present.sum() == result.bound.n_present
    # 1,000 coins: 5 standard deviations, a false alarm in 1.7 million
    assert abs(result.bound.n_present - 500) < 5 * 250**0.5
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "One-run attack on" in page and "Most provable" in page and "<svg" in page
    assert write_page(store).read_text(encoding="utf-8") == page


def test_the_words_say_what_it_shows_and_what_it_does_not(
    attack: tuple[Path, OneRunResult],
) -> None:
    from insular.recipes.attack.one_run._words import (
        curve_sentence,
        finding_sentence,
        meaning_sentence,
    )

    _, result = attack
    words = " ".join(block for block in one_run_blocks(result) if isinstance(block, str))
    assert "Epsilon is between" in words and "(promised)" in words and "prove at most" in words
    assert "proves far less than the promise" in words and "The model was not run" in words
    assert "does not show that the promise holds" in meaning_sentence(result)
    tiny = replace(result, claimed_epsilon=0.0, claimed_mu=1.0)
    if result.bound.epsilon_lower_bound > 0:
        assert "REFUTED is the point" in finding_sentence(tiny) and tiny.exit_code == 1
    assert "one Gaussian of mu 1.000" in curve_sentence(tiny)
    blind = replace(result, chances=(replace(result.chances[0], chance=0.1),))
    assert "TOO SMALL TO BE SEEN" in finding_sentence(blind) and blind.exit_code == 2
    sharp = replace(result, chances=(replace(result.chances[0], chance=0.9),))
    assert "Nothing of the promise is refuted" in finding_sentence(sharp) and sharp.exit_code == 0


def test_few_canaries_are_too_small_to_see_anything(trained: Path, tmp_path: Path) -> None:
    spec = OneRunSpec(run=str(trained), canaries=10)
    assert attack_one_run(spec, tmp_path / "a", command=()).exit_code == 2


def test_a_stopped_audit_goes_on_and_finds_the_same(
    trained: Path, attack: tuple[Path, OneRunResult], tmp_path: Path
) -> None:
    def stop(task: str, line: str) -> None:
        if line == "bounds":
            raise KeyboardInterrupt

    told: list[str] = []
    spec, out = OneRunSpec(run=str(trained)), tmp_path / "a"
    with pytest.raises(KeyboardInterrupt):
        attack_one_run(spec, out, command=(), progress=stop)
    with pytest.raises(EvidenceError, match="other settings"):
        attack_one_run(replace(spec, seed=1), out, command=())
    result = attack_one_run(spec, out, command=(), progress=lambda task, line: told.append(line))
    assert "done before" in told
    assert result.bound == attack[1].bound and result.points == attack[1].points


def test_the_runs_own_folder_and_no_run_are_refused(trained: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="another folder"):
        attack_one_run(OneRunSpec(run=str(trained)), trained, command=())
    with pytest.raises(EvidenceError):
        attack_one_run(OneRunSpec(run=str(tmp_path)), tmp_path / "a", command=())
