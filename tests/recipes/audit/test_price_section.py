"""What the sensitivity costs, as the page says it."""

from dataclasses import replace

from insular.audit.audit_results import AuditResult
from insular.audit.sensitivity.results import SensitivityResult
from insular.recipes.audit._price_section import price_section, price_sentence
from insular.reports import Figure
from recipes import page_text
from recipes.part_samples import sensitivity
from recipes.samples import WHOLE

STACKS = tuple(found.arm for found in (WHOLE.subject, *WHOLE.repairs))


def text(result: AuditResult) -> str:
    return page_text.visible(price_section(result).blocks)


def figures(result: AuditResult) -> list[Figure]:
    return page_text.figures(price_section(result).blocks)


def table(result: AuditResult, caption: str) -> list[list[str]]:
    return page_text.table(price_section(result).blocks, caption)


def lead(result: AuditResult) -> str:
    sentence = price_sentence(result)
    return "" if sentence is None else sentence.plain


def with_sensitivity(result: AuditResult, found: SensitivityResult) -> AuditResult:
    return replace(result, sensitivity=found)


def test_an_excess_at_a_smaller_radius_alone_is_told():
    found = sensitivity(STACKS, ratio=0.9)
    one, two = found.arms[0].radii
    arm = replace(found.arms[0], radii=(one, replace(two, ratio=1.2)))
    words = lead(with_sensitivity(WHOLE, replace(found, arms=(arm, *found.arms[1:]))))
    assert "by 0.90\u00a0C, not more than an accountant assumes" in words
    assert "At C = 0.05 it does exceed the bound: the ratio is 1.200000." in words


def test_the_price_says_what_each_epsilon_is():
    words = text(WHOLE)
    rows = table(WHOLE, "Epsilon")
    assert [row[1:] for row in rows] == [
        ["1\u00a0C", "4.38", "1.44"],
        ["1.49\u00a0C", "6.98", "3.40"],
        ["15\u00a0C", "176", "4313"],
    ]
    assert "600 steps at sampling probability 0.01, composed by PLD" in words
    assert "The epsilon of one step is exact for this pair" in words
    assert "what it would be if every step had this sensitivity" in words
    assert "(2m + 1) C. Here m = 7" in words
    assert "Beside 1 record the candidate moves the sum by 1.08 C, beside 31 by 1.83 C" in words
    assert "9.82 times as far above the bound" in words


def test_a_record_that_altered_only_some_leaves_room_for_one_that_alters_all():
    found = sensitivity(STACKS)
    arm = replace(found.arms[0], n_altered=2)
    result = with_sensitivity(WHOLE, replace(found, arms=(arm, *found.arms[1:])))
    assert "Another record may alter all 7: then it is 15 C." in text(result)


def test_a_ratio_that_does_not_grow_is_not_said_to():
    found = sensitivity(STACKS)
    result = with_sensitivity(WHOLE, replace(found, growth=found.growth[::-1]))
    assert "it does not grow with the batch here" in text(result)
    one = with_sensitivity(WHOLE, replace(found, growth=found.growth[:1]))
    assert "Beside 1 record the candidate moves the sum by 1.08 C." in text(one)
    none = with_sensitivity(WHOLE, replace(found, growth=()))
    assert figures(none) == []
