"""What is left when outlier sets are held fixed, as the page says it."""

from dataclasses import replace

import pytest

from insular.audit.audit_results import AuditResult
from insular.recipes.audit._intervention_blocks import intervention_blocks
from insular.reports import Figure
from recipes import page_text
from recipes.part_samples import LOCALISATION, interventions
from recipes.samples import WHOLE


def text(result: AuditResult) -> str:
    return page_text.visible(intervention_blocks(result))


def figures(result: AuditResult) -> list[Figure]:
    return page_text.figures(intervention_blocks(result))


def table(result: AuditResult, caption: str) -> list[list[str]]:
    return page_text.table(intervention_blocks(result), caption)


def test_interventions_are_told_by_their_numbers():
    words = text(WHOLE)
    assert "60 of 210 int8 layers have another union in D'" in words
    assert "so intervening has no effect of its own" in words
    assert "columns reach the others through the down_proj layers alone" in words
    assert "still moves the sum by 1.50 C, more than the 1.49 C of the stack as it is" in words
    assert "that they had in D, forward and backward, it is 1.000000, and 0 of" in words
    rows = table(WHOLE, "Every intervention")
    assert len(rows) == 8
    assert rows[2][:3] == ["union only in down_proj", "30 of 210", "1.5023000"]
    assert "Rejected: columns must hold every outlier" in rows[7][0]
    assert rows[7][2:] == ["–", "–", "–"]
    drawing = figures(WHOLE)[0]
    assert "union only in blocks 0 to 9: 1.471200" in drawing.alt
    assert "alone" not in drawing.alt


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        (1.4876, "all of the 1.49 C"),
        (1.4791, "nearly all of the 1.49 C"),
        (1.2438, "50.0% of the excess of the 1.49 C"),
        (1.00005, "no excess, against the 1.49 C"),
    ],
)
def test_a_part_of_the_layers_gets_the_share_that_it_has(ratio, words):
    found = interventions()
    steps = tuple(
        replace(s, ratio=ratio) if s.name == "union only in down_proj" else s
        for s in found.steps
        if s.name != "union only in o_proj"
    )
    moved = replace(LOCALISATION, interventions=replace(found, steps=steps))
    assert words in text(replace(WHOLE, localisation=moved))


def test_interventions_that_are_not_exact_are_estimates():
    found = replace(LOCALISATION, interventions=interventions(exact=False))
    words = text(replace(WHOLE, localisation=found))
    assert "so what follows are estimates" in words


def test_the_factorial_is_told_by_its_numbers():
    words = text(WHOLE)
    assert "activations are the same in both, to the last bit" in words
    assert "The values of D' alone change no logit." in words
    assert "The mask of D' alone changes the logits by up to 0.366, which is the whole" in words
    assert table(WHOLE, "logit") == [
        ["values of D", "0 (0)", "0.366 (309)"],
        ["values of D'", "0 (0)", "0.366 (309)"],
    ]


def test_a_factorial_of_other_numbers_is_told_otherwise():
    found = interventions()
    same, mask, values, both = found.factorial
    cells = (
        replace(same, logit_max=0.001, logit_l2=0.01),
        replace(mask, problem="a mask omits an outlier."),
        replace(values, logit_max=0.1, logit_l2=77.35),
        both,
    )
    changed = replace(found, factorial=cells, values_equal=False)
    result = replace(WHOLE, localisation=replace(LOCALISATION, interventions=changed))
    words = text(result)
    assert "to the last bit. The values" not in words
    assert "The values of D' alone change the logits by up to 0.1, 25.0% of both" in words
    assert "The mask of D' alone could not be run." in words
    assert "move them by up to 0.001: the cells are estimates" in words
    assert "rejected: a mask omits an outlier." in words
