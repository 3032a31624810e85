"""Private hyperparameter search on tiny models: what is drawn, kept, deleted and charged."""

import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from cli.in_process import insular
from insular.accounting import (
    PoissonGaussianEvent,
    RepeatAndSelectEvent,
    RepeatedEvent,
    spend,
)
from insular.errors import (
    BudgetExceededError,
    EvidenceError,
    InvalidArgumentError,
    RecordError,
    UnsupportedEventError,
)
from insular.evidence import RunStore, from_toml, to_toml
from insular.evidence.ledger import Amount, Ledger
from insular.mechanisms.keystream import SecureStream, SeededStream
from insular.recipes.pages import write_page_of
from insular.recipes.train.results import TrainResult
from insular.recipes.train.search import run as train_search
from insular.recipes.train.search.choice import best_of
from insular.recipes.train.search.draws import RunCount, draw_choices
from insular.recipes.train.search.results import WINNER, SearchResult
from insular.recipes.train.search.run import read_search, search_privately
from insular.recipes.train.search.spec import SearchSpec, candidates
from insular.recipes.train.search.summary import search_blocks
from insular.recipes.train.spec import TrainSpec
from insular.reports.terminal import results_console
from insular.training.noise import GaussianNoise, NoiseDraw
from recipes.train_inputs import tiny_train, user_tickets

COMMAND = ("insular", "train")
RATES = SearchSpec(mean_runs=3.0, learning_rates=(1e-3, 1e-2, 1e-1))


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> TrainSpec:
    """A tiny run with public text, seeded so that three runs are drawn."""
    folder = tmp_path_factory.mktemp("search")
    public = user_tickets(folder / "public.jsonl", n_records=66)
    public.write_text("\n".join(public.read_text().splitlines()[60:]))
    spec = tiny_train(folder, validation=str(public), steps=4)
    law = RunCount(mean_runs=RATES.mean_runs, shape=RATES.shape)
    seed = next(s for s in range(1000) if law.draw(SeededStream(s)) == 3)
    return replace(spec, noise_seed=seed)


@pytest.fixture(scope="module")
def searched(
    train: TrainSpec, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, SearchResult]:
    out = tmp_path_factory.mktemp("searches") / "one"
    return out, search_privately(train, RATES, out, command=COMMAND)


def test_the_whole_search_costs_at_most_the_target(searched: tuple[Path, SearchResult]) -> None:
    _, result = searched
    assert result.cost.accountant == "rdp"
    assert 2.9 < result.epsilon <= 3.0
    assert result.event.mean_runs == 3.0
    assert result.epsilon == spend(result.event, delta=result.delta, accountant="rdp").epsilon
    assert result.one_run.epsilon < result.epsilon
    assert result.all_runs is not None
    assert result.all_runs.epsilon > result.one_run.epsilon


def test_the_least_public_loss_wins(searched: tuple[Path, SearchResult]) -> None:
    _, result = searched
    scores = [run.score_nats for run in result.runs]
    assert len(scores) == 3
    assert result.winner is not None
    assert scores[result.winner] == min(scores)
    assert all(run.settings in result.candidates for run in result.runs)
    assert best_of([2.0, 1.0, 1.0]) == 1
    assert best_of([math.inf, 4.0]) == 1
    assert best_of([math.inf]) is best_of([]) is None


def test_only_the_winner_is_left(searched: tuple[Path, SearchResult]) -> None:
    out, result = searched
    assert result.n_deleted == 2
    left = {str(p.relative_to(out)) for p in out.rglob("adapter*") if p.is_file()}
    assert {a.file for a in result.artifacts} == left
    assert not list(out.rglob("checkpoint*"))
    assert not (out / "runs").exists()
    pages = {str(p.relative_to(out)) for p in out.rglob("report.html")}
    assert pages == {"report.html", "audit/report.html"}  # none of a single run
    winner = RunStore.open(out).read_result(WINNER, TrainResult)
    assert winner.artifacts == result.artifacts
    store = RunStore.open(out)
    store.verify()
    assert store.manifest.files["logs/003.jsonl"] == result.runs[2].log_sha256
    assert store.read_result("results", SearchResult) == result


def test_a_terminal_shows_neither_losers_nor_their_number(
    searched: tuple[Path, SearchResult], capsys: pytest.CaptureFixture[str]
) -> None:
    out, result = searched
    console = results_console()
    for block in search_blocks(result, run_folder=str(out)):
        console.print(block)
    said = capsys.readouterr().out
    assert "NO PROMISE" in said  # seeded
    assert "random: geometric, mean 3" in said
    assert "their adapters are deleted" in " ".join(said.replace("│", " ").split())
    losers = [run for place, run in enumerate(result.runs) if place != result.winner]
    assert not [run for run in losers if f"{run.score_nats:.3f}" in said]
    assert "3 runs" not in said


def test_a_search_that_was_stopped_goes_on_with_the_same_draws(
    train: TrainSpec, searched: tuple[Path, SearchResult], tmp_path: Path
) -> None:
    def stop(task: str, line: str) -> None:
        if task == "run 2: train" and line.startswith("step 2"):
            raise KeyboardInterrupt

    out = tmp_path / "one"
    with pytest.raises(KeyboardInterrupt):
        search_privately(train, RATES, out, command=COMMAND, progress=stop)
    assert RunStore.open(out).manifest.status == "interrupted"
    with pytest.raises(EvidenceError, match="other settings"):
        search_privately(train, replace(RATES, mean_runs=9.0), out, command=COMMAND, resume=True)
    result = search_privately(train, RATES, out, command=COMMAND, resume=True)
    assert [run.settings for run in result.runs] == [run.settings for run in searched[1].runs]
    assert result.epsilon == searched[1].epsilon
    assert [run.n_releases for run in result.runs] == [4, 4, 4]
    with pytest.raises(EvidenceError, match="unfinished search"):
        search_privately(train, RATES, out, command=COMMAND, resume=True)


def test_noise_below_the_plan_in_one_run_keeps_nothing(
    train: TrainSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: half the noise."""
    original = GaussianNoise.draw

    def halved(self: GaussianNoise, n_params: int, **given: float) -> NoiseDraw:
        draw = original(self, n_params, **given)  # pyright: ignore[reportArgumentType]
        return replace(draw, values=draw.values / 2, rms=draw.rms / 2)

    monkeypatch.setattr(GaussianNoise, "draw", halved)
    result = search_privately(train, RATES, tmp_path / "run", command=COMMAND)
    assert (result.exit_code, result.winner, result.artifacts) == (1, None, ())
    assert not (tmp_path / "run" / "adapter").exists()
    assert not (tmp_path / "run" / "runs").exists()


def test_the_ledger_is_charged_for_the_search(
    train: TrainSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = tmp_path / "team.ledger"
    Ledger(ledger).declare(
        "users", unit="owner", relation="add_or_remove_one", cap=Amount.of("4", "0.01")
    )
    monkeypatch.setattr(train_search, "RunCount", lambda **_: _Fixed(2))
    charged = replace(train, ledger=str(ledger), population="users", noise_seed=-1)
    result = search_privately(charged, RATES, tmp_path / "first", command=COMMAND)
    assert result.exit_code == 0
    assert result.ledger is not None
    account = Ledger(ledger).status().populations[0].account
    assert account.n_committed == 1
    assert result.epsilon <= float(account.spent.epsilon) <= result.epsilon + 2e-6
    with pytest.raises(BudgetExceededError):
        search_privately(charged, RATES, tmp_path / "second", command=COMMAND)
    assert not (tmp_path / "second" / "runs").exists()


def test_no_run_at_all_keeps_nothing_and_costs_the_same(
    train: TrainSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train_search, "RunCount", lambda **_: _Fixed(0))
    poisson = replace(RATES, shape=math.inf)
    result = search_privately(
        replace(train, noise_seed=-1), poisson, tmp_path / "run", command=COMMAND
    )
    assert (result.winner, result.artifacts, result.runs, result.all_runs) == (None, (), (), None)
    assert 2.9 < result.epsilon <= 3.0


class _Fixed:
    """A law that always gives the same number."""

    def __init__(self, runs: int) -> None:
        self.runs = runs

    def draw(self, stream: SecureStream) -> int:
        return self.runs


def test_scores_on_private_text_are_refused(train: TrainSpec, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="validation must name public text"):
        search_privately(replace(train, validation="none"), RATES, tmp_path / "a", command=COMMAND)
    copy = tmp_path / "copy.jsonl"
    copy.write_text(Path(train.text).read_text().splitlines()[3] + "\n")
    with pytest.raises(RecordError, match="private number without noise"):
        search_privately(
            replace(train, validation=str(copy)), RATES, tmp_path / "b", command=COMMAND
        )


def test_a_sampler_without_a_renyi_rule_is_refused_before_anything(
    train: TrainSpec, tmp_path: Path
) -> None:
    cut = replace(train, sampler="truncated_poisson", max_batch=6)
    with pytest.raises(UnsupportedEventError, match="no rule for truncated_poisson"):
        search_privately(cut, RATES, tmp_path / "run", command=COMMAND)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mean_runs": 0.5}, "mean_runs must be at least 1"),
        ({"shape": -1.0}, "shape must be finite and >= 0"),
        ({"learning_rates": (0.0,)}, "learning_rates must be finite and > 0"),
        ({"optimisers": ("adam",)}, "optimisers must be one of"),
        ({"lora_ranks": (0,)}, "lora_ranks must be an integer >= 1"),
    ],
)
def test_settings_that_break_a_rule_are_named(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        SearchSpec(**changes)  # pyright: ignore[reportArgumentType]


def test_one_candidate_is_no_search(train: TrainSpec) -> None:
    with pytest.raises(InvalidArgumentError, match="at least 2 different candidates"):
        candidates(SearchSpec(learning_rates=(1e-3,)), train)
    assert len(candidates(SearchSpec(learning_rates=(1.0, 2.0), lora_ranks=(1, 2)), train)) == 4


def test_settings_as_toml(tmp_path: Path) -> None:
    file = tmp_path / "search.toml"
    file.write_text("mean_runs = 4.0\nshape = inf\nlearning_rates = [1e-3, 3e-3]\n")
    read = read_search(file)
    assert (read.shape, read.learning_rates) == (math.inf, (1e-3, 3e-3))
    assert from_toml(SearchSpec, to_toml(read)) == read
    file.write_text("steps = 3\n")
    with pytest.raises(EvidenceError, match="steps"):
        read_search(file)  # the mechanism cannot be searched
    with pytest.raises(InvalidArgumentError, match="must name a TOML file"):
        read_search(tmp_path / "absent.toml")


@pytest.mark.parametrize("shape", [math.inf, 1.0, 0.0, 0.5, 3.0])
@pytest.mark.parametrize("mean", [1.0, 1.5, 10.0, 60.0])
def test_the_law_has_its_mean_and_sums_to_one(mean: float, shape: float) -> None:
    law = list(RunCount(mean_runs=mean, shape=shape).chances())
    assert math.fsum(chance for _, chance in law) == pytest.approx(1, abs=1e-9)
    assert math.fsum(k * chance for k, chance in law) == pytest.approx(mean, rel=1e-6)
    assert law[0][0] == (0 if shape == math.inf else 1)


def test_geometric_by_hand() -> None:
    law = dict(RunCount(mean_runs=4.0, shape=1.0).chances())
    assert [law[k] for k in (1, 2, 3)] == pytest.approx([1 / 4, 3 / 16, 9 / 64])


def test_draws_follow_the_law_and_choices_are_even() -> None:
    """Seeded. Each of 5 counts of 4,000 draws is within 5 standard deviations."""
    law = RunCount(mean_runs=4.0, shape=1.0)
    found = Counter(law.draw(SeededStream(seed)) for seed in range(4000))
    for runs, chance in list(law.chances())[:5]:
        spread = math.sqrt(4000 * chance * (1 - chance))
        assert abs(found[runs] - 4000 * chance) < 5 * spread
    choices = Counter(draw_choices(SeededStream(1), n_runs=6000, n_candidates=3))
    assert set(choices) == {0, 1, 2}
    assert max(choices.values()) - min(choices.values()) < 300


def test_forty_runs_composed_and_selected() -> None:
    """Forty runs on the same data are never the price of one."""
    step = PoissonGaussianEvent(
        noise_multiplier=2.0, sampling_prob=0.02, relation="add_or_remove_one", unit="record"
    )
    run = RepeatedEvent(event=step, count=300)
    assert spend(run, delta=1e-5).epsilon == pytest.approx(0.705813, abs=2e-3)
    composed = spend(RepeatedEvent(event=run, count=40), delta=1e-5).epsilon
    assert composed == pytest.approx(5.28591, abs=2e-3)
    for shape in (math.inf, 1.0, 0.0):
        selected = RepeatAndSelectEvent(event=run, mean_runs=40.0, shape=shape)
        cost = spend(selected, delta=1e-5, accountant="rdp").epsilon
        assert 0.7058 < cost < composed


def test_the_command_searches_and_resumes(train: TrainSpec, tmp_path: Path) -> None:
    config, listed, out = tmp_path / "run.toml", tmp_path / "search.toml", tmp_path / "run"
    config.write_text(to_toml(train))
    listed.write_text(to_toml(RATES))
    done = insular(
        *("train", "--config", str(config), "--search", str(listed), "--out", str(out), "--quiet")
    )
    assert done.code == 1, done.stderr  # seeded
    assert "random: geometric, mean 3" in done.stdout
    again = insular("train", "--config", str(out / "run.toml"), "--resume", "--quiet")
    assert again.code == 2
    assert "must hold an unfinished search to resume" in again.stderr


def test_record_text_is_in_no_file(searched: tuple[Path, SearchResult], train: TrainSpec) -> None:
    texts = [json.loads(line)["text"] for line in Path(train.text).read_text().splitlines()]
    for file in searched[0].rglob("*"):
        if file.is_file():
            content = file.read_bytes().decode("utf-8", errors="replace")
            assert not [text for text in texts if text in content], file


def test_the_page_comes_again_from_the_evidence_and_holds_no_record(
    searched: tuple[Path, SearchResult], train: TrainSpec
) -> None:
    out, _ = searched
    first = (out / "report.html").read_bytes()
    status = RunStore.open(out).manifest.status
    assert write_page_of(out) == out / "report.html"
    assert (out / "report.html").read_bytes() == first
    store = RunStore.open(out)
    store.verify()
    assert (store.manifest.status, "report.html" in store.manifest.files) == (status, True)
    records = [json.loads(line) for line in Path(train.text).read_text().splitlines()]
    page = first.decode()
    assert "Nothing is protected" in page  # seeded
    assert not [row for row in records if row["text"] in page or f">{row['id']}<" in page]
