import re

import matplotlib
import pytest

from insular.errors import InvalidArgumentError
from insular.reports import Figure
from insular.reports.figures import InfluencePoint, TimeBar, influence_figure, time_figure

POINTS = (
    InfluencePoint(stack="int8 & <co>", change="content", distance=0.43, coupled=True),
    InfluencePoint(stack="int8 & <co>", change="shape", distance=2e-6, coupled=False),
    InfluencePoint(stack="$float32$", change="content", distance=0.0, coupled=False),
)
BARS = (
    TimeBar(stack="int8", seconds=1.6, outcome="bad", word="coupled"),
    TimeBar(stack="bf16", seconds=0.8, outcome="good", word="isolated"),
    TimeBar(stack="nf4", seconds=3.2, outcome="open", word="undecided"),
)


def test_equal_rows_give_equal_text():
    assert influence_figure(POINTS) == influence_figure(POINTS)
    assert time_figure(BARS) == time_figure(BARS)


def test_figures_are_small_text_without_a_date_or_a_style_of_the_whole_page():
    for svg in (influence_figure(POINTS), time_figure(BARS)):
        Figure(svg=svg, caption="", alt="")
        assert len(svg) < 40_000
        assert "<style" not in svg
        assert "<metadata" not in svg
        assert not re.search(r"20\d\d-\d\d-\d\d", svg)


def test_figures_take_the_colours_of_the_page():
    for svg in (influence_figure(POINTS), time_figure(BARS)):
        assert "currentColor" in svg
        fallbacks = re.sub(r"var\([^)]*\)", "", svg)
        assert not re.search(r"#[0-9a-f]{6}\b", fallbacks)


def test_two_figures_share_no_id():
    ids = [
        set(re.findall(r'\bid="([^"]+)"', f)) for f in (influence_figure(POINTS), time_figure(BARS))
    ]
    assert not ids[0] & ids[1]


def test_names_are_text_and_never_mathematics():
    svg = influence_figure(POINTS)
    assert ">int8 &amp; &lt;co&gt;<" in svg
    assert ">$float32$<" in svg


def test_exactly_zero_has_its_own_place():
    svg = influence_figure(POINTS)
    assert ">bitwise<" in svg
    columns = re.findall(
        r'<use xlink:href="#influence-m\w+" x="([\d.]+)" y="[\d.]+" style="[^"]*" ?/>', svg
    )
    assert len({round(float(x)) for x in columns}) >= 3


def test_nothing_moved_at_all():
    assert ">bitwise<" in influence_figure(POINTS[2:])


def test_time_is_relative_to_the_first():
    svg = time_figure(BARS)
    for label in ("1.00×", "0.50×", "2.00×"):
        assert label in svg
    for word in ("coupled", "isolated", "undecided"):
        assert word in svg


def test_the_users_settings_stay_as_they_are():
    with matplotlib.rc_context({"font.size": 31.0}):
        small = influence_figure(POINTS)
        assert matplotlib.rcParams["font.size"] == 31.0
    assert small == influence_figure(POINTS)


def test_bad_rows_are_refused():
    with pytest.raises(InvalidArgumentError, match="rows must hold at least one row"):
        influence_figure(())
    bad = InfluencePoint(stack="a", change="b", distance=float("nan"), coupled=True)
    with pytest.raises(InvalidArgumentError, match=r"distance must be finite and >= 0, got .*nan"):
        influence_figure((bad,))
    with pytest.raises(
        InvalidArgumentError, match=r"seconds must be finite and > 0, got seconds=0.0"
    ):
        time_figure((TimeBar(stack="a", seconds=0.0, outcome="good", word="isolated"),))
