"""The curve of a membership attack beside what is promised."""

import re

import matplotlib
import pytest

from insular.errors import InvalidArgumentError
from insular.reports import Figure, RocRow, roc_figure

from .figure_texts import texts, unreadable
from .sample import ODD

RATES = (0.0, 1e-4, 1e-3, 0.01, 0.1, 1.0)
PROMISED = tuple((x, min(1.0, 1e-5 + 2.718 * x)) for x in RATES)


def rows(*names: str) -> tuple[RocRow, ...]:
    return tuple(
        RocRow(
            attack=name,
            false_positive_rate=x,
            true_positive_rate=min(1.0, (3 + i) * x),
            lower=0.02 if x == 0.01 else None,
            upper=0.08 if x == 0.01 else None,
        )
        for i, name in enumerate(names)
        for x in RATES
    )


def test_each_attack_the_promise_and_chance_are_named() -> None:
    found = texts(roc_figure(rows("loss", ODD), promised=PROMISED))
    assert {"loss", ODD, "promised: no attack may lie above", "chance: nothing is learnt"} <= {
        *found
    }
    assert not any("promised" in text for text in texts(roc_figure(rows("loss"))))


def test_six_attacks_stay_readable_and_small() -> None:
    names = [f"an attack with a long name, number {i}" for i in range(6)]
    svg = roc_figure(rows(*names), promised=PROMISED)
    assert unreadable(svg) == [] and len(svg) < 48_000
    Figure(svg=svg, caption="", alt="")


def test_equal_rows_give_equal_text_whatever_the_users_settings() -> None:
    first = roc_figure(rows("loss"), promised=PROMISED)
    with matplotlib.rc_context({"font.size": 31.0}):
        assert roc_figure(rows("loss"), promised=PROMISED) == first


def test_the_order_of_the_points_does_not_matter() -> None:
    lines = [
        re.findall(r'<path d="(M [^"]*)" clip', roc_figure(order))
        for order in (rows("loss"), rows("loss")[::-1])
    ]
    assert lines[0] == lines[1]


def test_an_interval_is_a_bar_and_low_rates_are_left_out() -> None:
    plain = tuple(RocRow(attack="a", false_positive_rate=x, true_positive_rate=x) for x in RATES)
    barred = rows("a")
    paths = [len(re.findall(r"<path", roc_figure(some))) for some in (plain, barred)]
    assert paths[1] > paths[0]
    low = (RocRow(attack="a", false_positive_rate=0.0, true_positive_rate=0.5),)
    assert unreadable(roc_figure(low)) == []


def test_bad_rows_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="rows must hold at least one row, got none"):
        roc_figure(())
    bad = RocRow(attack="a", false_positive_rate=1.5, true_positive_rate=0.5)
    with pytest.raises(InvalidArgumentError, match="false_positive_rate must be from 0 to 1, got"):
        roc_figure((bad,))
    bar = RocRow(attack="a", false_positive_rate=0.5, true_positive_rate=0.5, lower=-1.0, upper=1.0)
    with pytest.raises(InvalidArgumentError, match="lower must be from 0 to 1, got"):
        roc_figure((bar,))
