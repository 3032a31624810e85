import re

import pytest

from insular.errors import InvalidArgumentError
from insular.reports import GrowthPoint, growth_figure

from .figure_samples import SAMPLES
from .figure_texts import texts, unreadable


def point(n: int = 7, ratio: float = 1.2, stack: str = "native") -> GrowthPoint:
    return GrowthPoint(stack=stack, n_baseline=n, ratio=ratio, exceeds=ratio > 1)


def test_the_influence_bound_is_named_and_not_drawn():
    svg = SAMPLES["growth"].svg
    found = texts(svg)
    assert "influence bound, not drawn: ratio 2m + 1 = 3 to 63" in found
    assert max(float(text) for text in found if text.replace(".", "").isdigit()) < 60
    assert "separable bound" in found


def test_one_size_and_one_ratio():
    svg = growth_figure((point(),))
    assert "influence bound, not drawn: ratio 2m + 1 = 15" in texts(svg)
    assert unreadable(svg) == []


def test_the_order_of_the_rows_does_not_move_the_line():
    rows = (point(1, 1.1), point(7, 1.2), point(7, 1.1), point(31, 1.8))
    line = r'<path d="([^"]*)"[^>]*stroke: var\(--figure-soft'
    drawn = [re.findall(line, growth_figure(order)) for order in (rows, rows[::-1])]
    assert drawn[0] == drawn[1]
    assert drawn[0][0].count("L") == 2  # three sizes, the largest of each


def test_many_stacks_stay_readable():
    svg = growth_figure([point(stack=f"a stack with a long name {i}") for i in range(6)])
    assert unreadable(svg) == []


def test_bad_rows_are_refused():
    with pytest.raises(InvalidArgumentError, match="n_baseline must be an integer >= 1, got"):
        growth_figure((point(0),))
    with pytest.raises(InvalidArgumentError, match="ratio must be finite and >= 0, got ratio=-1"):
        growth_figure((point(ratio=-1.0),))
