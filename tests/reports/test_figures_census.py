import re

import pytest

from insular.errors import InvalidArgumentError
from insular.reports import CensusBar, census_figure

from .figure_samples import SAMPLES
from .figure_texts import texts, unreadable


def bar(share: str = "altered", batch: int = 2, percent: float = 20.0) -> CensusBar:
    return CensusBar(physical_batch=batch, share=share, percent=percent)


def test_every_share_is_printed_to_a_tenth():
    found = texts(SAMPLES["census"].svg)
    for row in SAMPLES["census"].rows:
        assert f"{row.percent:.1f}" in found
    assert {f"{n} records" for n in (2, 4, 8, 16)} <= set(found)


def test_almost_nothing_is_not_printed_as_nothing():
    found = texts(census_figure((bar(percent=0.04), bar(batch=4, percent=0.0))))
    assert {"< 0.1", "0.0"} <= set(found)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_each_share_has_its_own_hatch(n):
    rows = [bar(str(i), batch, 100.0 / (i + 1)) for i in range(n) for batch in (2, 4, 8, 16)]
    svg = census_figure(rows)
    assert len(re.findall(r"<pattern ", svg)) == n - 1  # the first is plain
    assert unreadable(svg) == []


def test_long_names_do_not_leave_the_drawing():
    svg = census_figure([bar(f"{i}: " + "share of the record-layer pairs " * 3) for i in range(4)])
    assert unreadable(svg) == []


@pytest.mark.parametrize(
    ("rows", "rule"),
    [
        ((bar(percent=float("nan")),), "percent must be from 0 to 100, got percent=nan"),
        ((bar(percent=100.1),), "percent must be from 0 to 100, got percent=100.1"),
        ((bar(batch=0),), "physical_batch must be an integer >= 1, got"),
        ((bar(), bar()), "one share of a kind for each physical batch"),
        (tuple(bar(name) for name in "abcde"), "at most 4 kinds of share, got 5"),
    ],
)
def test_bad_rows_are_refused(rows, rule):
    with pytest.raises(InvalidArgumentError, match=rule):
        census_figure(rows)
