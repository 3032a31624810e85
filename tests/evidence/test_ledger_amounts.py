"""Amounts: exact decimals, whatever is added and in whatever order."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from insular.errors import InvalidArgumentError
from insular.evidence.ledger import Amount
from insular.evidence.ledger.amounts import ZERO, exact, gap, shown

decimals = st.builds(
    lambda digits, places: Decimal(digits).scaleb(-places),
    st.integers(0, 10**12 - 1),
    st.integers(0, 40),
)
deltas = st.builds(
    lambda digits, places: Decimal(digits).scaleb(-places),
    st.integers(0, 10**9 - 1),
    st.integers(9, 40),
)
amounts = st.builds(Amount.of, decimals, deltas)


@given(st.lists(amounts, max_size=60))
def test_sums_are_exact_in_any_order(found):
    forward, backward = ZERO, ZERO
    for amount in found:
        forward = forward.plus(amount)
    for amount in reversed(found):
        backward = backward.plus(amount)
    assert forward == backward
    assert Fraction(forward.epsilon) == sum((Fraction(a.epsilon) for a in found), Fraction(0))
    assert Fraction(forward.delta) == sum((Fraction(a.delta) for a in found), Fraction(0))
    for amount in found:
        forward = forward.minus(amount)
    assert forward == ZERO


@given(amounts)
def test_text_reads_back_as_the_same_number(amount):
    for value in (amount.epsilon, amount.delta):
        assert exact("x", format(value, "f")) == value
        assert exact("x", shown(value)) == value


def test_ten_tenths_are_one():
    total = ZERO
    for _ in range(10):
        total = total.plus(Amount.of("0.1", "1e-7"))
    assert total == Amount.of("1", "1e-6")
    assert sum([0.1] * 10) != 1.0


@pytest.mark.parametrize(
    ("value", "text"),
    [("3.0", "3.0"), ("0", "0"), ("0.000", "0"), ("1e-6", "1e-6"), ("0.0000250", "2.5e-5"),
     ("1E+2", "100"), ("0.001", "0.001"), ("12.50", "12.50")],
)  # fmt: skip
def test_numbers_are_shown_as_people_write_them(value, text):
    assert shown(exact("x", value)) == text


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        (0.1, "must be exact"),
        (float("nan"), "must be exact"),
        (True, "must be a decimal"),
        (None, "must be a decimal"),
        ("NaN", "finite decimal >= 0"),
        ("Infinity", "finite decimal >= 0"),
        (Decimal("Infinity"), "finite decimal >= 0"),
        (Decimal("sNaN"), "finite decimal >= 0"),
        ("-1", "finite decimal >= 0"),
        (-1, "finite decimal >= 0"),
        ("", "finite decimal >= 0"),
        (" 1", "finite decimal >= 0"),
        ("1_0", "finite decimal >= 0"),
        ("١", "finite decimal >= 0"),
        ("1" * 5000, "5000 characters"),
        ("1e12", "at most 12 digits before"),
        ("1e-41", "40 after it"),
        ("1e999", "at most 12 digits before"),
        ("0." + "0" * 40 + "1", "40 after it"),
    ],
)
def test_what_is_not_an_exact_number_is_refused(value, rule):
    with pytest.raises(InvalidArgumentError) as caught:
        Amount.of(value, "0")
    assert rule in str(caught.value) and "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


def test_delta_is_below_1():
    assert Amount.of("0", "0." + "9" * 40).delta < 1
    with pytest.raises(InvalidArgumentError, match="delta must be below 1, got delta=1"):
        Amount.of("0", 1)


def test_a_difference_below_zero_is_refused_and_never_rounded():
    with pytest.raises(InvalidArgumentError):
        Amount.of("1", "0").minus(Amount.of("1.1", "0"))
    assert gap(Decimal("1e11"), Decimal("1e-40")) == Decimal("9" * 11 + "." + "9" * 40)
