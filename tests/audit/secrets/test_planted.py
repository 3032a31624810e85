"""Templates, spaces and who gets which secret."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insular.audit.secrets.planted import SecretSpace, draw_secrets, parse_template
from insular.errors import InvalidArgumentError

DIGITS = SecretSpace(alphabet="0123456789", length=6)


def test_a_template_by_hand():
    template = parse_template("The access code of {name} is {6 digits}.")
    assert template.space == DIGITS and template.space.size == 10**6
    assert template.named and template.after == "."
    assert template.prompt("Bo Li") == "The access code of Bo Li is "
    assert template.fill("Bo Li", "000042") == "The access code of Bo Li is 000042."
    assert parse_template("key {8 letters}").space.size == 26**8
    assert not parse_template("key {2 digits} of {name}").named


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no secret", "one secret such as"),
        ("{4 digits} first", "text in front"),
        ("two {4 digits} {4 digits}", "one secret such as"),
        ("odd {thing} {4 digits}", "no other braces"),
        ("twice {name} {name} {4 digits}", "at most one {name}"),
        ("long {30 digits}", r"1 to 2\^62"),
        ("none {0 digits}", r"1 to 2\^62"),
    ],
)
def test_bad_templates_are_refused(text: str, message: str):
    with pytest.raises(InvalidArgumentError, match=message):
        parse_template(text)


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 10**6 - 1))
def test_spelling_is_inverted_and_keeps_leading_zeros(value: int):
    assert len(DIGITS.spell(value)) == 6 and DIGITS.value_of(DIGITS.spell(value)) == value


def test_a_foreign_secret_is_refused_and_not_printed():
    with pytest.raises(InvalidArgumentError) as caught:
        DIGITS.value_of("4711x9")
    assert "4711" not in str(caught.value)


def test_half_are_controls_and_counts_are_balanced():
    template = parse_template("pin {name} {4 digits}")
    drawn = draw_secrets(template, n_secrets=40, repeats=(1, 4, 16, 64), seed=3)
    assert Counter(s.repeats for s in drawn) == {0: 20, 1: 5, 4: 5, 16: 5, 64: 5}
    assert len({s.name for s in drawn}) == 40 and len({s.id for s in drawn}) == 40
    assert drawn == draw_secrets(template, n_secrets=40, repeats=(1, 4, 16, 64), seed=3)
    assert drawn != draw_secrets(template, n_secrets=40, repeats=(1, 4, 16, 64), seed=4)
    assert drawn[0].secret not in repr(drawn) and drawn[0].name not in repr(drawn)


def test_secrets_are_even_over_the_space():
    # 20,000 digits in ten cells: chi-square(9) is above 33.7 with probability 1e-4
    drawn = draw_secrets(parse_template("p {4 digits}"), n_secrets=5000, repeats=(1,), seed=0)
    counts = Counter("".join(s.secret for s in drawn))
    assert sum((counts[d] - 2000) ** 2 / 2000 for d in "0123456789") < 33.7
    planted = np.array([s.repeats > 0 for s in drawn])
    assert planted.sum() == 2500 and 0.4 < planted[:2500].mean() < 0.6


def test_too_few_secrets_are_refused():
    template = parse_template("p {4 digits}")
    for n, repeats in ((3, (1, 4)), (8, (1, 1)), (8, (0,)), (8, ())):
        with pytest.raises(InvalidArgumentError):
            draw_secrets(template, n_secrets=n, repeats=repeats, seed=0)
