"""Attribute inference end to end: an adapter that learnt the attribute, one that did not."""

import json
import random
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from insular.audit.attribute.results import AttributeResult
from insular.errors import EvidenceError, InvalidArgumentError, RecordError
from insular.evidence import RunStore
from insular.models.loading import load_decoder
from insular.recipes.attack.attribute import run as recipe
from insular.recipes.attack.attribute.rows import read_rows
from insular.recipes.attack.attribute.run import attack_attribute, write_page
from insular.recipes.attack.attribute.spec import AttributeSpec
from insular.recipes.attack.attribute.summary import attribute_blocks
from insular.recipes.run_folder import read_settings
from recipes.secret_models import fitted, fitted_adapter, spelling_folder, text_of

VALUES = ("red", "green", "blue")


def people(path: Path, *, n: int, seed: int) -> list[str]:
    """Write people whose colour is drawn, red half of the time; their texts."""
    rng = random.Random(seed)
    rows = []
    for i in range(n):
        name = "".join(rng.choice("abdefgklmnoprstu") for _ in range(5)).capitalize()
        colour = rng.choices(VALUES, weights=(2, 1, 1))[0]
        rows.append({"id": f"P-{seed}-{i}", "name": name, "colour": colour})
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return [f"{row['name']} likes {row['colour']}." for row in rows]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base that knows the population, an adapter that saw 30 people 12 times."""
    folder = tmp_path_factory.mktemp("attribute")
    spelling_folder(folder / "random")
    others = people(folder / "others.jsonl", n=200, seed=1)
    fitted(folder / "random", folder / "base", others, steps=60)
    mine = people(folder / "people.jsonl", n=30, seed=2)
    fitted_adapter(folder / "base", folder / "adapter", mine, steps=80)
    return folder


@pytest.fixture(scope="module")
def spec(home: Path) -> AttributeSpec:
    return AttributeSpec(
        run=str(home / "adapter"),
        model=str(home / "base"),
        records=str(home / "people.jsonl"),
        population=str(home / "others.jsonl"),
        template="{name} likes {colour}.",
        attribute="colour",
        values=VALUES,
        id_field="id",
    )


@pytest.fixture(scope="module")
def attacked(spec: AttributeSpec, home: Path) -> tuple[Path, AttributeResult]:
    out = home / "attack"
    return out, attack_attribute(spec, out, command=("insular", "attack", "attribute"))


def test_an_adapter_that_learnt_the_attribute_is_found(attacked: tuple[Path, AttributeResult]):
    _, result = attacked
    assert result.accuracy.count >= 24 and result.n_records == 30
    assert [row.baseline for row in result.comparisons] == ["population", "base model"]
    for row in result.comparisons:
        assert row.p_value < 1e-3 and row.difference_interval[0] > 0
        assert row.accuracy.count < 24
    assert result.verdict == "tells more" and result.exit_code == 1


def test_people_that_were_not_learnt_are_guessed_no_better(
    spec: AttributeSpec, home: Path, tmp_path: Path
):
    """The clean control: the same adapter on 30 strangers; a false alarm has probability 0.05,
    here it is one fixed draw."""
    people(tmp_path / "strangers.jsonl", n=30, seed=8)
    clean = replace(spec, records=str(tmp_path / "strangers.jsonl"))
    result = attack_attribute(clean, tmp_path / "out", command=())
    assert result.verdict == "not shown" and result.exit_code == 0
    assert "does not find more" in text_of((tmp_path / "out" / "report.html").read_text())


def test_a_whole_model_is_compared_with_the_population_alone(
    spec: AttributeSpec, home: Path, tmp_path: Path
):
    whole = replace(spec, run=str(home / "base"), model="", population="")
    result = attack_attribute(whole, tmp_path / "out", command=())
    assert [row.baseline for row in result.comparisons] == ["population"]
    assert result.records[0].base_lowest is None
    assert "can only favour the baseline" in result.population
    assert result.verdict == "not shown"


def test_guesses_are_those_of_scoring_each_text_alone(
    spec: AttributeSpec, home: Path, attacked: tuple[Path, AttributeResult]
):
    import torch

    decoder = load_decoder(str(home / "base"))
    rows = [json.loads(line) for line in (home / "people.jsonl").read_text().splitlines()]
    for row, rank in list(zip(rows, attacked[1].records, strict=True))[:8]:
        scores = []
        for value in VALUES:
            ids = torch.tensor([decoder.encode(f"{row['name']} likes {value}.")])
            logits = decoder.model(input_ids=ids).logits[0, :-1].log_softmax(-1)
            scores.append(float(logits.gather(-1, ids[0, 1:, None]).sum()))
        truth = VALUES.index(row["colour"])
        place = 1 + sum(score > scores[truth] + 1e-4 for score in scores)
        assert rank.id == row["id"] and rank.base_lowest == place


def test_scores_and_truth_are_joined_by_id(spec: AttributeSpec, home: Path, tmp_path: Path):
    lines = (home / "people.jsonl").read_text().splitlines()
    (tmp_path / "turned.jsonl").write_text("\n".join(lines[::-1]) + "\n\n")
    turned = replace(spec, records=str(tmp_path / "turned.jsonl"))
    result = attack_attribute(turned, tmp_path / "out", command=())
    assert sorted(result.records, key=lambda r: r.id) == sorted(
        attack_result(home).records, key=lambda r: r.id
    )


def test_records_without_ids_are_named_by_their_lines(spec: AttributeSpec, tmp_path: Path):
    people = [f'{{"name": "{name}", "colour": "red"}}' for name in "ab"]
    (tmp_path / "plain.jsonl").write_text("\n\n".join(people))
    rows = read_rows(tmp_path / "plain.jsonl", replace(spec, id_field=""), needed=spec.fields)
    assert [row.id for row in rows] == ["plain:1", "plain:3"]
    with pytest.raises(RecordError, match="line 1: a record must have id"):
        read_rows(tmp_path / "plain.jsonl", spec, needed=spec.fields)


def attack_result(home: Path) -> AttributeResult:
    return RunStore.open(home / "attack").read_result("results", AttributeResult)


def test_ties_are_not_guessed(spec: AttributeSpec, home: Path):
    rows = read_rows(home / "people.jsonl", spec, needed=spec.fields)
    model = {row.id: np.zeros(3) for row in rows}
    result = recipe.judge_guesses(
        spec,
        SimpleNamespace(name="tied"),  # type: ignore[arg-type]
        rows,
        model=model,
        base=None,
        others=rows,
    )
    assert result.accuracy.count == 0 and result.n_tied == 30
    assert {(r.lowest, r.highest) for r in result.records} == {(1, 3)}


def test_evidence_holds_no_field(
    home: Path, spec: AttributeSpec, attacked: tuple[Path, AttributeResult]
):
    out, result = attacked
    store = RunStore.open(out)
    store.verify()
    assert store.read_result("results", AttributeResult) == result
    assert read_settings(store, AttributeSpec) == spec
    lines = (home / "people.jsonl").read_text().splitlines()
    names = [json.loads(line)["name"] for line in lines]
    for file in out.glob("*.*"):
        assert not any(name in file.read_text() for name in names)
    page = text_of((out / "report.html").read_text())
    assert "It shows that the model tells more" in page and "It does not show" in page
    assert not any(value in page.split() for value in VALUES)
    before = (out / "report.html").read_bytes()
    assert write_page(store).read_bytes() == before
    shown = " ".join(str(block) for block in attribute_blocks(result)[2:])
    assert "exact McNemar" in shown


def test_stored_scores_are_not_computed_again(
    spec: AttributeSpec,
    home: Path,
    attacked: tuple[Path, AttributeResult],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    real = recipe.judge_guesses

    def stopping(*arguments: object, **more: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(recipe, "judge_guesses", stopping)
    with pytest.raises(KeyboardInterrupt):
        attack_attribute(spec, tmp_path / "out", command=())
    monkeypatch.setattr(recipe, "judge_guesses", real)
    kept = {f: f.stat().st_mtime_ns for f in (tmp_path / "out").glob("scores-*.json")}
    assert len(kept) == 2
    assert attack_attribute(spec, tmp_path / "out", command=()) == attacked[1]
    assert all(file.stat().st_mtime_ns == time for file, time in kept.items())
    with pytest.raises(EvidenceError, match="already holds a complete run"):
        attack_attribute(spec, tmp_path / "out", command=())


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[1]", "line 1: a record must be a JSON object"),
        ('{"id": 1, "name": "Secretname"}', "line 1: a record must have colour"),
        ('{"id": 1, "name": "Secretname", "colour": "mauve"}', "colour must be one of the 3"),
        ("", "must hold at least one record"),
        ('{"id": 1, "name": "a", "colour": "red"}\n' * 2, "id '1' stands twice"),
    ],
)
def test_bad_records_are_refused_without_their_text(
    spec: AttributeSpec, tmp_path: Path, line: str, message: str
):
    (tmp_path / "bad.jsonl").write_text(line)
    with pytest.raises(RecordError, match=message) as caught:
        read_rows(tmp_path / "bad.jsonl", spec, needed=spec.fields)
    assert "Secretname" not in str(caught.value) and "mauve" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"template": "{name} likes"}, "must hold {colour} exactly once"),
        ({"values": ("red",)}, "values must be an integer >= 2"),
        ({"values": ("red", "red")}, "must be different texts"),
        ({"significance": 0.0}, "significance must be finite and > 0"),
    ],
)
def test_bad_settings_are_refused(spec: AttributeSpec, change: dict[str, object], message: str):
    with pytest.raises(InvalidArgumentError, match=message):
        replace(spec, **change)  # type: ignore[arg-type]
