"""Cards of training runs: what they say first, what they leave out, and what they refuse."""

import json
import re
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from insular.accounting import PrivacyCost
from insular.errors import EvidenceError, InsularError, InvalidArgumentError
from insular.evidence import RunStore, to_toml
from insular.evidence.card import ReleaseCard, read_card, schema_text
from insular.recipes.audit import run as audit
from insular.recipes.card import run as card
from insular.recipes.card.markdown import escaped
from insular.recipes.card.run import CARD_JSON, CARD_MARKDOWN, CARD_PAGE, make_card, write_card
from insular.recipes.card.statements import Statements, read_statements
from insular.recipes.train import run as train
from insular.recipes.train.results import TrainResult
from insular.recipes.train.search import run as train_search
from recipes.card_samples import (
    RESULT,
    SPEC,
    STATED,
    cost,
    coupled,
    private_words,
    write_run,
)
from recipes.train_inputs import tiny_train
from reports.html_check import Checked


def texts(card: ReleaseCard, run: Path) -> dict[str, str]:
    """The three forms by file name."""
    return {file.name: file.read_text(encoding="utf-8") for file in write_card(card, run)}


def first_lines(forms: dict[str, str]) -> tuple[str, str, str]:
    """What a reader sees first of each form."""
    heading = re.search(r"<h1>(.*?)</h1>", forms[CARD_PAGE])
    assert heading is not None
    json_first = next(iter(json.loads(forms[CARD_JSON]).values()))
    return json_first, forms[CARD_MARKDOWN].splitlines()[0], heading[1]


def of(result: TrainResult, folder: Path) -> ReleaseCard:
    return make_card(write_run(folder / "run", result))


def test_a_clean_run_holds_with_its_numbers(tmp_path):
    run = write_run(tmp_path / "copilot-1")
    made = make_card(run, stated=STATED)
    assert made.exit_code == 0 and made.claim == "holds"
    assert made.headline == (
        "Holds on the path that ran: epsilon 1.9877 at delta 0.0001, for one owner more or less"
        " (PLD)."
    )
    loss = made.privacy_loss
    assert loss is not None and loss.epsilon == 1.98763  # exact in JSON, rounded up in words
    assert (loss.delta_times_units, loss.delta_times_units_squared) == (0.1, 100.0)
    assert [one.accountant for one in loss.accountants] == ["pld", "rdp"]
    assert made.basic.data_curators == STATED.data_curators
    forms = texts(made, run)
    assert read_card(forms[CARD_JSON]) == made
    jsonschema.validate(json.loads(forms[CARD_JSON]), json.loads(schema_text()))
    assert forms[CARD_MARKDOWN].startswith("## Holds: release card of copilot-1\n")
    RunStore.open(run).verify()


def test_the_same_evidence_gives_the_same_bytes_also_in_another_folder(tmp_path):
    run = write_run(tmp_path / "run")
    first = texts(make_card(run), run)
    again = texts(make_card(run), run)
    assert first == again
    elsewhere = write_card(make_card(run), run, out=tmp_path / "deep" / "out")
    assert {file.name: file.read_text() for file in elsewhere} == first


@pytest.mark.parametrize(
    ("result", "words", "part"),
    [
        (coupled(influence=1.0), "Coupled stack", "the noise does not cover"),
        (
            replace(RESULT, executed=replace(RESULT.executed, differences=("a", "b"))),
            "Not what was planned",
            "(2 differences)",
        ),
        (
            replace(RESULT, liveness=replace(RESULT.liveness, unmoved=("q_proj.lora_A",))),
            "Training did not happen as stated",
            "did not move",
        ),
        (
            replace(RESULT, costs=(cost("pld", 1.9, noise_sources=("seeded",)),)),
            "Noise that protects nothing",
            "seeded",
        ),
        (replace(RESULT, costs=(cost("pld", float("inf")),)), "Does not hold", "no finite epsilon"),
        (replace(RESULT, costs=()), "Does not hold", "no finite epsilon"),
        (
            replace(RESULT, costs=(cost("gdp-clt", 1.9, standing="estimate"),)),
            "Does not hold",
            "an estimate and no guarantee",
        ),
        (
            replace(
                coupled(influence=7.0), executed=replace(RESULT.executed, differences=("a",))
            ),
            "Coupled stack, not what was planned",
            "(1 difference)",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_stands_on_the_first_line_of_every_form(tmp_path, result, words, part):
    made = of(result, tmp_path)
    assert made.claim == "does not hold" and made.exit_code == 1
    assert part in made.headline and made.headline.endswith("No epsilon is promised.")
    forms = texts(made, tmp_path / "run")
    for line in first_lines(forms):
        assert line.removeprefix("## ").startswith(words)
    if made.privacy_loss is not None:
        assert "Epsilon, computed but not promised" in forms[CARD_MARKDOWN]


def test_an_accepted_coupled_stack_says_so_first_and_holds_by_its_noise(tmp_path):
    made = of(coupled(influence=15.0), tmp_path)
    assert made.exit_code == 0 and made.isolation.accepted == "A demonstration"
    assert "the noise is scaled to an influence of 15 C" in made.headline
    for line in first_lines(texts(made, tmp_path / "run")):
        assert line.removeprefix("## ").startswith("Coupled stack")


def test_an_undecided_stack_leaves_the_claim_undecided(tmp_path):
    found = replace(RESULT.isolation, verdict="undecided")
    made = of(replace(RESULT, isolation=found), tmp_path)
    assert made.exit_code == 2 and made.headline.startswith("Undecided: ")
    assert "Undecided" in first_lines(texts(made, tmp_path / "run"))[1]


def test_missing_facts_are_shown_as_missing_near_the_top(tmp_path):
    run = write_run(tmp_path / "run", replace(RESULT, utility=None, ledger=None))
    made = make_card(run)
    assert made.basic.intended_use is None and made.base_model.pretraining_data is None
    assert {"basic.data_curators", "utility", "ledger", "lower_bounds"} <= set(made.missing)
    assert "implementation.preprocessing_and_hyperparameter_tuning" in made.missing
    forms = texts(made, run)
    lines = [line for line in forms[CARD_MARKDOWN].splitlines() if line]
    assert lines[2].startswith("Not stated: data curators, intended use, ")
    assert "| Intended use | not stated |" in forms[CARD_MARKDOWN]
    assert "Not stated: no ledger keeps this spending." in forms[CARD_MARKDOWN]
    page = forms[CARD_PAGE]
    assert 0 < page.index("Not stated: data curators") < page.index("<h2>")
    said = texts(make_card(run, stated=STATED), run)[CARD_MARKDOWN]
    assert "| Intended use | Drafts of replies" in said


def test_private_facts_are_on_no_form(tmp_path):
    run = write_run(tmp_path / "run")
    for name, text in texts(make_card(run, stated=STATED), run).items():
        for word in private_words():
            assert word not in text, (name, word)
    assert "telemetry of every step" in (run / CARD_MARKDOWN).read_text()
    made = make_card(run)
    assert made.privacy_loss is not None and made.privacy_loss.number_of_privacy_units == 1000


def test_the_number_of_units_in_the_text_counts_only_where_it_was_declared_public(tmp_path):
    run = write_run(tmp_path / "run", RESULT, replace(SPEC, public_units=0))
    loss = make_card(run).privacy_loss
    assert loss is not None and loss.number_of_privacy_units == RESULT.data.n_units


def test_amounts_of_the_ledger_are_exact(tmp_path):
    entry = RESULT.ledger
    assert entry is not None
    third = "0.3333333333333333333333333333333333333333"
    run = write_run(tmp_path / "a", replace(RESULT, ledger=replace(entry, committed_epsilon=third)))
    assert json.loads(texts(make_card(run), run)[CARD_JSON])["ledger"]["committed_epsilon"] == third
    open_ended = replace(RESULT, ledger=replace(entry, committed_epsilon="", head=""))
    missing = make_card(write_run(tmp_path / "b", open_ended)).missing
    assert {"ledger.committed_epsilon", "ledger.head"} <= set(missing)
    bad = replace(RESULT, ledger=replace(entry, reserved_epsilon="NaN"))
    with pytest.raises(InvalidArgumentError, match="epsilon must be a finite decimal"):
        make_card(write_run(tmp_path / "c", bad))


def test_html_and_markdown_escape_what_others_wrote(tmp_path):
    evil = "<script>alert(1)</script> | x\n# [a](b) `c` & *d* _e_"
    run = write_run(tmp_path / "run", replace(RESULT, optimiser=evil))
    forms = texts(make_card(run, stated=replace(STATED, intended_use=evil)), run)
    Checked(forms[CARD_PAGE])
    assert "<script" not in forms[CARD_PAGE]
    assert "&lt;script&gt;alert(1)" in forms[CARD_PAGE]
    line = next(x for x in forms[CARD_MARKDOWN].splitlines() if x.startswith("| Intended use"))
    assert line == f"| Intended use | {escaped(evil)} |"
    assert not re.search(r"(?<!\\)[<\[*`]", line) and line.count("|") - line.count("\\|") == 3
    assert escaped("add_or_remove_one & _x_") == r"add_or_remove_one &amp; \_x\_"


def test_an_artifact_that_was_changed_gets_no_card(tmp_path):
    run = write_run(tmp_path / "run")
    (run / "adapter.safetensors").write_bytes(b"another adapter")
    with pytest.raises(EvidenceError, match="is not the artifact that the run made"):
        make_card(run)
    (run / "adapter.safetensors").unlink()  # moved to where it is used
    assert make_card(run).released[0].file == "adapter.safetensors"


def test_an_artifact_outside_the_run_is_refused(tmp_path):
    artifact = replace(RESULT.artifacts[0], file="../../etc/passwd")
    with pytest.raises(EvidenceError, match="names an artifact outside its folder"):
        make_card(write_run(tmp_path / "run", replace(RESULT, artifacts=(artifact,))))


def test_another_audit_in_the_runs_place_is_refused(tmp_path, tiny_run):
    run = write_run(tmp_path / "run")
    (run / "audit").symlink_to(tiny_run[0])
    with pytest.raises(EvidenceError, match=r"is not the audit that .*run was made after"):
        make_card(run)
    digest = RunStore.open(tiny_run[0]).manifest.files["results.json"]
    named = replace(RESULT, isolation=replace(RESULT.isolation, results_sha256=digest))
    mine = write_run(tmp_path / "mine", named)
    (mine / "audit").symlink_to(tiny_run[0])
    isolation = make_card(mine).isolation
    assert isolation.n_comparisons is not None and isolation.n_comparisons > 10
    assert isolation.largest_movement is None  # measured on private records


def test_only_complete_runs_of_a_known_kind_have_a_card(tmp_path):
    run = write_run(tmp_path / "run")
    store = RunStore.open(run)
    store.reopen()
    store.finish("failed")
    with pytest.raises(EvidenceError, match="must be a complete run to have a card, it is failed"):
        make_card(run)
    other = RunStore.create(tmp_path / "other", replace(store.manifest, kind="replay"))
    other.finish("complete")
    with pytest.raises(EvidenceError, match="must be an audit, a training run or a search"):
        make_card(tmp_path / "other")
    with pytest.raises(EvidenceError, match="is not a run folder"):
        make_card(tmp_path / "none")


def test_training_that_was_not_as_planned_has_a_card_that_says_so_although_it_failed(tmp_path):
    differs = replace(RESULT, executed=replace(RESULT.executed, differences=("noise",)))
    run = write_run(tmp_path / "run", differs)
    store = RunStore.open(run)
    store.reopen()
    store.finish("failed")
    made = make_card(run)
    assert made.exit_code == 1 and made.headline.startswith("Not what was planned: ")
    write_card(made, run)
    assert RunStore.open(run).manifest.status == "failed"


def test_a_real_training_run_has_a_card(tmp_path):
    spec = tiny_train(tmp_path, validation="none")
    run = tmp_path / "run"
    result = train.train_privately(spec, run, command=("insular", "train"))
    made = make_card(run)
    assert made.claim == "holds" and made.exit_code == result.exit_code == 0
    assert made.privacy_loss is not None and made.privacy_loss.epsilon == result.epsilon
    assert made.privacy_loss.number_of_privacy_units == 20
    assert [one.sha256 for one in made.released] == [one.sha256 for one in result.artifacts]
    assert made.isolation.n_comparisons is not None
    forms = texts(made, run)
    private = (result.data.sha256, str(tmp_path), repr(result.executed.noise_rms_over_std), "T-0")
    for name, text in forms.items():
        for word in private:
            assert word not in text, (name, word)
        assert not re.search(r"\bw\d+ w\d+\b", text)
    jsonschema.validate(json.loads(forms[CARD_JSON]), json.loads(schema_text()))


def test_changed_results_get_no_card(tmp_path):
    run = write_run(tmp_path / "run")
    file = run / "results.json"
    file.write_text(file.read_text().replace("1.98763", "0.98763"))
    with pytest.raises(EvidenceError, match=r"results\.json was changed"):
        make_card(run)


def test_statements_are_read_strictly(tmp_path):
    file = tmp_path / "stated.toml"
    file.write_text(to_toml(STATED))
    assert read_statements(file) == STATED
    for text, part in (
        ('curator = "x"', "curator is not a known field"),
        ('publication_date = "soon"', "publication_date must be a day as YYYY-MM-DD"),
        ('intended_use = " "', "intended_use must hold words"),
        ("data_curators = []", "data_curators must hold words"),
        ("intended_use = 5", "intended_use must be a"),
        ("=", "is not TOML"),
    ):
        file.write_text(text)
        with pytest.raises(InsularError, match=part):
            read_statements(file)
    with pytest.raises(EvidenceError, match="cannot read"):
        read_statements(tmp_path / "none.toml")
    assert Statements().intended_use is None


def test_the_kinds_are_those_that_runs_write():
    kinds = (audit.KIND, train.KIND, train_search.KIND)
    assert kinds == (card.AUDIT, card.TRAINING, card.SEARCH)
    assert card.read_settings is audit.read_settings is train.read_settings


def test_a_card_says_what_an_accountant_said(tmp_path):
    one: PrivacyCost = RESULT.costs[1]
    row = make_card(write_run(tmp_path / "run")).privacy_loss.accountants[1]  # type: ignore[union-attr]
    assert (row.method, row.version, row.standing) == (one.method, one.version, one.standing)
