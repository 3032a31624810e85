import re

import pytest

from insular.errors import InvalidArgumentError
from insular.reports import InfluencePoint, influence_figure

from .figure_samples import SAMPLES

POINTS = SAMPLES["influence"].rows


def test_names_are_escaped():
    svg = influence_figure(POINTS)
    assert ">int8 &amp; &lt;co&gt;<" in svg


def test_exactly_zero_has_its_own_place():
    svg = influence_figure(POINTS)
    assert ">bitwise<" in svg
    columns = re.findall(
        r'<use xlink:href="#influence-m\w+" x="([\d.]+)" y="[\d.]+" style="[^"]*" ?/>', svg
    )
    assert len({round(float(x)) for x in columns}) >= 3


def test_nothing_moved_at_all():
    assert ">bitwise<" in influence_figure(POINTS[2:])


def test_a_distance_that_is_no_distance_is_refused():
    bad = InfluencePoint(stack="a", change="b", distance=float("nan"), coupled=True)
    with pytest.raises(InvalidArgumentError, match=r"distance must be finite and >= 0, got .*nan"):
        influence_figure((bad,))
