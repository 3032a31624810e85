"""How much one added record moves the sum, as the page says it."""

from dataclasses import replace

from insular.audit.audit_results import AuditResult
from insular.audit.sensitivity.results import SensitivityResult
from insular.recipes.audit._sensitivity_section import sensitivity_section
from insular.reports import Figure
from recipes import page_text
from recipes.part_samples import CANDIDATES, sensitivity
from recipes.samples import WHOLE

STACKS = tuple(found.arm for found in (WHOLE.subject, *WHOLE.repairs))
WORST = CANDIDATES[18]


def text(result: AuditResult) -> str:
    return page_text.visible(sensitivity_section(result)[0].blocks)


def figures(result: AuditResult) -> list[Figure]:
    return page_text.figures(sensitivity_section(result)[0].blocks)


def table(result: AuditResult, caption: str) -> list[list[str]]:
    return page_text.table(sensitivity_section(result)[0].blocks, caption)


def with_sensitivity(result: AuditResult, found: SensitivityResult) -> AuditResult:
    return replace(result, sensitivity=found)


def test_how_much_says_what_was_tried_and_what_exceeds():
    words = text(WHOLE)
    assert "Exploratory: 32 candidate records, each added to the same baseline" in words
    assert "batch of 7 records" in words
    assert f"Record {WORST} moved the clipped sum furthest: by 1.49 C" in words
    assert "31 of 32 attempts count" in words
    assert "own clip norm of 0.5, 28 of 31 exceed the bound by more than the margin of" in words
    assert "The ratios fall where fewer are clipped" in words
    assert f"Fresh: the pair was frozen, with {WORST}" in words
    assert "llm-int8 exceeds the bound: the ratio is 1.487600." in words
    assert "nf4, bf16 and singleton keep the bound, with at most 1.000000." in words
    assert len(figures(WHOLE)) == 2


def test_every_attempt_is_in_the_table_the_failed_one_with_its_reason():
    rows = table(WHOLE, "attempts")
    assert [row[0].removesuffix(" (selected)") for row in rows] == list(CANDIDATES)
    assert [row[0] for row in rows if "selected" in row[0]] == [f"{WORST} (selected)"]
    assert rows[5][2:] == [
        "inf", "7 of 7", "not a number", "not a number", "not a number",
        "a gradient has NaN or inf.",
    ]  # fmt: skip
    assert rows[18][5:] == ["1.487600", "1.487600", "–"]
    assert "Attempts that do not count (1) stand in the table alone" in text(WHOLE)


def test_each_stack_shows_its_ratio_to_seven_decimals():
    rows = table(WHOLE, "in every stack")
    assert rows[0] == [
        "llm-int8 (under test)", "1.4876000", "1.4876000", "0", "yes", "7 of 7", "held",
    ]  # fmt: skip
    assert [row[1] for row in rows[1:]] == ["1.0000004"] * 5
    assert {row[4] for row in rows[1:]} == {"no"}


def test_a_screen_without_a_valid_attempt_says_so():
    found = sensitivity(STACKS)
    failed = tuple(replace(c, problem="it failed.") for c in found.screen.candidates)
    found = replace(found, screen=replace(found.screen, candidates=failed), arms=found.arms[:1])
    failed_arm = sensitivity(STACKS, failed={STACKS[0]: "coverage"}).arms[0]
    result = with_sensitivity(WHOLE, replace(found, arms=(failed_arm,)))
    words = text(result)
    assert "No attempt counts; the table says why." in words
    assert words.count("it failed.") == 32
    assert len(figures(result)) == 0


def test_a_screen_that_does_not_repeat_across_processes_says_so():
    found = sensitivity(STACKS)
    found = replace(found, screen=replace(found.screen, repeatable=False))
    assert "not strictly comparable" in text(with_sensitivity(WHOLE, found))


def test_a_failed_validation_is_shown_and_does_not_count():
    found = sensitivity(STACKS, failed={"nf4": "operators"})
    words = text(with_sensitivity(WHOLE, found))
    assert "nf4 does not count: a check failed." in words
    assert "FAILED: operators" in words
    assert "nf4: operators: 3.1e-01, too much." in words
