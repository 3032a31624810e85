"""``insular budget`` over its whole argument space: an answer or one clear line."""

import math
import re

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cli.in_process import Done, insular

ODD = ("nan", "inf", "-inf", "-1", "0", "-0.0", "1e300", "1e-300", "5e-324", "1e400", "x", "",
       "1e5", "10" * 60, "0x10", "٣", "1_0")  # fmt: skip
SOME = settings(
    max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)


def numbers(low: float, high: float) -> st.SearchStrategy[str]:
    """Mostly numbers in a range where each answer is quick, sometimes anything."""
    usual = st.floats(low, high).map(repr)
    return st.one_of(usual, usual, usual, usual, st.sampled_from(ODD))


def integers(low: int, high: int) -> st.SearchStrategy[str]:
    usual = st.integers(low, high).map(str)
    return st.one_of(usual, usual, usual, usual, st.sampled_from((*ODD, str(10**9), str(10**18))))


NOISE, PROB, STEPS = numbers(0.5, 20), numbers(0.001, 1), integers(0, 500)
DELTA = st.one_of(numbers(1e-12, 0.1), st.sampled_from(["1e-5", "1e-9", "0.999", "1"]))
RELATION = st.sampled_from(["add_or_remove_one", "replace_one", "replace_one", "neither"])
UNIT = st.sampled_from(["record", "record", "owner", "user"])
RECORDS = integers(1, 50)


def check(*arguments: str) -> Done:
    """The promise that every call keeps, whatever it was asked."""
    done = insular("budget", *arguments)
    assert done.code in (0, 1, 2)
    if done.code == 2:
        assert done.stdout == ""
        assert len(done.stderr.splitlines()) == 1
        assert done.stderr.startswith("insular: ")
        assert len(done.stderr) < 1500
    else:
        assert done.stderr == ""
        assert "nan" not in done.stdout.lower()
        assert not re.search(r"(?<![\w.e^])-\d", done.stdout)
    return done


def check_number(*arguments: str) -> None:
    """With ``--quiet``, the same number is finite or infinite and never negative."""
    done = check(*arguments, "--quiet")
    if done.code != 2:
        value = float(done.stdout)
        assert value >= 0 and not math.isnan(value)


@SOME
@given(NOISE, PROB, STEPS, DELTA, RELATION, UNIT, RECORDS, st.booleans())
@example("1e-300", "0.5", "3", "1e-5", "add_or_remove_one", "record", "2", False)
@example("1e300", "1", "1000000000", "0", "replace_one", "record", "1000000000", False)
@example("0", "1", "0", "0", "replace_one", "record", "3", False)
def test_epsilon(
    noise: str, prob: str, steps: str, delta: str, relation: str, unit: str, records: str,
    quiet: bool,
) -> None:  # fmt: skip
    arguments = ["--noise-multiplier", noise, "--sampling-prob", prob, "--steps", steps,
                 "--delta", delta, "--relation", relation, "--unit", unit]  # fmt: skip
    if quiet:
        check_number("epsilon", *arguments)
    else:
        check("epsilon", *arguments, "--records-per-owner", records)


@settings(SOME, max_examples=40)
@given(
    st.sampled_from(["--epsilon", "--advantage", "--tpr", "--epsilon --advantage", ""]),
    st.one_of(numbers(0.05, 10), numbers(0.001, 0.999)),
    numbers(1e-3, 0.5), DELTA, PROB, integers(1, 50), RELATION, st.booleans(),
)  # fmt: skip
@example("--epsilon", "1e-300", "0.1", "1e-5", "0.1", "10", "add_or_remove_one", False)
@example("--epsilon", "1e300", "0.1", "1e-300", "1", "1000000000", "replace_one", True)
@example("--tpr", "1", "0", "1e-5", "1", "1", "replace_one", False)
def test_calibrate(
    promises: str, value: str, fpr: str, delta: str, prob: str, steps: str, relation: str,
    quiet: bool,
) -> None:  # fmt: skip
    arguments = ["--sampling-prob", prob, "--steps", steps, "--delta", delta,
                 "--relation", relation]  # fmt: skip
    for option in promises.split():
        arguments += [option, value]
    if "--tpr" in promises:
        arguments += ["--fpr", fpr]
    (check_number if quiet else check)("calibrate", *arguments)


@settings(SOME, max_examples=30)
@given(NOISE, PROB, STEPS, st.lists(DELTA, max_size=2), st.lists(numbers(0, 1), max_size=2),
       RELATION)  # fmt: skip
@example("1e300", "1", "5", [], [], "replace_one")
@example("0", "0.5", "5", ["0"], ["0", "1"], "add_or_remove_one")
def test_curve(
    noise: str, prob: str, steps: str, deltas: list[str], rates: list[str], relation: str
) -> None:
    arguments = ["--noise-multiplier", noise, "--sampling-prob", prob, "--steps", steps,
                 "--relation", relation]  # fmt: skip
    for delta in deltas:
        arguments += ["--delta", delta]
    for rate in rates:
        arguments += ["--fpr", rate]
    check("curve", *arguments)


@SOME
@given(numbers(0, 30), NOISE, DELTA, RELATION, numbers(0, 1), st.none() | PROB, st.none() | STEPS,
       st.booleans())  # fmt: skip
@example("1e300", "1e-300", "1e-5", "replace_one", "0", None, None, False)
@example("1e-300", "1e300", "0", "replace_one", "0", "1", "5", False)
@example("5e-324", "1", "1e-5", "replace_one", "1e300", "0.5", "5", False)
def test_pair(
    distance: str, noise: str, delta: str, relation: str, repeat: str, prob: str | None,
    steps: str | None, quiet: bool,
) -> None:  # fmt: skip
    arguments = ["--distance", distance, "--noise-multiplier", noise, "--delta", delta,
                 "--relation", relation, "--repeat-distance", repeat]  # fmt: skip
    arguments += [] if prob is None else ["--sampling-prob", prob]
    arguments += [] if steps is None else ["--steps", steps]
    (check_number if quiet else check)("pair", *arguments)


@settings(SOME, max_examples=200)
@given(numbers(0, 30), st.one_of(DELTA, numbers(0, 1)), RECORDS, st.booleans())
@example("1e300", "1e-300", "1000000000", False)
@example("5e-324", "1", "1", False)
@example("5e-324", "5e-324", "1000000000", False)
def test_group(epsilon: str, delta: str, records: str, quiet: bool) -> None:
    arguments = ["--epsilon", epsilon, "--delta", delta, "--records-per-owner", records]
    (check_number if quiet else check)("group", *arguments)


@pytest.mark.parametrize("command", ["epsilon", "calibrate", "curve", "pair", "group"])
def test_nothing_given(command: str) -> None:
    assert check(command).code == 2
