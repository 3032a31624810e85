"""The figure of an inversion."""

import pytest

from insular.errors import InvalidArgumentError
from insular.reports import PositionPoint, inversion_figure

ROWS = [
    PositionPoint(position=0, right=1.0, first=1.0),
    PositionPoint(position=1, right=0.5, first=None),
    PositionPoint(position=2, right=0.0, first=0.25),
]


def test_equal_rows_give_equal_text() -> None:
    first = inversion_figure(ROWS)
    assert first == inversion_figure(list(ROWS))
    assert first.startswith("<svg") and "ranked first" in first


def test_positions_without_states_leave_the_ranking_out() -> None:
    assert "ranked first" not in inversion_figure([ROWS[1]])


def test_no_rows_and_shares_that_are_none_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="at least one row"):
        inversion_figure([])
    with pytest.raises(InvalidArgumentError, match="right"):
        inversion_figure([PositionPoint(position=0, right=1.5, first=None)])
