import pytest

from insular.errors import InvalidArgumentError
from insular.reports import GuessedBound, guesses_figure

from .figure_texts import texts, unreadable

ROWS = tuple(
    GuessedBound(guesses=n, epsilon=epsilon, ceiling=ceiling)
    for n, epsilon, ceiling in (
        (5, 0.0, 0.2),
        (20, 0.9, 1.8),
        (160, 1.4, 3.9),
        (500, 0.8, 4.95),
        (1000, 0.4, 5.6),
    )
)


def test_the_fixed_number_is_marked_and_its_bound_is_named() -> None:
    found = texts(guesses_figure(ROWS, claimed=4.09, fixed=160))
    assert "fixed: 160 guesses prove 1.4" in found
    assert "promised: epsilon 4.09" in found
    assert "most provable: every guess right" in found


def test_a_number_that_is_not_drawn_has_no_mark() -> None:
    assert not any(text.startswith("fixed") for text in texts(_drawn(fixed=161)))


@pytest.mark.parametrize("claimed", [0.0, 4.09, 500.0])
def test_every_text_can_be_read_whatever_is_promised(claimed: float) -> None:
    assert unreadable(guesses_figure(ROWS, claimed=claimed, fixed=160)) == []
    assert unreadable(guesses_figure(ROWS[:1], claimed=claimed, fixed=5)) == []


def test_the_order_of_the_rows_does_not_matter() -> None:
    assert _drawn() == guesses_figure(ROWS[::-1], claimed=4.09, fixed=160)


def test_bad_rows_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="at least one row"):
        guesses_figure((), claimed=1.0, fixed=1)
    bad = GuessedBound(guesses=0, epsilon=1.0, ceiling=1.0)
    with pytest.raises(InvalidArgumentError, match="guesses must be an integer >= 1"):
        guesses_figure((bad,), claimed=1.0, fixed=1)
    with pytest.raises(InvalidArgumentError, match="claimed must be finite and >= 0"):
        guesses_figure(ROWS, claimed=float("inf"), fixed=1)


def _drawn(fixed: int = 160) -> str:
    return guesses_figure(ROWS, claimed=4.09, fixed=fixed)
