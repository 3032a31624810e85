"""Training runs as shadow models: an overfitted adapter, a clean control, what is refused."""

import json
import random
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from cli.in_process import insular
from insular.audit.membership.results import MembershipResult, ScoreName
from insular.audit.membership.shadow_results import ShadowBlock
from insular.errors import EvidenceError, InsularError, InvalidArgumentError
from insular.evidence import RunStore, to_toml
from insular.recipes.attack.membership import shadow as attack_membership_shadow
from insular.recipes.attack.membership.run import attack_membership
from insular.recipes.attack.membership.summary import membership_blocks
from insular.recipes.run_folder import PAGE, RESULT, SPEC_FILE
from insular.recipes.train import run as train
from insular.recipes.train.data import read_training_corpus
from insular.recipes.train.isolation import audit_first
from insular.recipes.train.results import IsolationFinding, TrainResult
from insular.recipes.train.spec import TrainSpec
from insular.reports.terminal import results_console
from recipes.membership_inputs import attack_spec, overfitted, texts, varied, write
from recipes.tiny_run import tiny_folder
from recipes.train_inputs import tiny_train

N, SHADOWS = 60, 8
COMMAND = ("insular", "attack", "membership")


@dataclass(frozen=True, kw_only=True)
class Runs:
    """A target that learnt the members by heart, a control that saw none, eight shadows."""

    folder: Path
    shadows: tuple[str, ...]

    def attack(self, run: str, out: Path, **changes: object) -> MembershipResult:
        """An attack with all shadows."""
        files = (self.folder / "members.jsonl", self.folder / "others.jsonl")
        given = {"shadow_runs": self.shadows} | changes
        spec = attack_spec(self.folder / run, *files, **given)
        return attack_membership(spec, out, command=COMMAND)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    folder = tmp_path_factory.mktemp("shadows")
    lines: list[str] = []
    for name, seed in (("members", 1), ("others", 2)):
        file = write(folder / f"{name}.jsonl", name[0], varied(N, seed=seed))
        lines += file.read_text().splitlines()
    public = write(folder / "public.jsonl", "p", varied(2 * N, seed=9))
    overfitted(tiny_folder(folder / "raw"), public, folder / "model")
    audited: list[IsolationFinding] = []

    def once(*given: object, **more: object) -> IsolationFinding:
        if not audited:  # one stack
            audited.append(audit_first(*given, **more))  # pyright: ignore[reportArgumentType]
        return audited[0]

    def learn(name: str, rows: list[str], seed: int) -> str:
        text = folder / f"{name}.jsonl"
        text.write_text("\n".join(rows) + "\n")
        spec = tiny_train(
            folder, text=str(text), unit="record", epsilon=0.0, noise_multiplier=1e-3,
            sampler="full_batch", batch=N, steps=10, learning_rate=0.01, clip_norm=1.0,
            noise_seed=seed, seed=seed,
        )  # fmt: skip
        train.train_privately(spec, folder / name, command=())
        return str(folder / name)

    rng = random.Random(4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train, "audit_first", once)
        learn("target", lines[:N], 0)
        shadows = tuple(learn(f"s{i}", rng.sample(lines, N), i + 1) for i in range(SHADOWS))
        strangers = write(folder / "strangers.jsonl", "c", varied(N, seed=11))
        learn("control", strangers.read_text().splitlines(), 99)
    return Runs(folder=folder, shadows=shadows)


@pytest.fixture(scope="module")
def found(runs: Runs) -> tuple[Path, MembershipResult]:
    out = runs.folder / "attack"
    return out, runs.attack("target", out)


def areas(result: MembershipResult) -> dict[ScoreName, float]:
    return {one.score: one.auc.area for one in result.scores}


def test_the_ratio_tells_no_less_than_the_loss_and_more_here(
    found: tuple[Path, MembershipResult],
) -> None:
    """Texts differ in how hard they are, which the shadows know and the loss alone does not.

    With each of nine such runs as the target, the areas were 0.52 to 0.76 for the loss, 0.79 to
    0.92 for the one-sided ratio and 0.78 to 0.89 for the two-sided one.
    """
    _, result = found
    area = areas(result)
    assert list(area)[-2:] == ["one-sided likelihood ratio", "likelihood ratio"]
    for name in ("one-sided likelihood ratio", "likelihood ratio"):
        assert area[name] >= area["loss"] and area[name] > 0.7
    assert not result.shift.found
    use = result.shadows
    assert use is not None and use.runs and not use.own_spread
    assert (use.n_models, use.n_both + use.n_one_side) == (SHADOWS, 2 * N)
    assert use.n_one_side > 0  # random halves leave some records on one side


def test_a_control_that_never_saw_the_records_is_at_chance(runs: Runs, tmp_path: Path) -> None:
    result = runs.attack("control/adapter", tmp_path / "a", model=str(runs.folder / "model"))
    assert len(result.scores) == 6
    assert all(one.auc.lower < 0.5 < one.auc.upper for one in result.scores)


def test_membership_of_shadows_is_read_from_their_texts(
    runs: Runs, found: tuple[Path, MembershipResult]
) -> None:
    store = RunStore.open(found[0])
    for number, folder in enumerate(runs.shadows, start=1):
        block = store.read_result(f"shadow-{number:03d}", ShadowBlock)
        assert (block.run, block.losses is not None) == (folder, True)
        assert block.losses is not None
        inside = store.read_arrays(block.losses)["inside"]
        learnt = {
            json.loads(line)["id"] for line in Path(f"{folder}.jsonl").read_text().splitlines()
        }
        assert {name for name, here in zip(block.ids, inside, strict=True) if here} == learnt
    named = [fact.source for fact in store.manifest.inputs if fact.name == "shadow"]
    assert named == list(runs.shadows)


def test_page_and_terminal_say_what_a_ratio_rests_on(
    found: tuple[Path, MembershipResult], capsys: pytest.CaptureFixture[str]
) -> None:
    out, result = found
    console = results_console()
    for block in membership_blocks(result):
        console.print(block)
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= 80
    assert result.shadows is not None
    words = f"for {result.shadows.n_both} of {2 * N} records; where one side is missing"
    for text in (" ".join(said.split()), (out / PAGE).read_text()):
        assert f"under {SHADOWS} training runs, each on its own part" in text and words in text
    secret = json.loads((out.parent / "members.jsonl").read_text().splitlines()[0])["text"]
    assert not [f for f in out.rglob("*.*") if secret.encode() in f.read_bytes()]


def test_a_stopped_attack_does_not_load_a_shadow_twice(
    runs: Runs, found: tuple[Path, MembershipResult], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    loaded: list[Path] = []
    original = attack_membership_shadow.open_attacked

    def counted(run: Path, **given: Any) -> object:
        loaded.append(run)
        if len(loaded) == 4:
            raise KeyboardInterrupt
        return original(run, **given)

    monkeypatch.setattr(attack_membership_shadow, "open_attacked", counted)
    with pytest.raises(KeyboardInterrupt):
        runs.attack("target", tmp_path / "a")
    result = runs.attack("target", tmp_path / "a")
    assert [path.name for path in loaded] == [
        "s0",
        "s1",
        "s2",
        "s3",
        *[f"s{i}" for i in range(3, 8)],
    ]
    assert areas(result) == areas(found[1])


def spoiled(
    runs: Runs, folder: Path, *, spec: dict[str, object] | None = None, **results: object
) -> str:
    """A shadow whose settings or results are others; its text's digest follows its text."""
    shutil.copytree(runs.shadows[0], folder)
    store = RunStore.open(folder)
    settings, result = train.read_spec(store), store.read_result(RESULT, TrainResult)
    settings = replace(settings, **(spec or {}))  # pyright: ignore[reportArgumentType]
    if "text" in (spec or {}):
        data = replace(result.data, sha256=read_training_corpus(settings).digest)
        result = replace(result, data=data)
    store.reopen()
    store.write_text(SPEC_FILE, to_toml(settings))
    store.write_result(RESULT, replace(result, **results))  # pyright: ignore[reportArgumentType]
    store.finish("complete")
    return str(folder)


@pytest.mark.parametrize(
    ("spec", "results", "message"),
    [
        ({"learning_rate": 0.5, "clip_norm": 2.0}, {}, r"got learning_rate 0\.5 and not 0\.02|got "
         r"clip_norm 2\.0 and not 1\.0, learning_rate"),
        ({}, {"model_digest": "ab" * 32}, "must stand on the attacked base model, .*got abababab"),
        ({"text": "other.jsonl"}, {}, "got another text, .* with none of them"),
        ({"text": "members.jsonl"}, {}, "got 60 of 60 members and 0 of 60 others: it would know"),
        ({"text": "others.jsonl"}, {}, "got 0 of 60 members and 60 of 60 others: it would know"),
    ],
)  # fmt: skip
def test_a_shadow_of_another_model_text_or_settings_is_refused(
    runs: Runs,
    tmp_path: Path,
    spec: dict[str, object],
    results: dict[str, object],
    message: str,
) -> None:
    if "text" in spec:
        spec = spec | {"text": str(runs.folder / str(spec["text"]))}
        write(runs.folder / "other.jsonl", "x", texts(N, seed=77))
    bad = spoiled(runs, tmp_path / "bad", spec=spec, **results)
    with pytest.raises(InsularError, match=message):
        runs.attack("target", tmp_path / "a", shadow_runs=(*runs.shadows[1:], bad))
    assert not (tmp_path / "a").exists()


def test_a_shadow_whose_members_cannot_be_known_is_refused(runs: Runs, tmp_path: Path) -> None:
    text = tmp_path / "text.jsonl"
    shutil.copyfile(f"{runs.shadows[0]}.jsonl", text)
    bad = spoiled(runs, tmp_path / "bad", spec={"text": str(text)})
    runs.attack("target", tmp_path / "a", shadow_runs=(*runs.shadows[1:], bad))  # a copy will do
    text.write_text("\n".join(text.read_text().splitlines()[1:]))
    with pytest.raises(InsularError, match="that was changed since"):
        runs.attack("target", tmp_path / "b", shadow_runs=(bad,))
    text.unlink()
    with pytest.raises(InsularError, match="must have its training text at hand"):
        runs.attack("target", tmp_path / "b", shadow_runs=(bad,))


def test_the_attacked_run_a_double_and_what_is_no_run_are_refused(
    runs: Runs, tmp_path: Path
) -> None:
    for given in ((str(runs.folder / "target"),), (runs.shadows[0], runs.shadows[0])):
        with pytest.raises(InvalidArgumentError, match="got one of them again"):
            runs.attack("target", tmp_path / "a", shadow_runs=given)
    with pytest.raises(EvidenceError, match="is not a run folder"):
        runs.attack("target", tmp_path / "a", shadow_runs=(str(tmp_path),))
    with pytest.raises(InvalidArgumentError, match="must be a training run or an adapter to have"):
        runs.attack("model", tmp_path / "a")
    with pytest.raises(InvalidArgumentError, match="got both; leave one out"):
        runs.attack("target", tmp_path / "a", shadow="losses.jsonl")
    other = tmp_path / "adapter"
    shutil.copytree(runs.folder / "control" / "adapter", other)
    config = json.loads((other / "adapter_config.json").read_text())
    (other / "adapter_config.json").write_text(json.dumps(config | {"lora_alpha": 3}))
    with pytest.raises(InvalidArgumentError, match=r"got lora_alpha [\d.]+ and not 3; train it as"):
        runs.attack(str(other), tmp_path / "a", model=str(runs.folder / "model"))


def test_two_shadows_are_too_few(runs: Runs, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="at least 2 models that did not learn from"):
        runs.attack("target", tmp_path / "a", shadow_runs=runs.shadows[:2])


def test_the_command_takes_folders_several_times_or_by_comma(runs: Runs, tmp_path: Path) -> None:
    files = (str(runs.folder / "members.jsonl"), "--non-members", str(runs.folder / "others.jsonl"))
    by_comma, one = ",".join(runs.shadows[:5]), runs.shadows[5]
    done = insular(
        *("attack", "membership", str(runs.folder / "target"), "--members", *files),
        *("--shadow", by_comma, "--shadow", one, "--out", str(tmp_path / "a"), "--quiet"),
    )
    assert done.code in (0, 2), done.stderr
    assert "under 6 training runs" in " ".join(done.stdout.split())
    bad = insular(
        *("attack", "membership", str(runs.folder / "target"), "--members", *files),
        *("--shadow", str(tmp_path / "none.jsonl"), "--out", str(tmp_path / "b"), "--quiet"),
    )
    assert (bad.code, len(bad.stderr.splitlines())) == (2, 1)
    assert "cannot read" in bad.stderr


def test_settings_that_a_shadow_may_not_change_exist() -> None:
    from insular.recipes.attack.membership.shadow_runs import _MAY_DIFFER

    assert set(TrainSpec.__dataclass_fields__) >= _MAY_DIFFER
