"""Attacks on the card of a training run: their bounds, a refutation first, no other run's."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from insular.audit.training.results import TrainingAttackResult
from insular.errors import EvidenceError
from insular.evidence import RunStore
from insular.recipes.attack.membership.run import attack_membership
from insular.recipes.attack.membership.spec import MembershipSpec
from insular.recipes.attack.one_run.run import attack_one_run
from insular.recipes.attack.one_run.spec import OneRunSpec
from insular.recipes.attack.training.run import attack_training
from insular.recipes.attack.training.spec import TrainingAttackSpec
from insular.recipes.card.run import make_card, write_card
from insular.recipes.run_folder import RESULT
from insular.recipes.train.run import train_privately
from recipes.train_inputs import tiny_train


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("attacked")
    run, attack = folder / "run", folder / "attack"
    train_privately(tiny_train(folder), run, command=("insular", "train"))
    spec = TrainingAttackSpec(run=str(run), canaries=16, repetitions=16)
    attack_training(spec, attack, command=("insular", "attack", "training"))
    return run, attack


def test_the_bounds_of_an_attack_stand_on_the_card(
    attacked: tuple[Path, Path], tmp_path: Path
) -> None:
    run, attack = attacked
    found = RunStore.open(attack).read_result(RESULT, TrainingAttackResult)
    card = make_card(run, attacks=[attack])
    assert card.lower_bounds is not None
    assert card.lower_bounds[0].epsilon_lower_bound == found.games[0].point.epsilon_lower_bound
    assert not card.lower_bounds[0].refutes
    assert card.claim == "holds"
    assert "lower_bounds" not in card.missing
    markdown = write_card(card, run, out=tmp_path)[1].read_text()
    assert "training, canaries" in markdown


def test_a_card_that_an_attack_refutes_says_so_first(
    attacked: tuple[Path, Path], tmp_path: Path
) -> None:
    run, attack = attacked
    refuting = tmp_path / "attack"
    shutil.copytree(attack, refuting)
    store = RunStore.open(refuting)
    found = store.read_result(RESULT, TrainingAttackResult)
    store.reopen()
    store.write_result(RESULT, replace(found, games=(replace(found.games[0], curve_refuted=True),)))
    store.finish("complete")
    card = make_card(run, attacks=[refuting])
    assert card.headline.startswith("Refuted by an attack")
    assert card.claim == "does not hold"
    assert card.exit_code == 1


def test_a_one_run_audit_and_a_membership_attack_stand_there_too(
    attacked: tuple[Path, Path], tmp_path: Path
) -> None:
    run, _ = attacked
    once, members = tmp_path / "once", tmp_path / "membership"
    spec = OneRunSpec(run=str(run), canaries=100)
    found = attack_one_run(spec, once, command=("insular", "attack", "one-run"))
    rows = (run.parent / "tickets.jsonl").read_text().splitlines()
    inside, outside = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    inside.write_text("\n".join(rows[:30]) + "\n")
    outside.write_text(
        "".join(
            json.dumps(
                {"id": f"O-{i}", "user_id": f"x{i}", "text": f"w{i} w1 w{30 - i} w7 w{i + 2} w3"}
            )
            + "\n"
            for i in range(30)
        )
    )
    scored = attack_membership(
        MembershipSpec(run=str(run), members=str(inside), non_members=str(outside)),
        members,
        command=("insular", "attack", "membership"),
    )
    card = make_card(run, attacks=[once, members])
    assert card.lower_bounds is not None
    first, second = card.lower_bounds
    assert (first.attack, first.epsilon_lower_bound) == ("one run", found.bound.epsilon_lower_bound)
    assert second.attack == f"membership, {scored.best.score}"
    assert second.refutes == (scored.verdict == "refuted")


def test_an_attack_on_another_run_is_refused(attacked: tuple[Path, Path], tmp_path: Path) -> None:
    _, attack = attacked
    other = tmp_path / "other"
    train_privately(tiny_train(tmp_path, steps=3), other, command=("insular", "train"))
    with pytest.raises(EvidenceError, match="got one on another"):
        make_card(other, attacks=[attack])
    with pytest.raises(EvidenceError, match="must be a complete run of insular attack training"):
        make_card(other, attacks=[other])
