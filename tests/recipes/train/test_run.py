"""Training runs end to end on tiny models: what is kept, refused, resumed and charged."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from insular.accounting import spend
from insular.errors import (
    BudgetExceededError,
    EvidenceError,
    InvalidArgumentError,
    LedgerError,
    RecordError,
    SubjectError,
    TrainingError,
)
from insular.evidence import RunStore
from insular.evidence.ledger import Amount, Ledger
from insular.recipes.pages import write_page_of
from insular.recipes.train import run as train
from insular.recipes.train.results import TrainResult
from insular.recipes.train.run import train_privately
from insular.recipes.train.spec import TrainSpec
from insular.training.executed_log import read_log
from insular.training.noise import GaussianNoise, NoiseDraw
from recipes.train_inputs import tiny_train, user_tickets

COMMAND = ("insular", "train")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("train")
    tiny_train(folder)
    return folder


@pytest.fixture(scope="module")
def spec(inputs: Path) -> TrainSpec:
    return tiny_train(inputs, noise_seed=7)


@pytest.fixture(scope="module")
def unbroken(spec: TrainSpec, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TrainResult]:
    out = tmp_path_factory.mktemp("runs") / "unbroken"
    return out, train_privately(spec, out, command=COMMAND)


class Stop:
    """Interrupts a run after some steps."""

    def __init__(self, after: int) -> None:
        self.left = after

    def __call__(self, task: str, line: str) -> None:
        if task == "train" and line.startswith("step"):
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt


def test_the_cost_is_that_of_the_log(unbroken: tuple[Path, TrainResult]) -> None:
    out, result = unbroken
    assert result.as_planned
    assert result.exit_code == 1  # seeded: whoever knows the seed takes the noise away
    assert result.executed.n_releases == len(read_log(out / "releases.jsonl")) == 8
    assert result.epsilon == spend(result.executed.event, delta=result.delta).epsilon
    assert 0 < result.epsilon <= 3.0
    assert result.delta == 1e-3  # a tenth of 1/20 is 5e-3
    assert result.epsilon_path[-1].epsilon == pytest.approx(result.epsilon)


def test_no_file_holds_record_text(unbroken: tuple[Path, TrainResult], spec: TrainSpec) -> None:
    texts = [json.loads(line)["text"] for line in Path(spec.text).read_text().splitlines()]
    for file in unbroken[0].rglob("*"):
        if file.is_file():
            content = file.read_bytes().decode("utf-8", errors="replace")
            assert not [text for text in texts if text in content], file


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing.:FutureWarning")
def test_peft_loads_the_adapter(unbroken: tuple[Path, TrainResult], spec: TrainSpec) -> None:
    base = AutoModelForCausalLM.from_pretrained(spec.model)
    tokens = torch.arange(2, 10)[None]
    before = base(tokens).logits
    adapted = PeftModel.from_pretrained(base, unbroken[0] / "adapter")
    assert not torch.equal(adapted(tokens).logits, before)


def test_manifest_lists_what_left_and_the_page_is_rendered_again(
    unbroken: tuple[Path, TrainResult],
) -> None:
    out, result = unbroken
    files = RunStore.open(out).manifest.files
    assert all(files[artifact.file] == artifact.sha256 for artifact in result.artifacts)
    assert {"releases.jsonl", "results.json", "run.toml", "report.html"} <= files.keys()
    page = out / "report.html"
    before = page.read_text()
    assert write_page_of(out) == page
    assert page.read_text() == before


@pytest.mark.parametrize("stops", [(3,), (1, 2), (7,)])
def test_a_resumed_run_equals_the_unbroken_one(
    spec: TrainSpec,
    unbroken: tuple[Path, TrainResult],
    tmp_path: Path,
    stops: tuple[int, ...],
) -> None:
    out, again = tmp_path / "run", False
    for after in stops:
        with pytest.raises(KeyboardInterrupt):
            train_privately(spec, out, command=COMMAND, resume=again, progress=Stop(after))
        assert RunStore.open(out).manifest.status == "interrupted"
        again = True
    result = train_privately(spec, out, command=COMMAND, resume=True)
    assert result.epsilon == unbroken[1].epsilon
    assert result.executed.n_releases == 8
    assert result.executed.n_starts == len(stops) + 1
    assert not result.executed.differences
    assert len(result.telemetry) == 8


def test_a_release_whose_step_was_lost_stays_spent(
    spec: TrainSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after the log and before the parameters: the release counts, its step is redone."""
    original = GaussianNoise.add

    def dies(self: GaussianNoise, total: torch.Tensor, draw: NoiseDraw) -> torch.Tensor:
        if len(read_log(tmp_path / "run" / "releases.jsonl")) == 4:
            raise KeyboardInterrupt
        return original(self, total, draw)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(GaussianNoise, "add", dies)
        train_privately(spec, tmp_path / "run", command=COMMAND)
    result = train_privately(spec, tmp_path / "run", command=COMMAND, resume=True)
    steps = [entry.step for entry in read_log(tmp_path / "run" / "releases.jsonl")]
    assert steps == [0, 1, 2, 3, 3, 4, 5, 6]
    assert result.as_planned
    assert result.executed.n_releases == 8
    assert result.executed.n_steps == 7


def test_noise_below_the_plan_fails_closed(
    spec: TrainSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: half the noise. Caught by what was measured on it, though the log says the plan."""
    original = GaussianNoise.draw

    def halved(self: GaussianNoise, n_params: int, **given: float) -> NoiseDraw:
        draw = original(self, n_params, **given)  # pyright: ignore[reportArgumentType]
        return replace(draw, values=draw.values / 2, rms=draw.rms / 2)

    monkeypatch.setattr(GaussianNoise, "draw", halved)
    ledger = _ledger(tmp_path)
    charged = replace(spec, ledger=str(ledger), population="users", noise_seed=-1)
    result = train_privately(charged, tmp_path / "run", command=COMMAND)
    assert result.exit_code == 1
    assert any("noise" in difference for difference in result.executed.differences)
    assert result.artifacts == ()
    assert not (tmp_path / "run" / "adapter").exists()
    assert Ledger(ledger).status().populations[0].account.n_reserved == 1
    assert RunStore.open(tmp_path / "run").manifest.status == "failed"


def test_a_lost_gradient_ends_the_run_before_more_is_spent(
    spec: TrainSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: one adapter whose gradient is lost, as a repacked 4-bit layer loses it."""
    from insular.recipes.train.session import Session

    original = Session.clipped_sum

    def lossy(self: Session):
        add = original(self)

        def run(units):
            found = add(units)
            found.value[:10_000] *= 0
            return found

        return run

    monkeypatch.setattr(Session, "clipped_sum", lossy)
    with pytest.raises(TrainingError, match="had no gradient from any record in 3 steps"):
        train_privately(spec, tmp_path / "run", command=COMMAND)
    assert len(read_log(tmp_path / "run" / "releases.jsonl")) == 2


def test_a_coupled_backbone_is_refused(inputs: Path, tmp_path: Path) -> None:
    from recipes.tiny_run import tickets

    text = tickets(tmp_path / "loud.jsonl", n_records=30)
    coupled = tiny_train(inputs, text=str(text), unit="record", backbone="llm-int8")
    with pytest.raises(SubjectError, match="couples records on this path"):
        train_privately(coupled, tmp_path / "run", command=COMMAND)
    assert not (tmp_path / "run" / "releases.jsonl").exists()


def test_an_accepted_coupling_pays_seven_times_the_noise(inputs: Path, tmp_path: Path) -> None:
    from recipes.tiny_run import tickets

    text = tickets(tmp_path / "loud.jsonl", n_records=30)
    accepted = tiny_train(
        inputs,
        text=str(text),
        unit="record",
        backbone="llm-int8",
        accept_coupling="the backbone is fixed by the device",
    )
    result = train_privately(accepted, tmp_path / "run", command=COMMAND)
    assert result.isolation.verdict == "coupled"
    assert result.isolation.accepted == "the backbone is fixed by the device"
    plan = result.planned
    assert plan.influence == 7
    assert plan.noise_std == pytest.approx(7 * plan.noise_multiplier * plan.clip_norm)
    assert result.epsilon <= 3.0


def _ledger(folder: Path, *, epsilon: str = "4", unit: str = "owner") -> Path:
    """A ledger of one population."""
    where = folder / "team.ledger"
    Ledger(where).declare(
        "users",
        unit=unit,  # pyright: ignore[reportArgumentType]
        relation="add_or_remove_one",
        cap=Amount.of(epsilon, "0.01"),
    )
    return where


def test_the_ledger_is_charged_what_was_spent(spec: TrainSpec, tmp_path: Path) -> None:
    ledger = _ledger(tmp_path)
    charged = replace(spec, ledger=str(ledger), population="users", noise_seed=-1)
    result = train_privately(charged, tmp_path / "first", command=COMMAND)
    assert result.ledger is not None
    assert result.exit_code == 0
    account = Ledger(ledger).status().populations[0].account
    assert account.n_committed == 1
    assert result.epsilon <= float(account.spent.epsilon) <= result.epsilon + 2e-6
    with pytest.raises(BudgetExceededError):
        train_privately(charged, tmp_path / "second", command=COMMAND)
    assert not (tmp_path / "second" / "releases.jsonl").exists()


def test_an_interrupted_run_is_charged_once(spec: TrainSpec, tmp_path: Path) -> None:
    ledger = _ledger(tmp_path)
    charged = replace(spec, ledger=str(ledger), population="users", noise_seed=-1)
    with pytest.raises(KeyboardInterrupt):
        train_privately(charged, tmp_path / "run", command=COMMAND, progress=Stop(2))
    assert Ledger(ledger).status().populations[0].account.n_reserved == 1
    train_privately(charged, tmp_path / "run", command=COMMAND, resume=True)
    account = Ledger(ledger).status().populations[0].account
    assert (account.n_reserved, account.n_committed) == (0, 1)


def test_a_run_killed_between_commit_and_result_ends_with_one_charge(
    spec: TrainSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was killed finds its reservation again, even where its charge was committed."""
    ledger = _ledger(tmp_path)
    charged = replace(spec, ledger=str(ledger), population="users", noise_seed=-1)
    with monkeypatch.context() as patch:
        patch.setattr(train.Reservation, "reference", _killed)
        with pytest.raises(KeyboardInterrupt):
            train_privately(charged, tmp_path / "run", command=COMMAND)
    assert Ledger(ledger).status().populations[0].account.n_committed == 1
    result = train_privately(charged, tmp_path / "run", command=COMMAND, resume=True)
    assert result.exit_code == 0
    account = Ledger(ledger).status().populations[0].account
    assert (account.n_reserved, account.n_committed) == (0, 1)
    assert len(Ledger(ledger).history(release="run")) == 2


def test_a_run_killed_after_its_result_is_finished_on_resume(
    spec: TrainSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(RunStore, "adopt", _killed)
        with pytest.raises(KeyboardInterrupt):
            train_privately(spec, tmp_path / "run", command=COMMAND)
    result = train_privately(spec, tmp_path / "run", command=COMMAND, resume=True)
    store = RunStore.open(tmp_path / "run")
    assert store.manifest.status == "complete"
    assert result == store.read_result("results", TrainResult)
    assert (tmp_path / "run" / "report.html").is_file()


def test_no_run_uses_the_reservation_of_another(spec: TrainSpec, tmp_path: Path) -> None:
    """Planted: a second run of the same name, while the first one lies stopped and reserved."""
    ledger = _ledger(tmp_path)
    charged = replace(
        spec, ledger=str(ledger), population="users", release="tickets", noise_seed=-1
    )
    with pytest.raises(KeyboardInterrupt):
        train_privately(charged, tmp_path / "first", command=COMMAND, progress=Stop(2))
    with pytest.raises(LedgerError, match="free or reserved by this run"):
        train_privately(charged, tmp_path / "second", command=COMMAND)
    assert not (tmp_path / "second" / "releases.jsonl").exists()
    train_privately(charged, tmp_path / "first", command=COMMAND, resume=True)


def test_a_run_leaves_the_process_with_the_threads_that_it_had(
    spec: TrainSpec, tmp_path: Path
) -> None:
    before = torch.get_num_threads()
    train_privately(replace(spec, threads=before + 1), tmp_path / "run", command=COMMAND)
    assert torch.get_num_threads() == before


def _killed(*given: object, **named: object) -> None:
    """In place of what a kill kept from happening."""
    raise KeyboardInterrupt


def test_a_ledger_of_another_unit_is_refused(spec: TrainSpec, tmp_path: Path) -> None:
    ledger = _ledger(tmp_path, unit="record")
    with pytest.raises(LedgerError, match="protected by record"):
        train_privately(
            replace(spec, ledger=str(ledger), population="users", noise_seed=-1),
            tmp_path / "run",
            command=COMMAND,
        )


def test_public_loss_does_not_stop_an_nf4_run_from_learning(inputs: Path, tmp_path: Path) -> None:
    public = user_tickets(tmp_path / "public.jsonl", n_records=70)
    lines = public.read_text().splitlines()[60:]
    public.write_text("\n".join(lines))
    nf4 = tiny_train(inputs, backbone="nf4", validation=str(public), noise_seed=3)
    result = train_privately(nf4, tmp_path / "run", command=COMMAND)
    assert result.liveness.alive
    assert result.utility is not None
    assert result.utility.n_records == 10


def test_a_validation_text_that_is_learnt_from_is_refused(spec: TrainSpec, tmp_path: Path) -> None:
    copy = tmp_path / "copy.jsonl"
    copy.write_text(Path(spec.text).read_text().splitlines()[3] + "\n")
    with pytest.raises(RecordError, match="private number without noise"):
        train_privately(replace(spec, validation=str(copy)), tmp_path / "run", command=COMMAND)
    with pytest.raises(RecordError, match="which is learnt from"):
        train_privately(replace(spec, validation=spec.text), tmp_path / "run", command=COMMAND)


@pytest.mark.parametrize(
    "changes",
    [
        {"sampler": "truncated_poisson", "max_batch": 6},
        {"sampler": "full_batch"},
        {"sampler": "shuffled", "relation": "replace_one"},
        {"sample": "record", "records_per_owner": 3},
        {"unit": "record"},
        {"optimiser": "dp-sgd", "schedule": "cosine", "warmup_steps": 2},
        {"backbone": "record-owned"},
        {"backbone": "singleton"},
        {"backbone": "bf16", "too_long": "window", "tokens": 8},
        {"public_units": 25},
    ],
    ids=lambda changes: next(iter(changes.values())),
)
def test_every_way_to_run_keeps_its_promise(
    inputs: Path, tmp_path: Path, changes: dict[str, object]
) -> None:
    run = tiny_train(inputs, noise_seed=5, **changes)
    result = train_privately(run, tmp_path / "run", command=COMMAND)
    assert result.executed.differences == ()
    assert result.liveness.alive
    assert 0 < result.epsilon <= 3.0
    assert result.planned.divisor == (20 if run.sampler == "full_batch" else 5)


def test_one_owner_has_no_one_to_hide_among(inputs: Path, tmp_path: Path) -> None:
    text = user_tickets(tmp_path / "one.jsonl", owners=["u1"] * 12)
    with pytest.raises(RecordError, match="at least 2 units to hide among, got 1"):
        train_privately(tiny_train(inputs, text=str(text)), tmp_path / "run", command=COMMAND)


def test_missing_owners_need_a_choice(inputs: Path, tmp_path: Path) -> None:
    owners = [None if i % 4 == 0 else f"u{i % 10}" for i in range(40)]
    text = user_tickets(tmp_path / "holes.jsonl", owners=owners)
    run = tiny_train(inputs, text=str(text), batch=3, noise_seed=1)
    with pytest.raises(RecordError, match="user_id"):
        train_privately(run, tmp_path / "run", command=COMMAND)
    dropped = train_privately(
        replace(run, missing_owner="drop"), tmp_path / "drop", command=COMMAND
    )
    alone = train_privately(replace(run, missing_owner="own"), tmp_path / "own", command=COMMAND)
    assert (dropped.data.n_without_owner, alone.data.n_without_owner) == (10, 10)
    assert alone.data.n_units == dropped.data.n_units + 10


def test_an_owner_with_most_rows_is_counted_and_can_be_limited(
    inputs: Path, tmp_path: Path
) -> None:
    owners = ["loud"] * 54 + [f"u{i}" for i in range(6)]
    text = user_tickets(tmp_path / "loud.jsonl", owners=owners)
    run = tiny_train(inputs, text=str(text), batch=3, noise_seed=1)
    whole = train_privately(run, tmp_path / "whole", command=COMMAND)
    assert whole.data.largest_share == pytest.approx(0.9)
    limited = train_privately(
        replace(run, records_per_owner=2), tmp_path / "limited", command=COMMAND
    )
    assert limited.data.n_over_limit == 52
    assert limited.data.largest_share == pytest.approx(2 / 8)


def test_texts_of_several_owners_are_counted(inputs: Path, tmp_path: Path) -> None:
    text = user_tickets(tmp_path / "shared.jsonl")
    rows = [json.loads(line) for line in text.read_text().splitlines()]
    rows[1]["text"] = rows[0]["text"]
    text.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    result = train_privately(
        tiny_train(inputs, text=str(text), noise_seed=1), tmp_path / "run", command=COMMAND
    )
    assert result.data.duplicates_across_owners == 1


def test_a_finished_run_and_another_run_are_not_resumed(
    spec: TrainSpec, unbroken: tuple[Path, TrainResult], tmp_path: Path
) -> None:
    with pytest.raises(EvidenceError, match="must hold an unfinished training run"):
        train_privately(spec, unbroken[0], command=COMMAND, resume=True)
    with pytest.raises(KeyboardInterrupt):
        train_privately(spec, tmp_path / "run", command=COMMAND, progress=Stop(2))
    with pytest.raises(EvidenceError, match="other settings"):
        train_privately(
            replace(spec, learning_rate=1.0), tmp_path / "run", command=COMMAND, resume=True
        )
    with pytest.raises(EvidenceError, match="already holds a run"):
        train_privately(spec, tmp_path / "run", command=COMMAND)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"noise_multiplier": 1.0}, "exactly one of epsilon and noise_multiplier"),
        ({"epsilon": 0.0}, "exactly one of epsilon and noise_multiplier"),
        ({"text": ""}, "text must name a file"),
        ({"sampler": "shuffled"}, "relation must be replace_one"),
        ({"max_batch": 9}, "max_batch must be > 0 for truncated_poisson"),
        ({"sample": "record"}, "records_per_owner > 0"),
        ({"ledger": "x"}, "ledger and population"),
        ({"ledger": "x", "population": "p", "noise_seed": 1}, "noise_seed must be -1"),
        ({"accept_coupling": "yes"}, "accept_coupling must be empty unless"),
        ({"backbone": "int4"}, "backbone must be one of"),
        ({"physical_tokens": 4}, "physical_tokens must hold one record"),
    ],
)
def test_settings_that_break_a_rule_are_named(
    inputs: Path, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        tiny_train(inputs, **changes)


def test_a_batch_larger_than_the_data_is_refused_before_anything_is_released(
    inputs: Path, tmp_path: Path
) -> None:
    with pytest.raises(InvalidArgumentError, match="batch=25 and 20 units"):
        train_privately(tiny_train(inputs, batch=25), tmp_path / "run", command=COMMAND)
    assert not (tmp_path / "run").exists()


def test_a_sampler_that_needs_the_true_number_of_units_takes_no_other(
    inputs: Path, tmp_path: Path
) -> None:
    cut = tiny_train(inputs, sampler="truncated_poisson", max_batch=9, public_units=30)
    with pytest.raises(InvalidArgumentError, match="public_units must be 0 or the 20 units"):
        train_privately(cut, tmp_path / "run", command=COMMAND)


def test_delta_of_one_over_the_units_is_refused(inputs: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="publishing one owner outright"):
        train_privately(tiny_train(inputs, delta=0.05), tmp_path / "run", command=COMMAND)
