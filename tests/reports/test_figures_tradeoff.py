import re

import pytest

from insular.errors import InvalidArgumentError
from insular.reports import TradeoffPoint, tradeoff_figure

from .figure_samples import SAMPLES
from .figure_texts import texts, unreadable


def point(x: float = 0.01, y: float = 0.05, curve: str = "claimed") -> TradeoffPoint:
    return TradeoffPoint(curve=curve, false_positive_rate=x, true_positive_rate=y)


def test_the_marked_rate_is_named_for_each_curve():
    found = texts(SAMPLES["tradeoff"].svg)
    assert "at 0.01: true positive rate 0.0236" in found
    assert "at 0.01: true positive rate 0.07" in found
    assert "chance: nothing is learnt" in found


def test_a_curve_without_a_point_there_has_no_mark():
    found = texts(tradeoff_figure((point(0.1, 0.2), point(0.2, 0.4)), marked=0.01))
    assert not any(text.startswith("at ") for text in found)


def test_the_order_of_the_points_does_not_matter():
    rows = (point(0.001, 0.01), point(0.01, 0.05), point(1.0, 1.0))
    lines = [
        re.findall(r'<path d="(M [^"]*)" clip', tradeoff_figure(order, marked=0.5))
        for order in (rows, rows[::-1])
    ]
    assert lines[0] == lines[1]


def test_very_low_rates_are_left_out_and_several_curves_stay_readable():
    rows = [point(0.0, 0.0), point(1e-9, 1e-7)]
    rows += [point(curve=f"a curve with a long name, number {i}") for i in range(4)]
    assert unreadable(tradeoff_figure(rows, marked=0.01)) == []


def test_bad_rows_are_refused():
    with pytest.raises(InvalidArgumentError, match="false_positive_rate must be from 0 to 1, got"):
        tradeoff_figure((point(x=1.5),), marked=0.01)
    with pytest.raises(InvalidArgumentError, match="marked must be from 0 to 1, got marked=nan"):
        tradeoff_figure((point(),), marked=float("nan"))
