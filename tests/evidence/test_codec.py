"""The codec: what is written is what will be read, and nothing else is read."""

import json
import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given

from insular.errors import EvidenceError
from insular.evidence import decode, encode, encode_json

from .samples import VERDICT, Distance, Verdict, same_bits, verdicts


def reading(cls, **changes):
    content = encode_json(VERDICT) | changes
    return decode(cls, json.dumps(content), source="v.json")


def test_worked_example():
    distance = Distance(value=math.inf, axis="shape")
    assert encode(distance) == (
        '{\n  "value": "Infinity",\n  "axis": "shape",\n  "record": null\n}\n'
    )
    assert decode(Distance, encode(distance)) == distance


@given(verdicts)
def test_reads_back_what_was_written_bit_for_bit(verdict):
    text = encode(verdict)
    back = decode(Verdict, text)
    assert same_bits(back, verdict)
    assert encode(back) == text
    json.loads(text, parse_constant=pytest.fail)


def test_keys_stand_in_field_order_and_text_ends_in_newline():
    text = encode(VERDICT)
    assert list(json.loads(text)) == list(Verdict.__dataclass_fields__)
    assert text.endswith("}\n") and not text.endswith("\n\n")


def test_integer_is_read_where_a_float_is_declared():
    assert same_bits(reading(Verdict, floor=3).floor, 3.0)
    assert decode(Distance, encode(Distance(value=2, axis="shape"))).value == 2.0


def test_time_is_written_in_utc():
    east = datetime(2026, 1, 2, 5, 4, 5, tzinfo=timezone(timedelta(hours=2)))
    content = encode_json(replace(VERDICT, at_utc=east))
    assert content["at_utc"] == "2026-01-02T03:04:05Z"
    assert reading(Verdict).at_utc.tzinfo is UTC


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"extra": 1}, "extra is not a known field."),
        ({"rows": [{"value": 1, "axis": "shape", "x": 1}]}, "rows[0].x is not a known field."),
        ({"rows": [{"axis": "shape"}]}, "rows[0].value is missing."),
        ({"n": "1"}, "n must be a valid integer."),
        ({"n": 1.0}, "n must be a valid integer."),
        ({"n": True}, "n must be a valid integer."),
        ({"isolated": 1}, "isolated must be a valid boolean."),
        ({"floor": "1.5"}, "floor must be a valid number."),
        ({"floor": "inf"}, "floor must be a valid number."),
        ({"floor": True}, "floor must be a valid number."),
        ({"floor": None}, "floor must be a valid number."),
        ({"floor": 10**400}, "floor must fit a 64-bit float."),
        ({"name": 5}, "name must be a valid string."),
        ({"name": None}, "name must be a valid string."),
        ({"worst": {"value": 0, "axis": "time"}}, "worst.axis must be 'content' or 'shape'."),
        ({"worst": {"value": -7, "axis": "shape"}}, "worst: value must not be -7."),
        ({"pair": [1]}, "pair[1] is missing."),
        ({"floors": {"bf16": "x"}}, "floors.bf16 must be a valid number."),
        ({"floors": {"a\nb": "x"}}, "floors.a?b must be a valid number."),
        ({"rows": {"value": 1}}, "rows must be a valid array."),
        ({"free": [1]}, "free must be one of the types that the field allows."),
        ({"at_utc": 5}, "at_utc must be an ISO-8601 time in UTC, such as 2026-01-02T03:04:05Z."),
        ({"at_utc": "2026-01-02"}, "at_utc must be an ISO-8601 time in UTC, such as"),
        ({"at_utc": "2026-01-02T03:04:05+02:00"}, "at_utc must be an ISO-8601 time in UTC"),
        ({"at_utc": "2026-13-02T03:04:05Z"}, "at_utc: month must be in 1..12."),
        ({"n": "1", "name": 2}, "name must be a valid string (the first of 2 problems)."),
    ],
)
def test_refuses_what_is_not_exactly_as_declared(changes, line):
    with pytest.raises(EvidenceError) as caught:
        reading(Verdict, **changes)
    assert str(caught.value).startswith(f"v.json: {line}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "v.json is not JSON: Expecting value at line 1 column 1."),
        ('{"value": 1,', "v.json is not JSON: "),
        ("[]", "v.json: Distance must be"),
        ('{"value": NaN, "axis": "shape"}', 'v.json: NaN must be written as the string "NaN".'),
        ('{"value": 1e999, "axis": "shape"}', "v.json: value must fit a 64-bit float."),
        ('{"value": 1, "value": 2, "axis": "shape"}', "v.json: a key is repeated in one object."),
        ("[" * 200_000, "v.json is not JSON: too deep"),
        ("9" * 10_000, "v.json is not JSON: too deep, or a number too long."),
        (b"\xff\xfe", "v.json is not UTF-8 text."),
    ],
)
def test_refuses_text_that_is_not_strict_json(text, line):
    with pytest.raises(EvidenceError) as caught:
        decode(Distance, text, source="v.json")
    assert str(caught.value).startswith(line)


def test_error_never_quotes_a_value():
    secret = "the patient said"
    with pytest.raises(EvidenceError) as caught:
        reading(Verdict, n=secret, floor=secret, rows=[secret], worst=secret)
    assert secret not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"n": 1.5}, "n must be a valid integer"),
        ({"name": None}, "name must be a valid string"),
        ({"rows": []}, "use tuples instead of lists"),
        ({"free": "NaN"}, 'keep the text "NaN"'),
        ({"floor": np.float32(1)}, "Verdict.floor: float32 has no form in evidence"),
        ({"n": np.int64(1)}, "Verdict.n: int64 has no form in evidence"),
        ({"at_utc": datetime(2026, 1, 2)}, "Verdict.at_utc: datetime without a time zone"),
        ({"floors": {1: 1.0}}, "Verdict.floors: dict has no form in evidence"),
        ({"rows": ({1},)}, "Verdict.rows[0]: set has no form in evidence"),
        ({"name": "\ud800"}, "Verdict"),
    ],
)
def test_refuses_to_write_what_it_would_not_read_back(changes, part):
    with pytest.raises(EvidenceError) as caught:
        encode(replace(VERDICT, **changes))
    assert part in str(caught.value)


def test_numpy_float64_is_a_float():
    back = decode(Verdict, encode(replace(VERDICT, floor=np.float64("nan"))))
    assert type(back.floor) is float and math.isnan(back.floor)


@pytest.mark.parametrize("value", [1, "text", {"a": 1}, Verdict])
def test_refuses_to_write_what_is_no_dataclass_instance(value):
    with pytest.raises(EvidenceError, match="evidence must be a dataclass instance, got"):
        encode(value)
