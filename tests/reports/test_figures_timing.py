import pytest

from insular.errors import InvalidArgumentError
from insular.reports import TimeBar, time_figure

from .figure_samples import SAMPLES


def test_time_is_relative_to_the_first():
    svg = time_figure(SAMPLES["time"].rows)
    for label in ("1.00×", "0.50×", "2.00×"):
        assert label in svg
    for word in ("coupled", "isolated", "undecided"):
        assert word in svg


def test_no_time_is_refused():
    with pytest.raises(
        InvalidArgumentError, match=r"seconds must be finite and > 0, got seconds=0.0"
    ):
        time_figure((TimeBar(stack="a", seconds=0.0, outcome="good", word="isolated"),))
