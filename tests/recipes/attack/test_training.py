"""Training runs attacked: seven planted bugs are refuted within their budgets, a clean run is not.

Each plant is a small wrapper around the objects that train. A promise that holds is refuted with
probability 0.05 at most by each attack; where both rates count it is near 0.003, so 20 clean runs
have a false alarm with probability near 0.06. The seeds are fixed.
"""

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from insular.accounting import Event, spend
from insular.audit.training.game import play
from insular.audit.training.results import GameFinding, TrainingAttackResult
from insular.errors import EvidenceError, InvalidArgumentError
from insular.evidence import RunStore
from insular.mechanisms.keystream import Keystream, SeededStream
from insular.models.spec import LoraSpec
from insular.precision.stock import quiet_bitsandbytes
from insular.recipes.adapted import build_adapted
from insular.recipes.attack.canary_training import CanaryTraining
from insular.recipes.attack.training.games import Game, claimed_curve
from insular.recipes.attack.training.judge import judge
from insular.recipes.attack.training.repeat import TrainingParts
from insular.recipes.attack.training.run import (
    attack_training,
    games_against,
    open_training,
)
from insular.recipes.attack.training.spec import TrainingAttackSpec
from insular.recipes.attack.training.summary import training_blocks
from insular.recipes.audit.run import audit_stack
from insular.recipes.audit.spec import AuditSpec, StackName
from insular.recipes.pages import write_page_of
from insular.recipes.run_folder import RESULT
from insular.recipes.train.plan import plan_run
from insular.recipes.train.run import train_privately
from insular.recipes.train.session import clipped_sum_of, sampler_of
from insular.recipes.train.spec import TrainSpec
from insular.records import TokenisedRecord
from insular.training.batching import Units
from insular.training.clipping import FlatClipping
from insular.training.contributions import ClippedSum
from insular.training.gradients import HookGradients
from insular.training.noise import GaussianNoise, NoiseDraw
from insular.training.results import PlannedRun
from insular.training.sampling import ShuffledSampler
from recipes.tiny_run import tickets
from recipes.train_inputs import tiny_train

CANARIES = 64


def settings(**changes: object) -> TrainSpec:
    """A run of 8 steps at rate 1/4 with noise of 1 C, planned and never trained."""
    given: dict[str, object] = {
        "text": "none",
        "noise_multiplier": 1.0,
        "steps": 8,
        "batch": 5,
        "public_units": 20,
        "tokens": 8,
    }
    return TrainSpec(**{**given, **changes})  # pyright: ignore[reportArgumentType]


def planned(spec: TrainSpec) -> PlannedRun:
    public = spec.public_units * (spec.records_per_owner if spec.sample == "record" else 1)
    facts = sampler_of(spec, public, public=public, stream=SeededStream(0)).facts
    return plan_run(spec, facts, n_units=spec.public_units, influence=1.0).run


def attacked(
    spec: TrainSpec,
    *,
    repetitions: int,
    plant: Callable[[TrainingParts], TrainingParts] = lambda parts: parts,
    claim: Event | None = None,
    direction: str = "dirac",
    n_canaries: int = CANARIES,
    seed: int = 0,
) -> GameFinding:
    """Play the canaries against a run with something planted."""
    plan = planned(spec)
    game = Game(
        name="canaries",
        train=spec,
        plan=plan,
        n_canaries=n_canaries,
        repetitions=repetitions,
        shard_games=repetitions,
        direction=direction,  # pyright: ignore[reportArgumentType]
    )
    training = game.training()
    training.parts = plant(training.parts)
    games = range(repetitions)
    scores = play(training, game.scorers, n_canaries=n_canaries, games=games, seed=seed)
    event = claim or plan.event
    return judge(
        game,
        scores,
        claim=claimed_curve(event),
        epsilon=spend(event, delta=1e-3).epsilon,
        delta=1e-3,
        excess=2.0,
        significance=0.05,
    )


class OtherNoise(GaussianNoise):  # pyright: ignore[reportGeneralTypeIssues]
    """The run's noise, with another size in each step."""

    def __init__(self, stream: Keystream, size: Callable[[int], float]) -> None:
        super().__init__(stream)
        self._size = size

    def draw(self, n_params: int, *, noise_std: float, step: int, start: int = 1) -> NoiseDraw:
        found = super().draw(n_params, noise_std=noise_std, step=step, start=start)
        return replace(found, values=found.values * self._size(step))


def with_noise(size: Callable[[int], float]) -> Callable[[TrainingParts], TrainingParts]:
    return lambda parts: replace(parts, noise=lambda stream: OtherNoise(stream, size))


class OldNoise(GaussianNoise):  # pyright: ignore[reportGeneralTypeIssues]
    """The noise of the first step, in every step."""

    def draw(self, n_params: int, *, noise_std: float, step: int, start: int = 1) -> NoiseDraw:
        return super().draw(n_params, noise_std=noise_std, step=0, start=start)


def use_again(parts: TrainingParts) -> TrainingParts:
    return replace(parts, noise=OldNoise)


def clip_the_mean(parts: TrainingParts) -> TrainingParts:
    """The mean of the batch has norm C at most, and no unit has a bound."""
    assert isinstance(parts.clipped_sum, partial)
    unbounded = partial(parts.clipped_sum, clipping=FlatClipping(clip_norm=1e9))

    def run(units: Units) -> ClippedSum:
        found = unbounded(units)
        n = max(1, len(units))
        (mean,), _ = FlatClipping(clip_norm=parts.plan.clip_norm).clip(found.value[None] / n)
        return replace(found, value=mean * n)

    return replace(parts, clipped_sum=run)


def count_twice(parts: TrainingParts) -> TrainingParts:
    """The first unit of each batch of two is left in the buffer, and added with the next one."""

    def run(units: Units) -> ClippedSum:
        found, left = parts.clipped_sum(units), parts.clipped_sum(units[::2])
        return replace(found, value=found.value + left.value)

    return replace(parts, clipped_sum=run)


def shuffle(parts: TrainingParts) -> TrainingParts:
    """Passes in random order, cut into ten steps."""
    return replace(
        parts,
        sampler=lambda n, stream: ShuffledSampler(n, batch_size=-(-n // 10), stream=stream),
    )


# small noise: a Poisson sample leaves a unit out of all ten steps with probability 0.35
ONE_PASS = settings(noise_multiplier=0.25, steps=10, batch=4, public_units=40)
PLANTS = {
    "noise halved": (settings(), with_noise(lambda step: 0.5), "dirac", 50),
    "noise added once": (settings(), with_noise(lambda step: float(step == 0)), "dirac", 50),
    "noise used again": (settings(), use_again, "dirac", 50),
    "mean clipped instead of units": (settings(), clip_the_mean, "long", 50),
    "record counted twice": (settings(), count_twice, "dirac", 100),
    "shuffled, accounted as Poisson": (ONE_PASS, shuffle, "dirac", 100),
}


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_bug_is_refuted_within_its_budget(name: str) -> None:
    spec, plant, direction, repetitions = PLANTS[name]
    found = attacked(spec, repetitions=repetitions, plant=plant, direction=direction)
    assert found.curve_refuted and found.verdict == "refuted"
    clean = attacked(spec, repetitions=repetitions, direction=direction)
    assert not clean.curve_refuted and not clean.point_refuted


def test_an_accountant_that_was_fed_half_the_rate_is_refuted() -> None:
    spec = settings(steps=12)
    cheaper = planned(replace(spec, batch=5, public_units=40))
    assert cheaper.sampler.sampling_prob == 5 / 40
    found = attacked(spec, repetitions=100, claim=cheaper.event)
    assert found.curve_refuted


def test_twenty_clean_runs_are_not_refuted() -> None:
    for seed in range(20):
        found = attacked(settings(steps=6), repetitions=25, seed=seed)
        assert not found.curve_refuted and not found.point_refuted, seed


@pytest.mark.parametrize(
    "changes",
    [
        {"sampler": "full_batch", "noise_multiplier": 3.0},
        {"sampler": "shuffled", "relation": "replace_one", "public_units": 80, "batch": 20},
        {"relation": "replace_one"},
        {"unit": "user_id"},
        {"unit": "user_id", "sample": "record", "records_per_owner": 3, "noise_multiplier": 2.0},
    ],
    ids=["full batch", "shuffled", "replaced", "owners", "owners of drawn records"],
)
def test_every_sampler_and_unit_keeps_its_own_promise_and_no_half_noise(
    changes: dict[str, object],
) -> None:
    spec = settings(**changes)
    assert attacked(spec, repetitions=40).verdict != "refuted"
    assert attacked(spec, repetitions=40, plant=with_noise(lambda step: 0.4)).curve_refuted


def test_samples_that_are_cut_are_attacked_with_one_canary() -> None:
    spec = settings(sampler="truncated_poisson", max_batch=6)
    found = attacked(spec, repetitions=300, n_canaries=1)
    assert not found.curve_refuted


def test_long_gradients_are_clipped_to_what_a_canary_weighs() -> None:
    spec = settings(noise_multiplier=1e-3, sampler="full_batch")
    for direction in ("dirac", "long"):
        training = CanaryTraining(spec, planned(spec), n_canaries=3, direction=direction)  # pyright: ignore[reportArgumentType]
        sums = training(np.array([True, False, True]), seed=1) * 1e-3
        assert sums == pytest.approx(np.tile([1.0, 0.0, 1.0], (8, 1)), abs=0.01)


def test_more_canaries_than_units_are_refused_where_their_number_counts() -> None:
    spec = settings(sampler="shuffled", relation="replace_one")
    with pytest.raises(InvalidArgumentError, match="fewer than the run's 20 units"):
        CanaryTraining(spec, planned(spec), n_canaries=20, direction="dirac")


def real_sums(folder: Path, stack: StackName) -> tuple[np.ndarray, np.ndarray]:
    """Clipped sums of 32 quiet records without and with a loud one, evaluated once each."""
    spec = tiny_train(folder, clip_norm=1e-3, physical_tokens=4096)
    rng = random.Random(3)
    quiet = tuple(rng.randrange(2, 38) for _ in range(6))
    loud = (*(rng.randrange(2, 38) for _ in range(4)), rng.randrange(44, 60), rng.randrange(2, 38))
    records = [
        TokenisedRecord(id=f"r{i:02}", owner=f"r{i}", tokens=tokens)
        for i, tokens in enumerate([*[quiet] * 32, loud])
    ]
    with quiet_bitsandbytes():
        adapted = build_adapted(stack, model=spec.model, lora=LoraSpec(rank=8, init_b_std=0.02))
        add = clipped_sum_of(spec, adapted.model, engine=HookGradients(), places={}, pad_token_id=0)
        without, with_record = (
            add([(record,) for record in batch]).value.numpy() for batch in (records[:-1], records)
        )
    return without, with_record


@pytest.mark.parametrize(("stack", "repetitions"), [("llm-int8", 4500), ("record-owned", 2000)])
def test_coupled_int8_is_refuted_on_a_real_pair_and_its_repair_is_not(
    tmp_path: Path, stack: StackName, repetitions: int
) -> None:
    coupled = stack == "llm-int8"
    sums = real_sums(tmp_path, stack)
    spec = settings(clip_norm=1e-3, steps=3, noise_multiplier=1.25, batch=15)
    plan = planned(spec)
    game = Game(
        name="pair",
        train=spec,
        plan=plan,
        n_canaries=1,
        repetitions=repetitions,
        shard_games=repetitions,
        stack=stack,
        sums=sums,
    )
    games = range(repetitions)
    scores = play(game.training(), game.scorers, n_canaries=1, games=games, seed=0)
    found = judge(
        game,
        scores,
        claim=claimed_curve(plan.event),
        epsilon=spend(plan.event, delta=1e-3).epsilon,
        delta=1e-3,
        excess=2.0,
        significance=0.05,
    )
    assert found.n_params == len(sums[0]) > 3000
    assert (found.ratio > 1.1) is coupled
    assert found.verdict == ("refuted" if coupled else "not refuted")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    train_privately(tiny_train(folder, noise_seed=3), folder / "run", command=())
    return folder / "run"


@pytest.fixture(scope="module")
def attack(trained: Path) -> tuple[Path, TrainingAttackResult]:
    out = trained.parent / "attack"
    spec = TrainingAttackSpec(run=str(trained), repetitions=30, shard_games=10)
    return out, attack_training(spec, out, command=("insular", "attack"))


def test_a_real_run_is_attacked_from_its_folder(attack: tuple[Path, TrainingAttackResult]) -> None:
    out, result = attack
    (game,) = result.games
    assert result.exit_code == 0 and game.n_scores == 30 * 64
    assert result.claimed_epsilon == pytest.approx(3.0, abs=0.01)
    assert game.point.epsilon_lower_bound < result.claimed_epsilon < game.largest_epsilon
    assert RunStore.open(out).read_result(RESULT, TrainingAttackResult) == result
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "Not refuted" in page and "whole trade-off curve" in page
    assert write_page_of(out).read_text(encoding="utf-8") == page


def test_the_terminal_says_what_is_refuted_and_what_it_takes(
    attack: tuple[Path, TrainingAttackResult],
) -> None:
    words = " ".join(block for block in training_blocks(attack[1]) if isinstance(block, str))
    assert "epsilon is between" in words and "(promised)" in words
    assert "repetitions" in words and "The model was not run" in words


def test_the_pair_of_an_audit_is_played_as_the_run_draws_it(trained: Path, tmp_path: Path) -> None:
    audit = AuditSpec(
        subject="audit.centred_subject:make_subject",
        text=str(tickets(tmp_path / "t.jsonl")),
        id_field="id",
        batch=4,
        tokens=16,
        parts=("isolation", "sensitivity"),
    )
    audit_stack(audit, tmp_path / "audit", command=())
    spec = TrainingAttackSpec(
        run=str(trained), audit=str(tmp_path / "audit"), repetitions=8, pair_repetitions=400
    )
    result = attack_training(spec, tmp_path / "a", command=())
    canaries, pair = result.games
    assert pair.game == "pair" and pair.n_scores == pair.n_games == 400
    assert pair.ratio > 1.05 and pair.excess == pair.ratio
    # two games, curve and point, two scores
    assert canaries.tradeoff.significance == pair.tradeoff.significance == 0.05 / 8
    assert "audited pair" in (tmp_path / "a" / "report.html").read_text(encoding="utf-8")


def test_few_repetitions_are_undecided(trained: Path, tmp_path: Path) -> None:
    spec = TrainingAttackSpec(run=str(trained), canaries=4, repetitions=8)
    assert attack_training(spec, tmp_path / "a", command=()).exit_code == 2


def test_a_stopped_attack_goes_on_and_finds_the_same(
    trained: Path, attack: tuple[Path, TrainingAttackResult], tmp_path: Path
) -> None:
    spec = TrainingAttackSpec(run=str(trained), repetitions=30, shard_games=10)
    told: list[str] = []

    def stop(task: str, line: str) -> None:
        told.append(f"{task} {line}")
        if told.count("canaries 1 done") and task == "canaries 2":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        attack_training(spec, tmp_path / "a", command=(), progress=stop)
    again: list[str] = []
    result = attack_training(
        spec, tmp_path / "a", command=(), progress=lambda task, line: again.append(line)
    )
    assert "done before" in again
    assert result.games[0].tradeoff == attack[1].games[0].tradeoff


def test_only_a_complete_training_run_can_be_attacked(
    attack: tuple[Path, TrainingAttackResult], trained: Path, tmp_path: Path
) -> None:
    with pytest.raises(EvidenceError, match="complete training run"):
        open_training(attack[0])
    with pytest.raises(InvalidArgumentError, match="another folder"):
        attack_training(TrainingAttackSpec(run=str(trained)), trained, command=())


def test_a_run_of_cut_samples_gets_one_canary(trained: Path) -> None:
    _, train, result = open_training(trained)
    cut = replace(train, sampler="truncated_poisson", max_batch=8)
    facts = replace(result.planned.sampler, kind="truncated_poisson", max_batch_size=8)
    changed = replace(result, planned=replace(result.planned, sampler=facts))
    (game,) = games_against(TrainingAttackSpec(run="r"), cut, changed)
    assert game.n_canaries == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"canaries": 0}, "canaries"),
        ({"direction": "up"}, "direction"),
        ({"excess": 1.0}, "above 1"),
        ({"stack": "llm-int8"}, "audit must be given"),
        ({"significance": 1.5}, "significance"),
    ],
)
def test_settings_that_break_their_rule_are_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        TrainingAttackSpec(run="r", **changes)  # pyright: ignore[reportArgumentType]
