from importlib.resources import files

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insular.errors import InvalidArgumentError
from insular.reports import (
    Code,
    Command,
    EvidenceFile,
    Facts,
    Figure,
    Number,
    Page,
    Points,
    Section,
    Table,
    paragraph,
    render,
)

from .html_check import Checked

EVIL = "<script>alert('1')</script>\"&amp;{{ 7*7 }}"
SVG = '<svg xmlns="http://www.w3.org/2000/svg"><path id="figure-p"/></svg>'
NUMBER = Number(text="0.43 C", source="results.json#/subject/axes/0")


def page(text: str = "text", *, sections: tuple[Section, ...] | None = None) -> Page:
    blocks = (
        paragraph(text, NUMBER, Code(text=text)),
        Points(items=(text, (text, NUMBER))),
        Facts(pairs=((text, text), ("n", NUMBER)), source="manifest.json"),
        Command(text=text),
        Table(caption=text, columns=(text, "n"), rows=((text, NUMBER),), numeric=(1,)),
        Table(caption=text, columns=(text,), rows=((Code(text=text),),), folded=True),
        Figure(svg=SVG, caption=text, alt=text),
    )
    return Page(
        title=text,
        verdict=text,
        verdict_kind="bad",
        lead=(paragraph(text),),
        sections=sections if sections is not None else (Section(heading=text, blocks=blocks),),
        evidence=(EvidenceFile(name="results.json", sha256="ab" * 32),),
        footer=text,
    )


def test_everything_is_escaped():
    html = render(page(EVIL))
    checked = Checked(html)
    assert "script" not in checked.tags
    assert "<script" not in html
    assert checked.text.count(EVIL) == 21  # each text of page() once, the title three times
    assert "49" not in checked.text


@settings(max_examples=40, deadline=None)
@given(st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1))
def test_any_text_comes_out_as_it_went_in(text):
    assert text in Checked(render(page(text))).text


def test_no_script_and_no_network():
    html = render(page())
    assert "script" not in Checked(html).tags
    assert "default-src 'none'; style-src 'unsafe-inline'" in html
    for loading in ("@import", "url(", "src=", "<link", "<iframe"):
        assert loading not in html


def test_each_number_links_to_its_evidence():
    html = render(page())
    assert html.count('<a class="number" href="results.json#/subject/axes/0"') == 4
    assert 'title="results.json#/subject/axes/0">0.43 C</a>' in html


def test_numbers_in_running_text_share_one_footnote_for_one_source():
    checked = Checked(render(page()))
    assert [name for name in checked.ids if name.startswith("source-")] == ["source-1"]
    assert checked.links.count("#source-1") == 2
    assert "results.json#/subject/axes/0" in checked.text


def test_equal_pages_give_equal_bytes():
    assert render(page()) == render(page())


def test_folded_tables_fold_and_others_do_not():
    html = render(page())
    assert html.count("<details>") == 1
    assert html.count("<table>") == 3


def test_the_verdict_is_a_word_with_a_sign():
    html = render(page("Coupled"))
    assert '<p class="verdict bad"><span aria-hidden="true">✗</span> Coupled</p>' in html


def test_a_page_without_sections_or_numbers_has_no_empty_parts():
    html = render(Page(title="t", verdict="v", verdict_kind="open", lead=(), sections=()))
    assert Checked(html).tags.count("section") == 0
    assert "<footer>" not in html


def test_an_unknown_kind_is_refused():
    with pytest.raises(InvalidArgumentError, match="verdict_kind must be one of good, bad, open"):
        Page(title="", verdict="", verdict_kind="fine", lead=(), sections=())  # type: ignore


def test_templates_ship_with_the_package():
    folder = files("insular.reports") / "templates"
    assert {"page.html.j2", "page.css"} <= {file.name for file in folder.iterdir()}
