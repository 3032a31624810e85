"""What every figure promises, over one table of them."""

import re
import subprocess
import sys

import matplotlib
import pytest

import insular.reports
from insular.errors import InvalidArgumentError
from insular.reports import Figure, Page, Section, figures, render

from .figure_samples import SAMPLES
from .figure_texts import texts, unreadable
from .html_check import Checked
from .sample import ODD

EACH = pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)


def test_every_figure_has_a_sample_and_is_offered_by_the_package():
    drawn = {sample.draw.__name__ for sample in SAMPLES.values()}
    assert drawn == {name for name in figures.__all__ if name.endswith("_figure")}
    assert set(figures.__all__) <= set(insular.reports.__all__)


@EACH
def test_equal_rows_give_equal_text(sample):
    assert sample.drawn() == sample.svg


@EACH
def test_figures_are_small_text_without_a_date_or_a_style_of_the_whole_page(sample):
    svg = sample.svg
    Figure(svg=svg, caption="", alt="")
    assert len(svg) < 48_000
    assert "<style" not in svg
    assert "<metadata" not in svg
    assert not re.search(r"20\d\d-\d\d-\d\d", svg)


@EACH
def test_figures_take_the_colours_of_the_page(sample):
    assert "currentColor" in sample.svg
    fallbacks = re.sub(r"var\([^)]*\)", "", sample.svg)
    assert not re.search(r"#[0-9a-f]{6}\b", fallbacks)


def test_all_figures_share_one_page():
    blocks = tuple(Figure(svg=s.svg, caption="", alt="") for s in SAMPLES.values())
    sections = (Section(heading="all", blocks=blocks),)
    page = Page(title="all", verdict="", verdict_kind="bad", lead=(), sections=sections)
    checked = Checked(render(page))
    assert checked.tags.count("svg") == len(SAMPLES)


@EACH
def test_every_text_can_be_read(sample):
    assert unreadable(sample.svg) == []


@pytest.mark.parametrize(
    "sample", [s for s in SAMPLES.values() if ODD in repr(s.rows)], ids=lambda s: s.draw.__name__
)
def test_names_are_text_and_never_mathematics(sample):
    assert ODD in texts(sample.svg)


@EACH
def test_the_users_settings_stay_as_they_are(sample):
    with matplotlib.rc_context({"font.size": 31.0}):
        small = sample.drawn()
        assert matplotlib.rcParams["font.size"] == 31.0
    assert small == sample.svg


@EACH
def test_no_rows_are_refused(sample):
    with pytest.raises(InvalidArgumentError, match="rows must hold at least one row, got none"):
        sample.draw((), **sample.options)


def test_importing_the_figures_loads_no_drawing_library():
    code = "import sys, insular.reports; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
