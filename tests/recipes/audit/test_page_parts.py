"""Sensitivity, census, localisation and reconciliation on the whole page."""

from dataclasses import replace

import pytest

from insular.audit.audit_results import AuditResult
from insular.audit.localisation.results import Localisation
from insular.audit.reconciliation_results import Reconciliation
from insular.audit.sensitivity.results import SensitivityResult
from insular.recipes.audit._census_section import HEADING as HOW_OFTEN
from insular.recipes.audit._sensitivity_section import HEADING as HOW_MUCH
from insular.recipes.audit.page import isolation_page
from insular.reports import Page, Section, render
from recipes import page_text
from recipes.part_samples import CANDIDATES, LOCALISATION, interventions, origins, sensitivity
from recipes.samples import CALLABLE, CLEAN, COUPLED, MANIFEST, UNDECIDED, WHOLE

STACKS = tuple(found.arm for found in (COUPLED.subject, *COUPLED.repairs))
WORST = CANDIDATES[18]
LEAD = (
    f"Adding record {WORST} moved the clipped sum by 1.49\u00a0C, 49% above what an accountant"
    " assumes: at noise multiplier 1 one step costs epsilon 6.98 at delta 1e-5 instead of 4.38."
)


def page_of(result: AuditResult) -> Page:
    return isolation_page(result, MANIFEST)


def lead(result: AuditResult) -> str:
    return " ".join(part.plain for part in page_of(result).lead)


def section(result: AuditResult, heading: str) -> Section:
    return next(s for s in page_of(result).sections if s.heading == heading)


def text(result: AuditResult, heading: str) -> str:
    return page_text.visible(section(result, heading).blocks)


def with_sensitivity(result: AuditResult, found: SensitivityResult) -> AuditResult:
    return replace(result, sensitivity=found)


def test_the_sections_stand_in_the_order_of_the_questions():
    assert [s.heading for s in page_of(WHOLE).sections] == [
        "Counter-example",
        "Repairs",
        HOW_MUCH,
        "Price",
        "What moves a record, and how far",
        HOW_OFTEN,
        "Where it enters",
        "Checks",
        "What was not tested",
        "The path that it holds for",
        "All comparisons",
        "How to repeat it",
    ]


@pytest.mark.parametrize("result", [COUPLED, CLEAN, UNDECIDED, CALLABLE])
def test_a_part_that_did_not_run_has_no_section_and_is_named(result):
    headings = [s.heading for s in page_of(result).sections]
    assert HOW_MUCH not in headings and HOW_OFTEN not in headings
    assert "did not run, or do not apply: sensitivity, census, localisation." in text(
        result, "What was not tested"
    )


def test_an_undecided_audit_shows_its_parts_as_no_evidence_and_without_a_price():
    result = replace(UNDECIDED, sensitivity=WHOLE.sensitivity, localisation=LOCALISATION)
    assert page_of(result).sections[0].heading == "Checks"
    assert "No price can be given" in lead(result)
    assert "6.98" not in lead(result) + text(result, "Price")
    assert "so these ratios are no evidence" in text(result, HOW_MUCH)
    assert "so what follows is no evidence" in text(result, "Where it enters")


def test_an_excess_of_a_stack_that_looked_isolated_is_on_the_first_screen():
    result = replace(CLEAN, sensitivity=sensitivity(("float32",)))
    assert "49% above what an accountant assumes" in lead(result)
    assert "Where no record moves another" not in lead(result) + text(result, "Price")


def test_reconciled_distances_stand_with_the_checks():
    words = text(WHOLE, "Checks")
    assert "352 distances were computed again, from the saved gradients alone" in words
    assert "all agree within 1e-9" in words
    some = Reconciliation(
        n_distances=3,
        n_unsaved=40,
        largest_difference=0.2,
        tolerance=1e-9,
        mismatches=("growth, 7",),
    )
    words = text(replace(WHOLE, reconciliation=some), "Checks")
    assert "FAILED: 3 distances" in words
    assert "1 differ by more than 1e-9" in words
    assert "growth, 7" in words
    assert "40 more were not kept" in words


def test_what_a_screen_does_not_test_is_said():
    words = text(WHOLE, "What was not tested")
    assert "a screen a lower bound of it: here the largest of 32 candidates" in words
    assert "assumes that every step has the measured ratio" in words
    assert "traced for one pair" in words
    assert "do not apply" not in words


@pytest.mark.parametrize("model", ["facebook/opt-125m", "/models/OPT-125M"])
def test_published_numbers_stand_beside_those_of_the_same_model(model):
    manifest = replace(WHOLE.subject.manifest, model=model)
    result = replace(WHOLE, subject=replace(WHOLE.subject, manifest=manifest))
    source = "Published for OPT-125M (Zhang et al. 2026, arXiv 2611.01411)"
    for heading, number in ((HOW_MUCH, "1.0653"), (HOW_OFTEN, "20.1%"), ("Where it enters", "72")):
        assert source in text(result, heading)
        assert number in text(result, heading).partition(source)[2]
        assert source not in text(WHOLE, heading)


def test_ids_and_names_of_the_parts_are_escaped():
    evil = "<script>alert(1)</script>"
    found = sensitivity((evil, *STACKS[1:]))
    candidates = tuple(
        replace(c, record=evil if c.record == WORST else c.record) for c in found.screen.candidates
    )
    screen = replace(found.screen, candidates=candidates, baseline=(evil,) * 7)
    traced = origins()
    first = replace(traced.modules[0], module=f"model.layers.0.{evil}")
    where = replace(traced, modules=(first, *traced.modules[1:]), first=first)
    steps = replace(interventions().steps[1], name=evil, problem=evil)
    held = replace(interventions(), steps=(*interventions().steps, steps), factorial_layer=evil)
    result = replace(
        WHOLE,
        sensitivity=replace(found, screen=screen),
        localisation=Localisation(origins=where, origins_problem="", interventions=held),
    )
    html = render(page_of(result))
    assert "<script" not in html
    assert html.count("&lt;script&gt;") > 8


def test_the_first_screen_prices_the_added_record():
    paragraphs = [part.plain for part in page_of(WHOLE).lead]
    assert paragraphs[2] == LEAD
    assert len(paragraphs) == 4
    assert LEAD.replace("\u00a0", " ") in text(WHOLE, "Price")


def test_a_failed_validation_of_the_stack_under_test_gives_no_price():
    result = with_sensitivity(WHOLE, sensitivity(STACKS, failed={"llm-int8": "clipping"}))
    assert "6.98" not in lead(result)
    assert "0.715 times" in lead(result)
    assert text(result, "Price").startswith(
        "The pair that the screen selected gives no price: a check failed"
    )
    assert "llm-int8: clipping: 3.1e-01, too much." in text(result, HOW_MUCH)
    assert "does not count7 of 7FAILED: clipping" in text(result, HOW_MUCH)


def test_an_isolated_stack_is_not_said_to_exceed_anything():
    result = replace(CLEAN, sensitivity=sensitivity(("float32",), ratio=1.0))
    assert "Where no record moves another" in lead(result)
    price = text(result, "Price")
    assert "not more than an accountant assumes" in price
    assert "says nothing of the worst case" in price
    assert "above what" not in price
