"""The release card: its schema, every version of it, and what it may not contradict."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from insular.errors import EvidenceError, InvalidArgumentError
from insular.evidence import encode, encode_json
from insular.evidence.card import ReleaseCard, missing_facts, read_card, schema_text
from insular.evidence.card.schema import field_docstrings, generated_text

GOLDEN = Path(__file__).parent / "golden"
TEXT = (GOLDEN / "card-1.json").read_text(encoding="utf-8")
CARD = read_card(TEXT)
SCHEMA = json.loads(schema_text())


def replaced(card: ReleaseCard, **parts: dict[str, Any]) -> dict[str, Any]:
    """The changes as fields: each named part with some of its own fields changed."""
    return {
        name: dataclasses.replace(getattr(card, name), **changes) for name, changes in parts.items()
    }


def changed(**changes: Any) -> str:
    """The golden card's JSON with top-level fields changed."""
    return json.dumps(json.loads(TEXT) | changes)


def test_a_card_of_version_1_still_loads_and_is_written_as_it_was():
    assert encode(CARD) == TEXT
    assert CARD.schema_version == 1 and CARD.claim == "holds" and CARD.exit_code == 0
    assert str(CARD.ledger.committed_epsilon) == "1.98764"  # type: ignore[union-attr]


def test_the_shipped_schema_is_what_the_docstrings_give():
    assert schema_text() == generated_text(), (
        'run: python -c "from insular.evidence.card import schema; schema.write_schema()"'
    )


def test_the_schema_is_one_and_describes_every_field():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    objects = [SCHEMA, *SCHEMA["$defs"].values()]
    assert len(objects) == 14
    for found in objects:
        assert found["additionalProperties"] is False
        assert found["required"] == list(found["properties"])
        assert all(field["description"].endswith(".") for field in found["properties"].values())


def test_a_field_without_a_docstring_is_noticed():
    assert set(field_docstrings(ReleaseCard)) == {f.name for f in dataclasses.fields(ReleaseCard)}


def test_a_card_is_valid_under_its_schema_also_with_an_infinite_epsilon():
    jsonschema.validate(encode_json(CARD), SCHEMA)
    parts = replaced(CARD, privacy_loss={"epsilon": float("inf")})
    content = encode_json(dataclasses.replace(CARD, **parts))
    assert content["privacy_loss"]["epsilon"] == "Infinity"
    jsonschema.validate(content, SCHEMA)


@pytest.mark.parametrize(
    "changes",
    [{"extra": 1}, {"claim": "true"}, {"schema_version": 2}, {"released": None}, {"basic": {}}],
)
def test_schema_and_reader_refuse_the_same(changes):
    content = json.loads(changed(**changes))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(content, SCHEMA)
    with pytest.raises(EvidenceError):
        read_card(json.dumps(content))


def test_a_binary_float_is_no_amount_of_the_ledger():
    ledger = json.loads(TEXT)["ledger"] | {"committed_epsilon": 1.98764}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(json.loads(changed(ledger=ledger)), SCHEMA)
    with pytest.raises(EvidenceError, match=r"committed_epsilon must be a decimal as text"):
        read_card(changed(ledger=ledger))


def from_version_0(content: dict[str, Any]) -> dict[str, Any]:
    """The upgrade from a layout that never was: other names, and facts that it did not have."""
    loss = dict(content["privacy_loss"])
    loss["privacy_unit"] = loss.pop("unit")
    return content | {
        "privacy_loss": loss,
        "lower_bounds": None,
        "unprotected_quantities": [],
        "missing": ["isolation.n_comparisons", "isolation.largest_movement",
                    "isolation.sensitivity_ratio", "lower_bounds"],
    }  # fmt: skip


def test_an_older_card_goes_through_its_upgrade():
    old = (GOLDEN / "card-0.json").read_text(encoding="utf-8")
    card = read_card(old, upgrades={0: from_version_0})
    assert card == dataclasses.replace(CARD, unprotected_quantities=())


def test_an_older_card_without_an_upgrade_is_refused():
    old = (GOLDEN / "card-0.json").read_text(encoding="utf-8")
    with pytest.raises(EvidenceError, match=r"c\.json has card version 0, which no insular reads"):
        read_card(old, source="c.json")


def test_an_unknown_field_does_not_slip_through_an_upgrade():
    old = json.loads((GOLDEN / "card-0.json").read_text(encoding="utf-8")) | {"surprise": 1}
    with pytest.raises(EvidenceError, match="surprise is not a known field"):
        read_card(json.dumps(old), upgrades={0: from_version_0})


def test_upgrades_are_chained(monkeypatch):
    monkeypatch.setattr("insular.evidence.card.upgrades.SCHEMA_VERSION", 3)
    seen = []

    def step(content: dict[str, Any]) -> dict[str, Any]:
        seen.append(content["schema_version"])
        return content

    with pytest.raises(EvidenceError, match="schema_version must be 1"):  # no layout 3 yet
        read_card(TEXT, upgrades={1: step, 2: step})
    assert seen == [1, 2]


def test_a_part_of_an_older_card_is_refused_in_one_line():
    with pytest.raises(EvidenceError, match=r"card\.json is not a whole card of version 0\.$"):
        read_card('{"schema_version": 0}', upgrades={0: from_version_0})


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (changed(schema_version=2), "has card version 2, and this insular reads up to 1; update"),
        (changed(schema_version=2, extra=1), "reads up to 1; update insular."),
        (changed(schema_version=True), "is no release card: it has no schema_version."),
        (changed(schema_version="1"), "is no release card"),
        (changed(schema_version=-1), "is no release card"),
        ("[]", "is no release card"),
        ("{", "is not JSON"),
        (b"\xff", "is not UTF-8 text."),
        (changed(extra=1), "extra is not a known field."),
        (changed(missing=[]), "missing must name exactly the facts that are null."),
        (changed(headline="Coupled", isolation=json.loads(TEXT)["isolation"] | {
            "verdict": "coupled"}), "headline must start with “Coupled stack”."),
    ],
)  # fmt: skip
def test_refuses_what_is_no_card(text, part):
    with pytest.raises(EvidenceError) as caught:
        read_card(text)
    assert part in str(caught.value) and "\n" not in str(caught.value)


WRONG = [
    ({"isolation": {"verdict": "coupled"}}, "Coupled stack"),
    ({"implementation": {"n_differences": 1}}, "Not what was planned"),
    ({"implementation": {"training_happened": False}}, "Training did not happen as stated"),
    ({"implementation": {"noise_source": "seeded"}}, "Noise that protects nothing"),
    (
        {
            "isolation": {"verdict": "coupled"},
            "implementation": {"n_differences": 2, "training_happened": False, "influence": 7.0},
        },
        "Coupled stack, not what was planned, training did not happen as stated",
    ),
]


@pytest.mark.parametrize(("parts", "words"), WRONG)
def test_what_speaks_against_a_card_stands_first_and_it_does_not_hold(parts, words):
    fields = replaced(CARD, **parts)
    with pytest.raises(InvalidArgumentError, match=f"headline must start with “{words}”"):
        dataclasses.replace(CARD, **fields)
    with pytest.raises(InvalidArgumentError, match="claim must not be “holds”"):
        dataclasses.replace(CARD, headline=f"{words}: so.", **fields)
    card = dataclasses.replace(CARD, headline=f"{words}: so.", claim="does not hold", **fields)
    assert card.exit_code == 1
    first = next(iter(json.loads(encode(card)).items()))
    assert first == ("headline", f"{words}: so.")


def test_a_coupled_stack_holds_only_where_the_noise_covers_it():
    fields = replaced(CARD, isolation={"verdict": "coupled"}, implementation={"influence": 15.0})
    card = dataclasses.replace(CARD, headline="Coupled stack, accepted.", **fields)
    assert card.claim == "holds" and card.warning == "Coupled stack"


def test_missing_names_exactly_what_is_null():
    assert missing_facts(CARD) == CARD.missing
    basic = dataclasses.replace(CARD.basic, intended_use=None)
    more = ("basic.intended_use", *CARD.missing)
    card = dataclasses.replace(CARD, basic=basic, missing=more)
    assert missing_facts(card) == more == read_card(encode(card)).missing
    with pytest.raises(InvalidArgumentError, match="missing must name exactly"):
        dataclasses.replace(CARD, basic=basic)
    assert missing_facts(None, at="ledger") == ("ledger",)
    assert missing_facts(((CARD.basic,), basic), at="x") == ("x[1].intended_use",)
