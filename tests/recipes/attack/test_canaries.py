"""Planting: what is written, what is refused, and where secrets stand."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from insular.errors import EvidenceError, InvalidArgumentError, RecordError
from insular.evidence import RunStore
from insular.recipes.attack.extraction.canaries import plant_canaries, read_plan
from insular.recipes.attack.extraction.canaries_spec import CanarySpec, without_secrets
from insular.records import read_corpus
from recipes.secret_models import TEMPLATE, notes


@pytest.fixture
def spec(tmp_path: Path) -> CanarySpec:
    return CanarySpec(
        text=str(notes(tmp_path / "notes.jsonl")),
        secrets=16,
        repeat=(1, 4),
        template=TEMPLATE,
        id_field="id",
        owner_field="user",
        seed=5,
    )


def test_rows_are_kept_and_secrets_stand_as_often_as_planned(spec: CanarySpec, tmp_path: Path):
    plan = plant_canaries(spec, tmp_path / "out", command=())
    before = read_corpus(spec.text, id_field="id", owner_field="user")
    after = read_corpus(tmp_path / "out" / "train.jsonl", id_field="id", owner_field="user")
    own = [record for record in after.records if not record.id.startswith("canary-")]
    assert own == list(before.records)
    assert after.n_records == plan.n_rows == before.n_records + plan.n_planted_rows
    owners = Counter(r.owner for r in after.records if r.id.startswith("canary-"))
    for secret in plan.secrets:
        rows = [record for record in after.records if secret.secret in record.text.split()]
        assert len(rows) == secret.repeats == owners[secret.id]
        assert {record.text for record in rows} <= {f"pin {secret.name} {secret.secret}"}
        assert tuple(sorted(r.id for r in rows)) == tuple(sorted(plan.row_ids(secret)))
    assert Counter(s.repeats for s in plan.secrets) == {0: 8, 1: 4, 4: 4}
    places = [i for i, r in enumerate(after.records) if r.id.startswith("canary-")]
    assert min(places) < 0.3 * plan.n_rows and max(places) > 0.7 * plan.n_rows


def test_the_same_settings_give_the_same_files(spec: CanarySpec, tmp_path: Path):
    for name in ("one", "two"):
        plant_canaries(spec, tmp_path / name, command=())
    for file in ("train.jsonl", "canaries.json"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    other = plant_canaries(replace(spec, seed=6), tmp_path / "other", command=())
    assert other.secrets != read_plan(tmp_path / "one")[1].secrets


def test_secrets_stand_in_plan_and_text_alone(spec: CanarySpec, tmp_path: Path):
    plan = plant_canaries(spec, tmp_path / "out", command=())
    for file in ("manifest.json", "run.toml"):
        content = (tmp_path / "out" / file).read_text()
        assert not any(secret.name in content for secret in plan.secrets)
    shown = repr(without_secrets(plan)) + repr(plan)
    assert not any(secret.name in shown for secret in plan.secrets)
    assert [len(count.ids) for count in without_secrets(plan).counts] == [8, 4, 4]


def test_without_fields_ids_are_positions_and_rows_have_no_owner(tmp_path: Path):
    (tmp_path / "t.txt").write_text("one\ntwo\n")
    spec = CanarySpec(text=str(tmp_path / "t.txt"), secrets=2, repeat=(2,), template="p {3 digits}")
    plan = plant_canaries(spec, tmp_path / "out", command=())
    rows = [
        json.loads(line) for line in (tmp_path / "out" / "train.jsonl").read_text().split("\n")[:-1]
    ]
    assert len(rows) == 4 and all(set(row) == {"id", "text"} for row in rows)
    assert {row["id"] for row in rows} >= {"t:1", "t:2"} and plan.owner_field == ""


def test_a_text_that_was_planted_before_is_refused(spec: CanarySpec, tmp_path: Path):
    plant_canaries(spec, tmp_path / "out", command=())
    again = replace(spec, text=str(tmp_path / "out" / "train.jsonl"))
    with pytest.raises(RecordError, match="no id or owner that a planted row needs"):
        plant_canaries(again, tmp_path / "again", command=())
    assert not (tmp_path / "again").exists()


def test_a_secret_that_the_text_holds_is_refused_by_id(spec: CanarySpec, tmp_path: Path):
    plan = plant_canaries(spec, tmp_path / "out", command=())
    control = next(secret for secret in plan.secrets if not secret.repeats)
    text = tmp_path / "known.jsonl"
    row = {"id": "a", "user": "b", "text": f"see pin {control.name} {control.secret}"}
    text.write_text(json.dumps(row) + "\n")
    with pytest.raises(InvalidArgumentError, match=control.id) as caught:
        plant_canaries(replace(spec, text=str(text)), tmp_path / "no", command=())
    assert control.secret not in str(caught.value)


def test_a_changed_plan_or_another_folder_is_refused(spec: CanarySpec, tmp_path: Path):
    plant_canaries(spec, tmp_path / "out", command=())
    file = tmp_path / "out" / "train.jsonl"
    file.write_text(file.read_text() + "{}\n")
    with pytest.raises(EvidenceError, match="was changed"):
        read_plan(tmp_path / "out")
    with pytest.raises(EvidenceError, match="is not a run folder"):
        read_plan(tmp_path)
    assert RunStore.open(tmp_path / "out").manifest.kind == "attack.canaries"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"secrets": 1}, "secrets must be an integer >= 2"),
        ({"repeat": ()}, "repeat must be an integer >= 1"),
        ({"repeat": (0, 1)}, "repeat must be an integer >= 1"),
        ({"template": "none"}, "one secret such as"),
        ({"owner_field": "text"}, "must be different names"),
        ({"seed": -1}, "seed must be an integer >= 0"),
    ],
)
def test_bad_settings_are_refused(change: dict[str, object], message: str):
    with pytest.raises(InvalidArgumentError, match=message):
        CanarySpec(text="x", **change)  # type: ignore[arg-type]
