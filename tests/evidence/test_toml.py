"""TOML: the file that repeats a run is read as strictly as evidence."""

import math
import tomllib
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from insular.errors import EvidenceError
from insular.evidence import from_toml, to_toml

from .samples import VERDICT, Distance, Verdict, numbers, same_bits, texts, verdicts


@dataclass(frozen=True, kw_only=True)
class Lora:
    rank: int = 8
    targets: tuple[str, ...] = ("q_proj", "v_proj")


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    model: str
    clip_norm: float = 1.0
    batch: int | None = None
    left: bool = False
    lora: Lora = field(default_factory=Lora)
    note: str | None = "none"


def test_worked_example():
    spec = RunSpec(model="smollm2", batch=8, note='a "b"\n\x7f\\')
    assert to_toml(spec) == (
        'model = "smollm2"\n'
        "clip_norm = 1.0\n"
        "batch = 8\n"
        "left = false\n"
        'note = "a \\"b\\"\\n\\u007f\\\\"\n'
        "\n"
        "[lora]\n"
        "rank = 8\n"
        'targets = ["q_proj", "v_proj"]\n'
    )
    assert from_toml(RunSpec, to_toml(spec)) == spec


@given(verdicts)
def test_reads_back_what_was_written_bit_for_bit(verdict):
    assert same_bits(from_toml(Verdict, to_toml(verdict)), verdict)


leaves = texts | st.integers() | numbers | st.booleans()
trees = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(texts, trees, max_size=4))
def test_python_reads_any_dictionary_back(content):
    back = tomllib.loads(to_toml(content))
    assert normal(back) == normal(content)


def normal(tree):
    if isinstance(tree, dict):
        return {key: normal(item) for key, item in sorted(tree.items())}
    return [normal(item) for item in tree] if isinstance(tree, list) else (type(tree), repr(tree))


def test_none_is_left_out():
    assert "batch" not in to_toml(RunSpec(model="m"))
    assert to_toml({"a": None, "b": {"c": None}}) == "[b]\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('model = "m"\nclip = 1', "run.toml: clip is not a known field."),
        ('model = "m"\n[lora]\nrnk = 4', "run.toml: lora.rnk is not a known field."),
        ('model = "m"\n[lora]\nrank = "4"', "run.toml: lora.rank must be a valid integer."),
        ('model = "m"\n[lora]\nrank = 4.0', "run.toml: lora.rank must be a valid integer."),
        ('model = "m"\nleft = 1', "run.toml: left must be a valid boolean."),
        ("clip_norm = 1", "run.toml: model is missing."),
        ("model = nan", "run.toml: model must be a text in quotes."),
        ("model = 2026-01-02T03:04:05Z", "run.toml: model must be a text in quotes."),
        ("model = 2026-01-02", "run.toml.model: date has no form in evidence"),
        ('model = "m"\n[lora]\ntargets = [inf]', "run.toml: lora.targets[0] must be a text in"),
        ("model = ", "run.toml is not TOML: Invalid value (at end of document)."),
        ('model = "m"\nmodel = "n"', "run.toml is not TOML: Cannot overwrite a value"),
    ],
)
def test_refuses_what_is_not_exactly_as_declared(text, line):
    with pytest.raises(EvidenceError) as caught:
        from_toml(RunSpec, text)
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)


def test_integer_and_special_floats_are_read_where_a_float_is_declared():
    assert from_toml(RunSpec, 'model = "m"\nclip_norm = 2').clip_norm == 2.0
    assert math.isnan(from_toml(RunSpec, 'model = "m"\nclip_norm = nan').clip_norm)


def test_time_may_be_written_as_toml_does():
    text = to_toml(VERDICT).replace('"2026-01-02T03:04:05Z"', "2026-01-02T03:04:05Z")
    assert from_toml(Verdict, text) == VERDICT


@pytest.mark.parametrize(
    ("value", "part"),
    [
        (RunSpec(model="m", note=None), "a field may be None only if that is its default"),
        (RunSpec(model="m", lora=Lora(targets=["q"])), "would not be read back"),
        (RunSpec(model=3), "RunSpec: model must be a valid string"),
        ({"a": [1, None]}, "dict.a: a list in TOML cannot hold None"),
        ({"a": {1}}, "dict.a: set has no form in evidence"),
        ({"a": "\ud800"}, "cannot hold half of a surrogate pair"),
        ([1], "a TOML file must be a dataclass or a dictionary, got list"),
        (Distance, "type has no form in evidence"),
    ],
)
def test_refuses_to_write_what_would_not_be_read_back(value, part):
    with pytest.raises(EvidenceError) as caught:
        to_toml(value)
    assert part in str(caught.value)
