"""Which modules the influence comes from, as the page says it."""

from dataclasses import replace

import pytest

from insular.audit.audit_results import AuditResult
from insular.audit.localisation.results import Localisation
from insular.recipes.audit._localisation_section import localisation_blocks
from insular.reports import Figure
from recipes import page_text
from recipes.part_samples import CANDIDATES, LOCALISATION, origins
from recipes.samples import WHOLE

WORST = CANDIDATES[18]


def text(result: AuditResult) -> str:
    return page_text.visible(localisation_blocks(result))


def figures(result: AuditResult) -> list[Figure]:
    return page_text.figures(localisation_blocks(result))


def table(result: AuditResult, caption: str) -> list[list[str]]:
    return page_text.table(localisation_blocks(result), caption)


def test_where_names_the_first_origin_and_counts_the_others():
    words = text(WHOLE)
    assert "traced through 272 modules" in words
    assert f"with and without {WORST}. Forward, 44 originate a change" in words
    assert "and 160 only pass on what reached them" in words
    assert "first enters at model.layers.0.mlp.down_proj (forward)" in words
    assert "base_model" not in words
    assert "Not observable: 1 module" in words
    network = figures(WHOLE)[0]
    assert network.svg.count(">down_proj</text>") == 1
    assert ">mlp</text>" not in network.svg
    assert "the first to originate a change" in network.svg


def test_the_columns_that_entered_stand_beside_the_module():
    rows = {row[0]: row for row in table(WHOLE, "in which a change originates")}
    assert len(rows) == 44
    assert rows["model.layers.0.mlp.down_proj"][1:] == [
        "forward", "yes", "7 of 7", "0.04", "3, 5, 7, 9, 11, 13",
    ]  # fmt: skip
    assert rows["model.layers.2.self_attn.v_proj"][5] == "–"
    assert any(row[5].endswith("and 2 more") for row in rows.values())


def test_backward_origins_have_a_map_of_their_own():
    found = origins()
    back = replace(found.modules[0], phase="backward", module="base_model.model.lm_head")
    inside = replace(found.modules[0], phase="backward", module="m.layers.3.self_attn#2")
    both = replace(found, modules=(*found.modules, back, inside))
    result = replace(WHOLE, localisation=replace(LOCALISATION, origins=both))
    maps = figures(result)[:2]
    assert ["forward" in drawing.caption for drawing in maps] == [True, False]
    assert "Outside the blocks: 1 more" in maps[1].caption
    assert ">self_attn</text>" in maps[1].svg
    assert "Backward, 2 originate a change" in text(result)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"first": None}, "No first origin can be named: a rounding came before"),
        ({"first": None, "modules": ()}, "No module originates an influence"),
    ],
)
def test_without_a_first_origin_none_is_invented(change, words):
    found = replace(LOCALISATION, origins=replace(origins(), **change))
    assert words in text(replace(WHOLE, localisation=found))


def test_origins_that_could_not_be_traced_say_why():
    found = Localisation(origins=None, origins_problem="several passes", interventions=None)
    words = text(replace(WHOLE, localisation=found))
    assert "could not be traced: several passes." in words
    assert "D is the baseline batch" not in words
