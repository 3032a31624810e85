"""What the figures of planted secrets say."""

import pytest

from insular.errors import InvalidArgumentError
from insular.reports import (
    ExposureBound,
    ExposurePoint,
    Figure,
    exposure_figure,
    exposure_histogram_figure,
)

from .figure_texts import texts, unreadable

ROWS = tuple(
    ExposurePoint(repeats=count, bits=min(19.9, 0.4 * i + 3.1 * k), extracted=k == 4 and i > 1)
    for k, count in enumerate((0, 1, 4, 16, 64))
    for i in range(20 if count == 0 else 5)
)
OPTIONS = {
    "band": (0.4, 3.0),
    "bounds": (ExposureBound(repeats=1, bits=2.64), ExposureBound(repeats=64, bits=18.0)),
    "most_bits": 19.93,
}


def drawn(rows=ROWS, **changes):
    return exposure_figure(rows, **{**OPTIONS, **changes})


def test_the_figures_can_be_read_and_repeat():
    for draw in (drawn, lambda: exposure_histogram_figure(ROWS)):
        svg = draw()
        assert unreadable(svg) == [] and svg == draw() and len(svg) < 48_000
        Figure(svg=svg, caption="", alt="")


def test_the_key_names_the_promise_only_where_there_is_one():
    assert "mean that the promise allows" in texts(drawn())
    assert "mean that the promise allows" not in texts(drawn(bounds=()))
    assert "first of the space: 19.9 bits" in texts(drawn())
    assert {"none", "1", "4", "16", "64"} <= set(texts(drawn()))


def test_the_histogram_tells_planted_from_controls():
    found = texts(exposure_histogram_figure(ROWS))
    assert "planted" in found and "controls: planted nowhere" in found


def test_bad_rows_are_refused():
    with pytest.raises(InvalidArgumentError, match="rows must hold at least one row"):
        drawn(rows=())
    with pytest.raises(InvalidArgumentError, match="rows must hold at least one row"):
        exposure_histogram_figure(())
    with pytest.raises(InvalidArgumentError, match="bits must be finite and >= 0"):
        drawn(rows=(ExposurePoint(repeats=0, bits=-1.0, extracted=False),))
