import re

import pytest

from insular.errors import InvalidArgumentError
from insular.reports import FrontierPoint, frontier_figure

from .figure_samples import SAMPLES
from .figure_texts import texts


def point(agreement: float = 0.5, top1: float = 0.5, family: str = "isotropic") -> FrontierPoint:
    return FrontierPoint(family=family, agreement=agreement, top1=top1)


def drawn(svg: str) -> int:
    """Marks in the drawing, those of the key among them."""
    return len(re.findall(r"<use ", svg))


def test_every_release_is_drawn():
    few = frontier_figure([point()], agreement=0.5, top1=0.1)
    for n in (2, 5, 40):
        rows = [point(0.9 * i / n, 1 - 0.9 * i / n) for i in range(n)]
        assert drawn(frontier_figure(rows, agreement=0.5, top1=0.1)) == drawn(few) + n - 1


def test_the_corner_is_named_with_how_many_releases_lie_in_it():
    rows = (point(0.5, 0.1), point(0.9, 0.0), point(0.49, 0.1), point(0.5, 0.11), point(0.1, 0.9))
    assert "useful and private: 2 of 5" in texts(frontier_figure(rows, agreement=0.5, top1=0.1))
    assert "useful and private: 0 of 1" in texts(
        frontier_figure((point(0.4, 0.0),), agreement=0.5, top1=0.1)
    )


def test_each_family_stands_in_the_key_once():
    found = texts(SAMPLES["frontier"].svg)
    families = {row.family for row in SAMPLES["frontier"].rows}
    assert all(found.count(family) == 1 for family in families)


def test_both_axes_say_what_they_share():
    found = texts(SAMPLES["frontier"].svg)
    assert "most likely next token kept (share of prompts)" in found
    assert "prompt found by the best attacker (share)" in found


@pytest.mark.parametrize(
    ("row", "limits", "message"),
    [
        (point(1.1), {}, "agreement must be from 0 to 1, got agreement=1.1"),
        (point(top1=-0.1), {}, "top1 must be from 0 to 1"),
        (point(), {"top1": 2.0}, "top1 must be from 0 to 1, got top1=2.0"),
    ],
)
def test_what_is_no_share_is_refused(row: FrontierPoint, limits: dict[str, float], message: str):
    with pytest.raises(InvalidArgumentError, match=message):
        frontier_figure((row,), **{"agreement": 0.5, "top1": 0.1, **limits})
