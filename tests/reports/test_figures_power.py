import pytest

from insular.errors import InvalidArgumentError
from insular.reports import PowerPoint, power_figure

from .figure_samples import SAMPLES
from .figure_texts import texts


def point(draws: int = 100, epsilon: float = 1.0, procedure: str = "curve") -> PowerPoint:
    return PowerPoint(procedure=procedure, draws=draws, epsilon=epsilon)


def test_the_key_says_where_each_procedure_first_lies_above_the_claim():
    found = texts(SAMPLES["power"].svg)
    assert "claimed: epsilon 4.38" in found
    assert "what runs: epsilon 4.71" in found
    assert sum(text.startswith("above the claim at ") for text in found) == 1


def test_a_procedure_that_stays_below_the_claim_has_no_mark():
    found = texts(power_figure((point(), point(1000, 2.0)), claimed=3.0, true=3.5))
    assert not any(text.startswith("above") for text in found)


def test_the_order_of_the_points_does_not_matter_for_the_mark():
    rows = (point(100, 1.0), point(1000, 4.0), point(10_000, 5.0))
    for order in (rows, rows[::-1]):
        assert "above the claim at 1,000 draws" in texts(power_figure(order, claimed=3, true=3.5))


def test_bad_rows_are_refused():
    with pytest.raises(InvalidArgumentError, match="draws must be an integer >= 1, got draws=0"):
        power_figure((point(0),), claimed=1.0, true=1.0)
    with pytest.raises(InvalidArgumentError, match="epsilon must be finite and >= 0"):
        power_figure((point(epsilon=-1.0),), claimed=1.0, true=1.0)
