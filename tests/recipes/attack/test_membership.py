"""Membership attacks on tiny models: an overfitted one is found, a private run keeps its promise.

An attack refutes a promise that holds with probability 0.05 at most; the seeds are fixed.
"""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from insular.audit.membership.results import MembershipResult
from insular.errors import EvidenceError, InvalidArgumentError, ModelError, RecordError
from insular.evidence import RunStore
from insular.models.loading import load_decoder
from insular.recipes.attack.membership import run as recipe
from insular.recipes.attack.membership.run import attack_membership, write_page
from insular.recipes.attack.membership.scores import record_losses_of
from insular.recipes.attack.membership.shadow import read_shadow_rows
from insular.recipes.attack.membership.spec import MembershipSpec
from insular.recipes.attack.membership.summary import membership_blocks
from insular.recipes.run_folder import PAGE, RESULT, read_settings
from insular.recipes.train.run import train_privately
from insular.records import TokenisedRecord
from insular.reports.terminal import results_console
from recipes.membership_inputs import N, attack_spec, texts, two_models, write
from recipes.train_inputs import tiny_train


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base model, a copy that learnt the members by heart, and the files."""
    made = tmp_path_factory.mktemp("membership")
    two_models(made)
    return made


@pytest.fixture(scope="module")
def leaky(folder: Path) -> tuple[Path, MembershipResult]:
    """An attack on the overfitted copy, which promises epsilon 1."""
    spec = attack_spec(
        folder / "leaky", *files(folder), reference=str(folder / "model"), epsilon=1.0, delta=1e-5
    )
    out = folder / "attack"
    return out, attack_membership(spec, out, command=("insular", "attack", "membership"))


@pytest.fixture(scope="module")
def private(folder: Path) -> Path:
    """A training run at epsilon 1 on the members, each its own unit."""
    spec = tiny_train(
        folder, text=str(files(folder)[0]), unit="record", epsilon=1.0, noise_seed=3, batch=30,
        steps=10, learning_rate=0.02,
    )  # fmt: skip
    train_privately(spec, folder / "private", command=())
    return folder / "private"


def files(folder: Path) -> tuple[Path, Path]:
    return folder / "members.jsonl", folder / "others.jsonl"


def attack(folder: Path, run: Path, out: Path, **changes: object) -> MembershipResult:
    return attack_membership(attack_spec(run, *files(folder), **changes), out, command=())


def printed(result: MembershipResult, capsys: pytest.CaptureFixture[str]) -> str:
    console = results_console()
    for block in membership_blocks(result):
        console.print(block)
    return capsys.readouterr().out


def test_a_model_that_learnt_its_members_by_heart_is_found(
    leaky: tuple[Path, MembershipResult], capsys: pytest.CaptureFixture[str]
) -> None:
    out, result = leaky
    areas = {one.score: one.auc.area for one in result.scores}
    assert list(areas) == ["loss", "zlib", "reference", "lowest"]
    assert areas["loss"] > 0.9 and areas["reference"] > 0.9
    assert result.verdict == "refuted" and result.exit_code == 1 and not result.shift.found
    best = result.best
    assert best.allowed is not None and best.tradeoff.tpr.lower > best.allowed
    assert best.epsilon.epsilon_lower_bound > 1
    text = printed(result, capsys)
    assert "REFUTED" in text and "What this does not show" in text
    assert max(map(len, text.splitlines())) <= 80
    assert "cannot resolve a false positive rate of 0.1%" in " ".join(text.split())
    page = (out / PAGE).read_text()
    assert "a score is no verdict" in page and "m-17" not in page
    words = texts(N, seed=1)[0]
    assert not any(words in f.read_text() for f in out.glob("*.*") if f.suffix != ".safetensors")


def test_areas_come_last_and_beside_what_needs_no_model(
    leaky: tuple[Path, MembershipResult], capsys: pytest.CaptureFixture[str]
) -> None:
    text = printed(leaky[1], capsys)
    tables = [text.index(title) for title in ("Members found", "held-out records prove", "last")]
    assert tables == sorted(tables) and "texts alone, no model" in text


def test_a_model_that_learnt_nothing_keeps_the_same_promise(folder: Path, tmp_path: Path) -> None:
    result = attack(folder, folder / "model", tmp_path / "a", epsilon=1.0, delta=1e-5)
    assert result.verdict == "not refuted" and result.exit_code == 0 and result.able
    assert [one.score for one in result.scores] == ["loss", "zlib", "lowest"]
    assert all(one.auc.lower < 0.5 < one.auc.upper for one in result.scores)


def test_a_private_run_is_inside_its_promise(
    folder: Path, private: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = attack(folder, private, tmp_path / "a")
    assert result.verdict == "not refuted" and result.exit_code == 0
    assert result.claim is not None and result.claim.whole and result.claim.unit == "record"
    assert result.claim.epsilon == pytest.approx(1.0, abs=0.02)
    assert result.found_in_training == N and result.reference == "its own base model"
    for one in result.scores:
        point = one.points[-1]
        assert point.wanted_fpr == 0.01 and point.resolved
        assert point.allowed is not None and point.proven_tpr <= point.allowed
        assert point.tpr.lower <= point.allowed
    assert "The promise is an estimate" in printed(result, capsys)


def test_the_order_of_the_files_changes_nothing(folder: Path, tmp_path: Path) -> None:
    found = []
    for turn, name in ((1, "a"), (-1, "b")):
        place = tmp_path / name
        place.mkdir()
        for file in files(folder):
            lines = file.read_text().splitlines()[::turn]
            (place / file.name).write_text("\n".join(lines))
        found.append(attack(place, folder / "leaky", place / "run"))
    first, second = ([replace(one, roc=()) for one in result.scores] for result in found)
    assert first == second


def test_scores_are_the_models_own_losses(folder: Path) -> None:
    """Against one record at a time, without padding."""
    import torch

    decoder = load_decoder(str(folder / "leaky"))
    tokens = [tuple(decoder.encode(text)) for text in texts(9, seed=8)]
    records = [TokenisedRecord(id=str(i), owner=str(i), tokens=row) for i, row in enumerate(tokens)]
    found = record_losses_of(decoder, records, lowest_percent=25, physical_tokens=40)
    for i, row in enumerate(tokens):
        with torch.no_grad():
            logits = decoder.model(input_ids=torch.tensor([row])).logits[0, :-1].double()
        losses = -torch.log_softmax(logits, -1)[range(len(row) - 1), list(row[1:])].numpy()
        k = int(np.ceil(len(losses) / 4))
        assert found.loss[i] == pytest.approx(losses.mean(), abs=1e-5)
        assert found.lowest[i] == pytest.approx(np.sort(losses)[::-1][:k].mean(), abs=1e-5)
        assert found.n_targets[i] == len(row) - 1


@pytest.mark.parametrize("tokens", [0, 6])
def test_a_model_compared_with_itself_has_no_difference(
    folder: Path, tmp_path: Path, tokens: int
) -> None:
    """Also where records are cut: the reference sees the text that was scored, and no more."""
    leaky = folder / "leaky"
    result = attack(folder, leaky, tmp_path / "a", reference=str(leaky), tokens=tokens)
    store = RunStore.open(tmp_path / "a")
    assert result.members.truncated == (N if tokens else 0)
    for block in result.blocks:
        assert block.scores is not None
        arrays = store.read_arrays(block.scores)
        assert arrays["reference"] == pytest.approx(arrays["loss"], abs=1e-5)


def test_a_stopped_run_goes_on_and_does_not_score_again(
    folder: Path, tmp_path: Path, leaky: tuple[Path, MembershipResult],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    spec, out = read_settings(RunStore.open(leaky[0]), MembershipSpec), tmp_path / "run"

    def stop(task: str, line: str) -> None:
        if task == "scores":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        attack_membership(spec, out, command=(), progress=stop)
    assert RunStore.open(out).manifest.status == "interrupted"
    kept = (out / "scores-001.json").stat().st_mtime_ns
    result = attack_membership(spec, out, command=())
    assert (out / "scores-001.json").stat().st_mtime_ns == kept
    assert result.scores == leaky[1].scores
    with pytest.raises(EvidenceError, match="already holds a complete run"):
        attack_membership(spec, out, command=())


def test_the_page_comes_again_from_the_evidence(leaky: tuple[Path, MembershipResult]) -> None:
    out, result = leaky
    before = (out / PAGE).read_bytes()
    store = RunStore.open(out)
    assert store.read_result(RESULT, MembershipResult) == result
    assert write_page(store).read_bytes() == before
    store.verify()


def test_copies_among_the_non_members_are_refused_or_dropped(folder: Path, tmp_path: Path) -> None:
    members = texts(N, seed=1)
    copies = [text.replace(" ", "  ").upper() + "\n" for text in members[:30]]
    others = write(tmp_path / "others.jsonl", "n", [*texts(70, seed=2), *copies])
    spec = attack_spec(folder / "leaky", files(folder)[0], others)
    with pytest.raises(RecordError, match="got 30 of 100 records at similarity 0.5 or more"):
        attack_membership(spec, tmp_path / "a", command=())
    assert not (tmp_path / "a").exists()
    result = attack_membership(replace(spec, overlap="drop"), tmp_path / "b", command=())
    assert len(result.overlap.found) == 30 and result.non_members.scored == 70
    assert "Non-members left out" in (tmp_path / "b" / PAGE).read_text()


def test_copies_of_the_training_text_count_even_where_no_member_names_them(
    folder: Path, private: Path, tmp_path: Path
) -> None:
    known = texts(N, seed=1)
    members = write(tmp_path / "members.jsonl", "m", known[:60])
    others = write(tmp_path / "others.jsonl", "n", [*known[60:62], *texts(60, seed=2)])
    with pytest.raises(RecordError, match="got 2 of 62 records"):
        attack_membership(attack_spec(private, members, others), tmp_path / "a", command=())
    with pytest.raises(RecordError, match="are the two files swapped"):
        attack_membership(
            attack_spec(private, files(folder)[1], files(folder)[0]), tmp_path / "a", command=()
        )


def test_ids_and_owners_on_both_sides_and_doubled_ids_are_one_error(
    folder: Path, tmp_path: Path
) -> None:
    members = write(tmp_path / "m.jsonl", "x", texts(20, seed=1), owners=5)
    others = write(tmp_path / "n.jsonl", "x", texts(20, seed=2), owners=5)
    with pytest.raises(RecordError, match="no record id may be among .* got 20 in both files"):
        attack_membership(
            attack_spec(folder / "leaky", members, others), tmp_path / "a", command=()
        )
    others.write_text(others.read_text().replace('"id": "x-', '"id": "y-'))
    spec = attack_spec(folder / "leaky", members, others, unit="user_id")
    with pytest.raises(RecordError, match="no owner may be among .* got 5 in both files: x0"):
        attack_membership(spec, tmp_path / "a", command=())
    others.write_text(2 * others.read_text())
    with pytest.raises(RecordError, match="id 'y-0' stands on line 1 already"):
        attack_membership(spec, tmp_path / "a", command=())


def test_files_that_differ_without_the_model_decide_nothing(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    others = write(tmp_path / "others.jsonl", "n", texts(N, seed=2, first=20))
    spec = attack_spec(folder / "leaky", files(folder)[0], others, epsilon=1.0, delta=1e-5)
    result = attack_membership(spec, tmp_path / "a", command=())
    assert result.shift.found and any(one.refutes for one in result.scores)
    assert result.verdict == "undecided" and result.exit_code == 2
    text = " ".join(printed(result, capsys).replace("│", " ").split())
    assert "differ without the model too" in text and "the two files DIFFER" in text


def test_few_records_decide_nothing(folder: Path, tmp_path: Path) -> None:
    sides = [
        write(tmp_path / f"{name}.jsonl", name, texts(20, seed=seed))
        for name, seed in (("m", 1), ("n", 2))
    ]
    spec = attack_spec(folder / "model", *sides, epsilon=8.0, delta=1e-5)
    result = attack_membership(spec, tmp_path / "a", command=())
    assert not result.able and result.verdict == "undecided" and result.exit_code == 2


def test_without_a_promise_it_measures(folder: Path, tmp_path: Path) -> None:
    result = attack(folder, folder / "leaky", tmp_path / "a")
    assert result.verdict == "no promise" and result.exit_code == 0
    assert result.best.epsilon.delta == 1e-5
    with pytest.raises(InvalidArgumentError, match="another folder than what is read"):
        attack(folder, folder / "leaky", folder / "leaky")


def test_an_owners_promise_is_tested_by_owner(folder: Path, tmp_path: Path) -> None:
    members = write(tmp_path / "m.jsonl", "m", texts(N, seed=1), owners=40)
    others = write(tmp_path / "n.jsonl", "n", texts(N, seed=2), owners=40)
    spec = tiny_train(folder, text=str(members), noise_seed=3, steps=3)
    train_privately(spec, tmp_path / "run", command=())
    run = attack_spec(tmp_path / "run", members, others)
    result = attack_membership(run, tmp_path / "a", command=())
    assert result.by_owner and result.members.units == 40 and result.members.scored == N
    assert result.scores[0].auc.n_members == 40
    with pytest.raises(InvalidArgumentError, match="epsilon must be 0 for a training run"):
        attack_membership(replace(run, epsilon=1.0), tmp_path / "b", command=())
    with pytest.raises(RecordError, match="'user_id'"):
        attack_membership(
            replace(run, non_members=str(files(folder)[1])), tmp_path / "b", command=()
        )


def test_shadow_losses_give_likelihood_ratios(folder: Path, tmp_path: Path) -> None:
    """Shadow losses around the base's: far above what the leaky copy has for its members."""
    rng = np.random.default_rng(0)
    rows = [
        {"id": f"{side}-{i}", "shadow": f"s{j}", "member": (i + j) % 2 == 0, "loss": 0.0}
        for side in "mn"
        for i in range(N)
        for j in range(6)
    ]
    for row in rows:
        row["loss"] = 3.0 - 2.0 * row["member"] + 0.3 * rng.standard_normal()
    path = tmp_path / "shadow.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows[::-1]))
    result = attack(folder, folder / "leaky", tmp_path / "a", shadow=str(path))
    areas = {one.score: one.auc.area for one in result.scores}
    assert areas["one-sided likelihood ratio"] > 0.9 and areas["likelihood ratio"] > 0.9
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows[1:]))
    with pytest.raises(InvalidArgumentError, match="got 1 missing, 0 doubled"):
        attack(folder, folder / "leaky", tmp_path / "b", shadow=str(path))
    path.write_text('{"id": "m-1", "shadow": "s", "member": 1, "loss": 0.5}')
    with pytest.raises(RecordError, match="line 1: must be an object with id, shadow, member"):
        read_shadow_rows(path)


def test_bad_settings_are_one_line(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="overlap must be one of refuse, drop.*at most"):
        attack_spec(folder, *files(folder), overlap="keep", lowest_percent=101)
    with pytest.raises(InvalidArgumentError, match="tokens must be at most the model's context"):
        attack(folder, folder / "leaky", tmp_path / "a", tokens=65)
    with pytest.raises(ModelError, match="does not exist"):
        attack(folder, tmp_path / "none", tmp_path / "a")
    assert recipe.KIND == "attack.membership"
