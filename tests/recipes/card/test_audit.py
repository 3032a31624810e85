"""Cards of audits: a verdict on a stack, no epsilon, and no record."""

import json
import re
from dataclasses import replace

import jsonschema
import pytest

from insular.evidence.card import schema_text
from insular.recipes.audit.spec import AuditSpec
from insular.recipes.card.audit import audit_card
from insular.recipes.card.run import make_card, write_card
from insular.recipes.card.statements import NOTHING_STATED
from recipes.samples import CLEAN, MANIFEST, RECORDS, UNDECIDED, WHOLE


def of(result, **changes):
    return audit_card(result, AuditSpec(**changes), MANIFEST, stated=NOTHING_STATED)


def test_a_real_coupled_stack_says_so_first_in_all_three_forms(tiny_run, tmp_path):
    run, result = tiny_run
    card = make_card(run)
    assert result.verdict == "coupled" and card.exit_code == 1
    files = {file.suffix: file.read_text() for file in write_card(card, run, out=tmp_path)}
    content = json.loads(files[".json"])
    jsonschema.validate(content, json.loads(schema_text()))
    assert next(iter(content)) == "headline"
    assert content["headline"].startswith("Coupled stack: on llm-int8 with model, ")
    assert files[".md"].startswith("## Coupled stack: release card of tiny\n")
    heading = re.search(r"<h1>(.*?)</h1>", files[".html"])
    assert heading is not None and heading[1].startswith("Coupled stack: ")
    assert card.isolation.sensitivity_ratio == result.sensitivity.ratio
    assert (card.isolation.path or "").startswith("cpu (")
    assert not any(str(run.parent) in text for text in files.values())
    assert content["base_model"]["name"] == "model"  # and not where it lay


def test_no_record_and_no_digest_of_one_is_on_a_card(tiny_run, tmp_path):
    run, result = tiny_run
    texts = [file.read_text() for file in write_card(make_card(run), run, out=tmp_path)]
    manifest = json.loads((run / "manifest.json").read_text())
    digests = [fact["sha256"] for fact in manifest["inputs"] if fact["name"] != "model"]
    assert digests and all(digests)
    for text in texts:
        for word in (*result.record_ids, *digests, "tickets.jsonl"):
            assert not re.search(rf"{re.escape(word)}\b", text), word
        assert not re.search(r"\bw\d+ w\d+ w\d+\b", text)


def test_an_isolated_stack_holds_and_promises_no_epsilon():
    card = of(CLEAN)
    assert card.exit_code == 0 and card.headline.startswith("Isolated on the path that ran: ")
    assert card.privacy_loss is None and card.implementation is None and card.released == ()
    assert {"privacy_loss", "implementation", "ledger"} <= set(card.missing)
    assert card.isolation.largest_movement == 0.0
    assert card.isolation.sensitivity_ratio is None
    assert card.base_model.guarantee_covers == "nothing: an audit promises no epsilon"


def test_an_undecided_audit_names_the_check_and_exits_2():
    card = of(UNDECIDED)
    assert card.exit_code == 2
    assert card.headline == (
        "Undecided: opacus with smollm2 could not be audited; failed: “sum of gradients”."
    )


def test_the_largest_movement_is_that_at_equal_shape():
    card = of(WHOLE)
    assert "the content of another record moves" in card.headline
    assert card.isolation.largest_movement == pytest.approx(0.43)
    assert not any(record in repr(card) for record in RECORDS)


def test_a_pair_that_does_not_count_gives_no_ratio():
    found = WHOLE.sensitivity
    failed = replace(found.arms[0], checks=tuple(
        replace(check, passed=False) for check in found.arms[0].checks
    ))  # fmt: skip
    broken = replace(WHOLE, sensitivity=replace(found, arms=(failed, *found.arms[1:])))
    assert of(broken).isolation.sensitivity_ratio is None
    assert of(WHOLE).isolation.sensitivity_ratio == found.ratio


def test_numbers_from_private_text_are_outside_every_guarantee():
    assert of(CLEAN).unprotected_quantities == ("all of it; the records are public (wikipedia)",)
    private = of(CLEAN, text="tickets.jsonl").unprotected_quantities
    assert private[0].startswith("every number of the audit, those on this card included")
    assert of(CLEAN, subject="mine:make").unprotected_quantities == private
