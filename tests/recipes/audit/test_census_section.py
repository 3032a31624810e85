"""How often records decide each other's precision, as the page says it."""

from dataclasses import replace

from insular.audit.audit_results import AuditResult
from insular.recipes.audit._census_section import census_section
from insular.reports import Figure
from recipes import page_text
from recipes.part_samples import census
from recipes.samples import WHOLE


def text(result: AuditResult) -> str:
    return page_text.visible(census_section(result)[0].blocks)


def figures(result: AuditResult) -> list[Figure]:
    return page_text.figures(census_section(result)[0].blocks)


def table(result: AuditResult, caption: str) -> list[list[str]]:
    return page_text.table(census_section(result)[0].blocks, caption)


def test_the_census_says_how_often_and_where():
    words = text(WHOLE)
    assert "reaches the threshold (6) in it. 16 records of the text (723 tokens)" in words
    assert "other records or padding brought in a column in 42.0% of the record-layer" in words
    assert "80.9% of the columns that records were given were not their own" in words
    assert "Hypothetical" not in words
    bars, where = figures(WHOLE)
    assert "16 records, foreign columns: 80.9%" in bars.alt
    for name in ("q/k/v_proj", "gate/up_proj", "down_proj"):
        assert f">{name}</text>" in where.svg
    rows = table(WHOLE, "Layers:")
    assert rows[0] == ["2", "101 of 210", "1,616", "27.8%", "32.6%", "0.1%", "32.6%", "460"]


def test_a_census_of_layers_without_a_union_is_hypothetical():
    result = replace(WHOLE, census=census(takes_union=False))
    assert text(result).startswith("Hypothetical: this stack gives no row")


def test_a_census_in_which_nothing_reaches_the_threshold_draws_no_bars():
    found = census()
    empty = replace(
        found,
        batches=tuple(
            replace(b, n_layers=0, n_pairs=0, n_altered=0, n_columns=0, n_foreign=0, n_padding=0,
                    largest_union=0, correction_work=0, owned_work=0)
            for b in found.batches
        ),
        layers=tuple(replace(x, name=f"x{i}", source=f"x{i}") for i, x in enumerate(found.layers)),
    )  # fmt: skip
    result = replace(WHOLE, census=empty)
    assert "No record reached it in any layer." in text(result)
    assert figures(result) == []


def test_other_families_have_names_that_tell_their_layers_apart():
    name = "transformer.h.{}.{}"
    kinds = ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")
    layers = tuple(
        replace(WHOLE.census.layers[0], name=x, source=x)  # type: ignore[union-attr]
        for x in (name.format(i, kind) for i in range(2) for kind in kinds)
    )
    result = replace(WHOLE, census=replace(census(), layers=layers))
    where = figures(result)[1]
    for label in ("c_attn", "attn.c_proj", "c_fc", "mlp.c_proj"):
        assert f">{label}</text>" in where.svg
