import pytest

from insular.errors import InvalidArgumentError
from insular.reports import Code, Figure, Number, Table, paragraph

SVG = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">{}</svg>'


@pytest.mark.parametrize(
    "source",
    [
        "javascript:alert(1)",
        "https://example.org/results.json",
        "//example.org/a",
        "/etc/passwd",
        "../other/results.json",
        "arrays/../../x",
        "results.json#pointer",
        "results.json#/a b",
        "",
    ],
)
def test_number_refuses_a_source_outside_the_run_folder(source):
    with pytest.raises(InvalidArgumentError, match="source must be a file in the run folder"):
        Number(text="1", source=source)


def test_number_links_to_its_source():
    number = Number(text="0.43", source="results.json#/subject/axes/0/worst")
    assert number.href == "results.json#/subject/axes/0/worst"
    assert Number(text="1", source='results.json#/a"<b>').href == "results.json#/a%22%3Cb%3E"


def test_paragraph_as_plain_text():
    source = "results.json#/x"
    parts = paragraph("by ", Number(text="0.43 C", source=source), " in ", Code(text="q_proj"))
    assert parts.plain == "by 0.43 C in q_proj"


def test_table_refuses_a_row_of_another_width():
    with pytest.raises(InvalidArgumentError, match="for each of 2 columns, got 1 in row 1"):
        Table(caption="", columns=("a", "b"), rows=(("1", "2"), ("3",)))


@pytest.mark.parametrize(
    "svg",
    [
        "",
        "<p>no drawing</p>",
        "<svg><unclosed></svg>",
        SVG.format("<script>alert(1)</script>"),
        SVG.format('<a href="#x">x</a>'),
        SVG.format('<g onclick="alert(1)"/>'),
        SVG.format('<use xlink:href="https://example.org/x.svg#a"/>'),
        SVG.format('<image href="x.png"/>'),
        SVG.format("<style>@import url(https://example.org/x.css)</style>"),
        SVG.format('<rect style="fill: url(https://example.org/x)"/>'),
    ],
)
def test_figure_refuses_what_is_not_a_drawing_alone(svg):
    with pytest.raises(InvalidArgumentError, match="svg must be one <svg> element"):
        Figure(svg=svg, caption="", alt="")


def test_figure_accepts_inner_references():
    svg = SVG.format('<defs><path id="p"/></defs><use xlink:href="#p" style="fill: url(#p)"/>')
    assert Figure(svg=svg, caption="", alt="").svg == svg
