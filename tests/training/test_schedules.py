"""Schedules: worked values, and no step on a rate of 0."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from insular.errors import InvalidArgumentError
from insular.training.schedules import SCHEDULES, learning_rate_at


def rates(schedule: str, steps: int, warmup: int = 0) -> list[float]:
    return [
        learning_rate_at(t, schedule=schedule, peak=2.0, steps=steps, warmup_steps=warmup)
        for t in range(steps)
    ]


def test_worked_examples() -> None:
    assert rates("constant", 3) == [2.0, 2.0, 2.0]
    assert rates("linear", 4) == [2.0, 1.5, 1.0, 0.5]
    assert rates("cosine", 2) == pytest.approx([2.0, 1.0])
    assert rates("constant", 5, warmup=3) == [0.5, 1.0, 1.5, 2.0, 2.0]
    assert rates("linear", 6, warmup=2) == pytest.approx([2 / 3, 4 / 3, 2.0, 1.5, 1.0, 0.5])


@given(
    schedule=st.sampled_from(sorted(SCHEDULES)),
    steps=st.integers(1, 2000),
    data=st.data(),
)
def test_above_0_and_at_most_peak_in_every_step(schedule: str, steps: int, data) -> None:
    warmup = data.draw(st.integers(0, steps - 1))
    found = rates(schedule, steps, warmup)
    assert all(0 < rate <= 2.0 for rate in found)
    assert found[warmup] == 2.0  # step warmup_steps has exactly peak
    assert found[:warmup] == sorted(found[:warmup])
    assert found[warmup:] == sorted(found[warmup:], reverse=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schedule": "step"}, "schedule must be one of constant, linear, cosine"),
        ({"peak": 0.0}, "peak must be finite and > 0"),
        ({"peak": math.inf}, "peak must be finite"),
        ({"warmup_steps": 10}, "must be below steps, got step=0, warmup_steps=10 and steps=10"),
        ({"steps": 0}, "steps must be an integer >= 1"),
    ],
)
def test_bad_arguments(change, message: str) -> None:
    given = {"schedule": "linear", "peak": 1.0, "steps": 10, "warmup_steps": 0} | change
    with pytest.raises(InvalidArgumentError, match=message):
        learning_rate_at(0, **given)
    with pytest.raises(InvalidArgumentError, match="step and warmup_steps must be below steps"):
        learning_rate_at(10, schedule="linear", peak=1.0, steps=10)
