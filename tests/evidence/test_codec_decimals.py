"""Exact decimals in evidence: text in plain digits, never a binary float."""

import json
from dataclasses import dataclass
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from insular.errors import EvidenceError
from insular.evidence import decode, encode, encode_json, from_toml, to_toml


@dataclass(frozen=True, kw_only=True)
class Spent:
    epsilon: Decimal
    delta: Decimal | None = None


def test_worked_example():
    spent = Spent(epsilon=Decimal("1.20"), delta=Decimal("1E-6"))
    assert encode_json(spent) == {"epsilon": "1.20", "delta": "0.000001"}
    assert decode(Spent, encode(spent)) == spent
    assert from_toml(Spent, to_toml(spent)) == spent
    assert encode_json(Spent(epsilon=Decimal("1E+3"))) == {"epsilon": "1000", "delta": None}


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**40), max_value=10**40))
def test_reads_back_the_exact_value(value):
    if abs(value.adjusted()) <= 60:
        back = decode(Spent, encode(Spent(epsilon=value))).epsilon
        assert back == value and type(back) is Decimal
        assert encode(Spent(epsilon=back)) == encode(Spent(epsilon=value))


def test_a_tenth_is_a_tenth():
    text = encode(Spent(epsilon=Decimal("0.1")))
    assert decode(Spent, text).epsilon * 10 == 1
    assert "0.1000000000000000055" not in text


@pytest.mark.parametrize(
    "value",
    [0.1, 1, True, "1e-6", "NaN", "Infinity", "-Infinity", "", " 1", "1.", ".5", "+1", "01", "1_0",
     "１", "0x1", "1" * 201, [1]],
)  # fmt: skip
def test_refuses_all_but_plain_digits_in_quotes(value):
    with pytest.raises(EvidenceError, match="epsilon must be a decimal as text in plain digits"):
        decode(Spent, json.dumps({"epsilon": value}))


@pytest.mark.parametrize("value", ["NaN", "sNaN", "Infinity", "-Infinity", "1E+400", "1E-400"])
def test_refuses_to_write_what_is_not_finite_or_too_long(value):
    with pytest.raises(EvidenceError, match=r"Spent\.epsilon: a decimal must be finite"):
        encode(Spent(epsilon=Decimal(value)))


def test_refuses_to_write_another_type_where_a_decimal_is_declared():
    with pytest.raises(EvidenceError, match="epsilon must be a decimal"):
        encode(Spent(epsilon=0.1))  # type: ignore[arg-type]
    with pytest.raises(EvidenceError, match="epsilon must be a decimal"):
        from_toml(Spent, "epsilon = 0.1\n")
