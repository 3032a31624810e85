"""A tiny sweep from text to evidence: numbers, resuming, refusals, private text."""

import re
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from insular.errors import EvidenceError, InvalidArgumentError, RecordError
from insular.evidence import RunStore, from_toml
from insular.recipes.hidden.bench import Bench
from insular.recipes.hidden.spec import SweepSpec
from insular.recipes.hidden.sweep import cells as hidden_cells
from insular.recipes.hidden.sweep.results import SweepCell, SweepResult
from insular.recipes.hidden.sweep.run import sweep_hidden, write_page
from insular.recipes.pages import write_page_of
from recipes.hidden_samples import SECRET, tiny_sweep

Run = tuple[Path, SweepResult]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sweep")


@pytest.fixture(scope="module")
def spec(folder: Path) -> SweepSpec:
    return tiny_sweep(folder, layers=(0, 1))


@pytest.fixture(scope="module")
def swept(spec: SweepSpec, folder: Path) -> Run:
    out = folder / "run"
    return out, sweep_hidden(spec, out, command=("insular", "hidden", "sweep"))


def numbers(result: SweepResult) -> list[SweepCell]:
    """Cells without their times."""
    return [replace(cell, seconds=0.0) for cell in result.cells]


def test_evidence_is_complete_and_strict(swept: Run, spec: SweepSpec) -> None:
    out, result = swept
    store = RunStore.open(out)
    store.verify()
    assert store.manifest.kind == "hidden.sweep" and store.manifest.status == "complete"
    assert store.read_result("results", SweepResult) == result
    assert from_toml(SweepSpec, (out / "run.toml").read_text()) == spec
    assert [fact.name for fact in store.manifest.inputs] == ["text", "model"]
    assert [layer.layer for layer in result.layers] == [0, 1]
    assert len(result.cells) == 2 * 3 * 2
    assert (result.n_candidates, result.n_queries, result.n_evaluation) == (60, 30, 20)
    states = RunStore.open(out / "states")
    assert states.manifest.kind == "hidden.states" and states.manifest.status == "complete"


def test_mechanisms_are_compared_at_equal_measured_kl_never_at_equal_noise(swept: Run) -> None:
    result = swept[1]
    compared = [winner for winner in result.winners if winner.matched == "kl"]
    assert [(winner.layer, winner.value) for winner in compared] == [
        (layer, kl) for layer in (0, 1) for kl in (0.003, 0.03)
    ]
    for winner in compared:
        here = [
            cell
            for cell in result.attacked
            if (cell.layer, cell.target_kl_nats) == (winner.layer, winner.value)
        ]
        assert winner.n_compared == len(here) >= 2
        for cell in here:
            assert cell.calibrated_kl_nats == pytest.approx(winner.value, rel=0.02)
        assert len({cell.scale for cell in here}) == len(here)


def test_no_prompt_that_shaped_or_scaled_a_release_is_evaluated_on_or_attacked(
    swept: Run, spec: SweepSpec
) -> None:
    bench = Bench(spec, swept[0] / "states")
    queries = bench.at(0).identities[: spec.queries]
    assert len(bench.seen_before) == spec.fit + spec.calibration
    assert not set(bench.seen_before) & set(queries)
    assert bench.evaluation.digests == queries[: spec.evaluation]


def test_layers_say_what_their_states_give_away_unchanged(swept: Run, spec: SweepSpec) -> None:
    for layer in swept[1].layers:
        (clean,) = layer.clean
        assert clean.top_1.value == 1.0 and clean.n_candidates == 60
        assert layer.geometry.rank == spec.rank and layer.geometry.n_gradients == 240
        assert [kl for kl, _ in layer.gain_needed] == list(spec.kl_nats)
        first, second = (gain for _, gain in layer.gain_needed)
        assert first == pytest.approx(10 * second)  # KL 0.003 and 0.03


def test_cells_parquet_has_one_row_a_cell_and_attacker(swept: Run) -> None:
    out, result = swept
    rows = pq.read_table(out / "cells.parquet").to_pylist()
    expected = [(cell, attack) for cell in result.cells for attack in (cell.attacks or (None,))]
    assert (
        len(rows)
        == len(expected)
        == 3 * len(result.attacked) + sum(cell.status != "reached" for cell in result.cells)
    )
    for row, (cell, attack) in zip(rows, expected, strict=True):
        for name in ("layer", "mechanism", "target_kl_nats", "status", "scale", "epsilon"):
            assert row[name] == getattr(cell, name)
        assert row["agreement"] == cell.agreement
        assert row["attacker"] == (attack.attacker if attack else None)
        assert row["top_1"] == (attack.top_1.value if attack else None)
    assert any(row["attacker"] is None for row in rows)


def test_no_file_of_the_run_holds_record_text(swept: Run, spec: SweepSpec) -> None:
    out, _ = swept
    assert SECRET in Path(spec.text).read_text()  # the plant is there to be found
    bench = Bench(spec, Path())
    tokens = [
        separator.join(map(str, record.tokens[2:6]))
        for record in (*bench.prompts.bank, *bench.prompts.fit)
        for separator in (", ", ",", " ")
    ]
    files = [file for file in out.rglob("*") if file.is_file()]
    assert {"report.html", "results.json", "cells.parquet", "manifest.json"} <= {
        file.name for file in files
    }
    for file in files:
        content = file.read_bytes().decode("utf-8", "replace")
        assert SECRET not in content, file
        if file.suffix not in (".safetensors", ".parquet"):
            assert not re.search(r"\bw\d+ w\d+\b", content), file
            assert not any(spelled in content for spelled in tokens), file


def test_the_page_is_made_of_the_evidence_alone(swept: Run) -> None:
    out, _ = swept
    before = (out / "report.html").read_bytes()
    assert write_page_of(out).read_bytes() == before
    assert write_page(RunStore.open(out)).read_bytes() == before


def test_an_interrupted_sweep_goes_on_with_the_same_numbers(
    swept: Run, spec: SweepSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    ran: list[str] = []
    real = hidden_cells._cell

    def counted(bench: Bench, **which: object) -> SweepCell:
        ran.append(f"{which['layer']} {which['mechanism']} {which['kl']}")
        return real(bench, **which)  # type: ignore[arg-type]

    def stopping(task: str, line: str) -> None:
        if (task, line) == ("cells", "5 of 12"):
            raise KeyboardInterrupt

    monkeypatch.setattr(hidden_cells, "_cell", counted)
    with pytest.raises(KeyboardInterrupt):
        sweep_hidden(spec, out, command=(), progress=stopping)
    assert RunStore.open(out).manifest.status == "interrupted"
    assert not (out / "results.json").exists()
    kept = {file: file.stat().st_mtime_ns for file in out.glob("cell-*.json")}
    assert len(ran) == len(kept) == 5
    lines: list[tuple[str, str]] = []
    again = sweep_hidden(spec, out, command=(), progress=lambda *line: lines.append(line))
    assert len(ran) == len(set(ran)) == 12
    assert all(file.stat().st_mtime_ns == time for file, time in kept.items())
    assert numbers(again) == numbers(swept[1])
    assert again.layers == swept[1].layers and again.winners == swept[1].winners
    assert ("cells", "5 of 12") in lines and ("cells", "done") in lines


def test_given_the_states_the_numbers_do_not_depend_on_workers(
    swept: Run, spec: SweepSpec, tmp_path: Path
) -> None:
    two = sweep_hidden(spec, tmp_path / "run", states=swept[0] / "states", command=(), workers=2)
    assert numbers(two) == numbers(swept[1])
    assert two.layers == swept[1].layers and two.winners == swept[1].winners
    assert not (tmp_path / "run" / "states").exists()


def test_a_finished_run_or_one_of_other_settings_is_not_touched(
    swept: Run, spec: SweepSpec, tmp_path: Path
) -> None:
    with pytest.raises(EvidenceError, match="already holds a complete run"):
        sweep_hidden(spec, swept[0], command=())
    small = replace(spec, layers=(0,), mechanisms=("isotropic",))

    def stopping(task: str, line: str) -> None:
        if task == "cells":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep_hidden(small, tmp_path / "run", command=(), progress=stopping)
    with pytest.raises(EvidenceError, match="other settings or another text or model"):
        sweep_hidden(replace(small, queries=20), tmp_path / "run", command=())


def test_a_run_with_the_states_of_another_says_so_and_is_marked_failed(
    swept: Run, spec: SweepSpec, tmp_path: Path
) -> None:
    with pytest.raises(EvidenceError, match="must hold states of the same model, text and prompts"):
        sweep_hidden(
            replace(spec, seed=1), tmp_path / "run", states=swept[0] / "states", command=()
        )
    assert RunStore.open(tmp_path / "run").manifest.status == "failed"


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"layers": (2,)}, InvalidArgumentError, "layers must be from 0 to 1"),
        ({"rank": 64}, InvalidArgumentError, "rank must be below the 64 numbers of a state"),
        ({"tokens": 65}, InvalidArgumentError, "tokens must be at most the model's context of 64"),
        ({"bank": 100}, RecordError, "must hold 180 different prompts"),
    ],
)
def test_what_the_model_or_text_cannot_give_is_refused_before_a_folder_is_made(
    change: dict[str, object],
    error: type[Exception],
    message: str,
    folder: Path,
    tmp_path: Path,
) -> None:
    with pytest.raises(error, match=message):
        sweep_hidden(tiny_sweep(folder, **change), tmp_path / "run", command=())
    with pytest.raises(InvalidArgumentError, match="workers must be an integer >= 1"):
        sweep_hidden(tiny_sweep(folder), tmp_path / "run", command=(), workers=-1)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"queries": 61, "bank": 60}, "queries must be candidates of the bank of 60"),
        ({"evaluation": 501}, "evaluation must be at most the 500 queries"),
        ({"kl_nats": (0.1, 0.0)}, "kl_nats must be finite and > 0, got kl_nats=0.0"),
        ({"kl_nats": ()}, "kl_nats must be an integer >= 1"),
        ({"kl_nats": (1.0, 1.0)}, "kl_nats must be different ones, got one twice"),
        ({"mechanisms": ("noise",)}, "mechanisms must be one of isotropic, complement"),
        ({"layers": (-1,)}, "layers must be an integer >= 0"),
        ({"tokens": 3}, "tokens must be an integer >= 4"),
        ({"significance": 0.0}, "significance must be above 0 and below 1"),
        ({"delta": 1.0}, "delta must be above 0 and below 1"),
        ({"top1": 1.0}, "top1 must be above 0 and below 1"),
        ({"top1": 0.002, "bank": 500}, "top1 must be above chance, 1/500"),
        ({"rank": 81, "fit": 20}, "rank must be at most the 80 gradients"),
        ({"attention": "flash"}, "attention must be one of eager, sdpa"),
    ],
)
def test_settings_that_break_a_rule_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        SweepSpec(**change)  # type: ignore[arg-type]


def test_all_broken_rules_are_named_at_once() -> None:
    with pytest.raises(InvalidArgumentError) as error:
        SweepSpec(tokens=1, delta=2.0, queries=6000)
    assert all(name in str(error.value) for name in ("tokens", "delta", "queries"))
    assert "\n" not in str(error.value)
