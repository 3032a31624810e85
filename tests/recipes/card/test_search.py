"""The card of a private search: the winner's facts at the price of the whole search."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from cli.in_process import insular
from insular.errors import EvidenceError
from insular.evidence import RunStore, encode
from insular.evidence.card import ReleaseCard, read_card, schema_text
from insular.evidence.ledger import Amount, Ledger
from insular.recipes.budget._words import upper
from insular.recipes.card.run import make_card, write_card
from insular.recipes.train.results import TrainResult
from insular.recipes.train.search import run as train_search
from insular.recipes.train.search.results import WINNER, SearchResult
from insular.recipes.train.search.run import search_privately
from insular.recipes.train.search.spec import SearchSpec
from recipes.card_samples import STATED
from recipes.train_inputs import tiny_train, user_tickets

LISTED = SearchSpec(mean_runs=3.0, learning_rates=(1e-3, 1e-2, 1e-1), clip_norms=(0.5, 1.0))
N_RUNS = 5
"""What is drawn here; no other number on a card is that of the runs."""


class _Drawn:
    """A law that always gives the same number."""

    def draw(self, stream: object) -> int:
        return N_RUNS


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A search with secure noise and a ledger."""
    folder = tmp_path_factory.mktemp("card-search")
    public = user_tickets(folder / "public.jsonl", n_records=66)
    public.write_text("\n".join(public.read_text().splitlines()[60:]))
    ledger = folder / "team.ledger"
    Ledger(ledger).declare(
        "users", unit="owner", relation="add_or_remove_one", cap=Amount.of("4", "0.01")
    )
    spec = tiny_train(
        folder, validation=str(public), steps=4, ledger=str(ledger), population="users"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train_search, "RunCount", lambda **_: _Drawn())
        search_privately(spec, LISTED, folder / "run", command=("insular", "train"))
    return folder / "run"


@pytest.fixture
def run(searched: Path, tmp_path: Path) -> Path:
    """A copy to spoil."""
    shutil.copytree(searched, tmp_path / "run")
    return tmp_path / "run"


def results(run: Path) -> tuple[SearchResult, TrainResult]:
    store = RunStore.open(run)
    return store.read_result("results", SearchResult), store.read_result(WINNER, TrainResult)


def forms(card: ReleaseCard, run: Path, out: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in write_card(card, run, out=out)}


def rewritten(run: Path, name: str, value: object) -> None:
    """Evidence that was changed with its digest."""
    store = RunStore.open(run)
    store.reopen()
    store.write_result(name, value)
    store.finish("complete")


def test_the_epsilon_of_a_searchs_card_is_that_of_the_whole_search(
    searched: Path, tmp_path: Path
) -> None:
    """Planted: a card at the winner's own price would promise less than was spent."""
    search, winner = results(searched)
    assert winner.epsilon < search.epsilon  # the defect would show
    card = make_card(searched, stated=STATED)
    assert (card.claim, card.exit_code) == ("holds", 0)
    loss = card.privacy_loss
    assert loss is not None and loss.epsilon == search.epsilon and loss.delta == search.delta
    assert [(one.accountant, one.epsilon) for one in loss.accountants] == [("rdp", search.epsilon)]
    assert card.headline.startswith(
        f"Holds on the path that ran: epsilon {upper(search.epsilon)} at delta"
    )
    assert card.headline.endswith("the price of the whole search, choice included, and not of one"
                                  " run.")  # fmt: skip
    written = forms(card, searched, tmp_path)
    for cost in (*winner.costs, search.one_run, search.all_runs):
        assert cost is not None
        for words in (upper(cost.epsilon), upper(cost.epsilon, 3), json.dumps(cost.epsilon)):
            assert not [name for name, text in written.items() if words in text]
    assert card.ledger is not None and card.ledger.committed_epsilon is not None
    assert search.epsilon <= float(card.ledger.committed_epsilon) <= search.epsilon + 2e-6
    assert "ledger" not in card.missing


def test_how_the_winner_was_chosen_is_said_and_how_many_runs_there_were_is_not(
    searched: Path, tmp_path: Path
) -> None:
    search, winner = results(searched)
    assert len(search.runs) == N_RUNS and search.winner is not None
    card = make_card(searched)
    part = card.implementation
    assert part is not None
    said = part.preprocessing_and_hyperparameter_tuning
    assert said is not None
    for words in (
        "a public list of 6 candidates",
        "geometric law, mean 3",
        "the number drawn is kept secret",
        f"the least loss on {Path(search.scored_on).name}, ",
        f"learning rate {search.runs[search.winner].settings.learning_rate:g}",
        "What else was spent on the same data: not stated",
    ):
        assert words in said, words
    assert (part.n_releases, part.clip_norm) == (4, winner.planned.clip_norm)
    assert "by which the adapter was chosen" in (card.utility.text if card.utility else "")
    assert card.unprotected_quantities[0].startswith("the number of runs of the search")
    stated = make_card(searched, stated=STATED).implementation
    assert stated is not None
    assert str(stated.preprocessing_and_hyperparameter_tuning).endswith(
        str(STATED.preprocessing_and_hyperparameter_tuning)
    )
    losers = [run for place, run in enumerate(search.runs) if place != search.winner]
    for name, text in forms(card, searched, tmp_path).items():
        assert not re.search(rf"\b({N_RUNS}|{N_RUNS - 1}|five|four) (runs|adapters)\b", text), name
        assert search.scored_on not in text  # a path of this machine
        for run in losers:
            if run.score_nats != search.runs[search.winner].score_nats:
                assert f"{run.score_nats:.6g}" not in text
            assert run.log_sha256 not in text
    other = replace(search, runs=(*search.runs, losers[0]))  # another number, the same card
    copy = tmp_path / "other"
    shutil.copytree(searched, copy)
    rewritten(copy, "results", other)
    assert replace(make_card(copy), evidence=()) == replace(card, evidence=())


def test_what_left_is_the_winners_adapter_by_its_digest(run: Path) -> None:
    search, _ = results(run)
    card = make_card(run)
    assert [one.sha256 for one in card.released] == [one.sha256 for one in search.artifacts]
    assert all(one.file.startswith("adapter/") for one in card.released)
    assert card.isolation.verdict == "isolated"
    assert card.isolation.n_comparisons is not None and card.isolation.n_comparisons > 10
    assert {one.name for one in card.evidence} == {
        *("results.json", "run.toml", "winner.json", "search.toml")
    }
    (run / card.released[0].file).write_bytes(b"another adapter")
    with pytest.raises(EvidenceError, match="is not the artifact that the run made"):
        make_card(run)


def test_another_runs_results_in_the_winners_place_are_refused(run: Path) -> None:
    search, winner = results(run)
    assert winner.utility is not None
    artifact = replace(winner.artifacts[0], sha256="ab" * 32)
    for other in (
        replace(winner, artifacts=(artifact, *winner.artifacts[1:])),
        replace(winner, utility=replace(winner.utility, after_nats=1.0)),
        replace(winner, utility=None),
        replace(winner, planned=replace(winner.planned, event=search.event.event.event)),  # type: ignore[union-attr]
        replace(winner, executed=replace(winner.executed, n_releases=3)),
    ):
        rewritten(run, WINNER, other)
        with pytest.raises(EvidenceError, match=r"winner\.json must be the run that the search"):
            make_card(run)


def test_another_audit_in_its_place_is_refused(run: Path) -> None:
    _, winner = results(run)
    found = replace(winner.isolation, results_sha256="ab" * 32)
    rewritten(run, WINNER, replace(winner, isolation=found))
    with pytest.raises(EvidenceError, match=r"is not the audit that .*run was made after"):
        make_card(run)
    shutil.rmtree(run / "audit")
    assert "isolation.n_comparisons" in make_card(run).missing


def test_noise_and_stack_of_the_winner_speak_against_the_claim_as_for_a_plain_run(
    run: Path,
) -> None:
    search, winner = results(run)
    seeded = replace(search, cost=replace(search.cost, noise_sources=("seeded",)))
    rewritten(run, "results", seeded)
    card = make_card(run)
    assert card.headline.startswith("Noise that protects nothing: ") and card.exit_code == 1
    assert "price of the whole search" not in card.headline
    rewritten(run, "results", search)
    coupled = replace(winner.isolation, verdict="coupled", accepted="A demonstration")
    rewritten(run, WINNER, replace(winner, isolation=coupled))
    assert make_card(run).headline.startswith("Coupled stack: ")


def test_a_search_that_kept_nothing_has_no_card_and_says_where_the_reason_is(run: Path) -> None:
    search, _ = results(run)
    rewritten(run, "results", replace(search, winner=None, artifacts=()))
    with pytest.raises(EvidenceError, match=r"got a search that kept none.*run/report\.html"):
        make_card(run)
    runs = (replace(search.runs[0], differences=("noise",)), *search.runs[1:])
    rewritten(run, "results", replace(search, runs=runs))
    store = RunStore.open(run)
    store.reopen()
    store.finish("failed")
    with pytest.raises(EvidenceError, match="got a search that kept none"):
        make_card(run)
    rewritten(run, "results", search)
    store = RunStore.open(run)
    store.reopen()
    store.finish("interrupted")
    with pytest.raises(EvidenceError, match="must be a complete run to have a card"):
        make_card(run)


def test_a_search_of_an_earlier_insular_and_an_attack_are_one_clear_error(run: Path) -> None:
    with pytest.raises(EvidenceError, match="to take --attack, got a search of settings"):
        make_card(run, attacks=[run])
    (run / "winner.json").unlink()
    with pytest.raises(EvidenceError, match=r"must hold winner\.json"):
        make_card(run)


def test_the_command_writes_a_card_that_holds_no_record(run: Path) -> None:
    done = insular("card", str(run))
    assert done.code == 0, done.stderr
    assert done.stdout.startswith("┌─  HOLDS  ")
    assert "whole search" in " ".join(done.stdout.replace("│", " ").split())
    text = (run / "card.json").read_text()
    jsonschema.validate(json.loads(text), json.loads(schema_text()))
    assert encode(read_card(text)) == text
    for name in ("card.json", "card.md", "card.html"):
        assert not re.search(r"\bw\d+ w\d+\b|\bT-\d", (run / name).read_text())
    RunStore.open(run).verify()
    assert insular("report", str(run)).code == 0
    page = (run / "report.html").read_text()
    assert f"insular card {run}" in page
    private = page.partition("of the search that must stay.")[2].partition("<h2>")[0]
    assert "winner.json" in private and "card." not in private
