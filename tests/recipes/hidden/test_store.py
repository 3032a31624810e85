"""``hidden store`` from text and from a file: cells, evidence, sharing, resuming, page, privacy."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from insular.errors import EvidenceError, InvalidArgumentError, RecordError
from insular.evidence import RunStore, from_toml
from insular.hidden.matrices.spectral import isotropic_matrix
from insular.hidden.mechanisms import GaussianRelease, Isotropic, save_release
from insular.recipes.hidden.store import cells as hidden_store_cells
from insular.recipes.hidden.store._words import answer_sentences, verdict_of
from insular.recipes.hidden.store.page import store_page
from insular.recipes.hidden.store.results import HiddenStoreResult, StoreCells
from insular.recipes.hidden.store.run import store_hidden
from insular.recipes.hidden.store.spec import HiddenStoreSpec
from insular.recipes.hidden.store.states import read_matrix
from insular.recipes.hidden.store.summary import store_blocks
from insular.recipes.hidden.sweep.run import sweep_hidden
from insular.recipes.pages import write_page_of
from insular.reports import render
from insular.reports.terminal import results_console
from recipes.hidden_samples import SECRET, tiny_sweep

COMMAND = ("insular", "hidden", "store")
Run = tuple[Path, HiddenStoreResult]


def tiny_store(folder: Path, **changes: Any) -> HiddenStoreSpec:
    """A store over the states of a tiny sweep."""
    sweep = tiny_sweep(folder)
    given: dict[str, Any] = {
        "model": sweep.model,
        "text": sweep.text,
        "id_field": "id",
        "layers": (0,),
        "mechanisms": ("none", "isotropic", "alpha-half"),
        "kl_nats": (0.03,),
        "storages": ("float32", "int8"),
        "k": 5,
        "tokens": 12,
        "bank": 60,
        "queries": 30,
        "fit": 60,
        "calibration": 20,
        "rank": 8,
    }
    return HiddenStoreSpec(**{**given, **changes})


def states_file(path: Path, *, n: int = 50) -> str:
    """A matrix of states of which the last two are the same."""
    rows = torch.randn((n, 8), generator=torch.Generator().manual_seed(0))
    rows[-1] = rows[-2]
    save_file({"states": rows}, path)
    return str(path)


def release_file(path: Path, size: int = 8) -> str:
    """Much isotropic noise."""
    noise = isotropic_matrix(size, 9.0)
    save_release(GaussianRelease(mechanism=Isotropic(), budget_nats=2.0, covariance=noise), path)
    return str(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def stored(folder: Path) -> Run:
    out = folder / "run"
    return out, store_hidden(tiny_store(folder), out, command=COMMAND)


def test_every_layer_mechanism_and_storage_is_a_cell(stored: Run, folder: Path) -> None:
    out, result = stored
    store = RunStore.open(out)
    store.verify()
    assert store.manifest.kind == "hidden.store" and store.manifest.status == "complete"
    assert store.read_result("results", HiddenStoreResult) == result
    assert from_toml(HiddenStoreSpec, (out / "run.toml").read_text()) == tiny_store(folder)
    assert [fact.name for fact in store.manifest.inputs] == ["text", "model"]
    assert [(cell.mechanism, cell.storage) for cell in result.cells] == [
        (mechanism, storage)
        for mechanism in ("none", "isotropic", "alpha-half")
        for storage in ("float32", "int8")
    ]
    clean = result.cells[0].measured
    assert clean is not None and clean.recall_lost == 0 and clean.attack_top1.mean == 1
    assert (clean.n_states, clean.recall.n, clean.k) == (60, 30, 5)
    noisy = result.cells[2].measured
    assert noisy is not None and noisy.recall_lost > 0
    assert result.exit_code == 0


def test_mechanisms_are_compared_at_equal_measured_kl(stored: Run) -> None:
    for cell in stored[1].cells:
        if cell.released:
            assert cell.target_kl_nats == 0.03
            assert cell.kl_nats == pytest.approx(0.03, rel=0.02)
        else:
            assert cell.target_kl_nats is None and cell.kl_nats is None


def test_recall_and_attack_of_a_cell_are_those_of_one_index(stored: Run) -> None:
    for cell in stored[1].cells:
        assert cell.measured is not None
        assert cell.measured.storage == cell.storage
        assert all(attack.top1.n == cell.measured.recall.n for attack in cell.measured.attacks)


def test_the_states_of_a_sweep_serve_a_store_and_the_numbers_stay(
    stored: Run, folder: Path, tmp_path: Path
) -> None:
    spec = tiny_sweep(folder, mechanisms=("isotropic",), kl_nats=(0.03,))
    shared = tmp_path / "states"
    sweep_hidden(spec, tmp_path / "sweep", states=shared, command=COMMAND)
    before = (shared / "manifest.json").read_bytes()
    again = store_hidden(tiny_store(folder), tmp_path / "run", states=shared, command=COMMAND)
    assert (shared / "manifest.json").read_bytes() == before
    assert not (tmp_path / "run" / "states").exists()
    assert [replace(cell, seconds=0) for cell in again.cells] == [
        replace(cell, seconds=0) for cell in stored[1].cells
    ]


def test_a_mechanism_whose_cells_are_done_is_not_fitted_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, out = tiny_store(folder, mechanisms=("none", "isotropic")), tmp_path / "run"
    written = hidden_store_cells.write_prompts

    def stopped(*args: Any, **named: Any) -> Any:
        if args[3] == "isotropic":
            raise KeyboardInterrupt
        return written(*args, **named)

    monkeypatch.setattr(hidden_store_cells, "write_prompts", stopped)
    with pytest.raises(KeyboardInterrupt):
        store_hidden(spec, out, command=COMMAND)
    done = RunStore.open(out)
    assert done.manifest.status == "interrupted" and done.has_result("store-0-none-0")
    first = done.read_result("store-0-none-0", StoreCells)

    def once(*args: Any, **named: Any) -> Any:
        assert args[3] == "isotropic"
        return written(*args, **named)

    monkeypatch.setattr(hidden_store_cells, "write_prompts", once)
    result = store_hidden(spec, out, command=COMMAND)
    assert result.cells[:2] == first.cells and result.exit_code == 0
    with pytest.raises(EvidenceError, match="already holds a complete run"):
        store_hidden(spec, out, command=COMMAND)


def test_what_no_scale_reaches_is_a_cell_that_says_so(folder: Path, tmp_path: Path) -> None:
    spec = tiny_store(folder, mechanisms=("none", "dropout"), kl_nats=(900.0,))
    result = store_hidden(spec, tmp_path / "run", command=COMMAND)
    assert [cell.measured is None for cell in result.cells] == [False, False, True, True]
    assert result.exit_code == 2
    assert "was not measured: not reached" in " ".join(answer_sentences(result))
    assert "not measured" in (tmp_path / "run" / "report.html").read_text()


def test_no_record_text_in_any_file_and_the_page_is_made_of_the_evidence(stored: Run) -> None:
    out, _ = stored
    for file in out.rglob("*"):
        if file.is_file() and file.suffix in (".json", ".html", ".toml", ".parquet"):
            assert SECRET not in file.read_text(encoding="utf-8", errors="replace")
    page = (out / "report.html").read_bytes()
    assert write_page_of(out).read_bytes() == page


def test_what_is_told_never_stands_without_the_number_of_candidates(stored: Run) -> None:
    out, result = stored
    text = render(store_page(result, RunStore.open(out).manifest))
    assert text.count("60 candidates") >= 3  # first lines, figure, table
    assert "results.json#/cells/3/measured/attacks/2/top1" in text
    assert "no two of them the same" in text
    assert "Found against told" in text


def test_the_terminal_says_it_in_80_columns(
    stored: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    console = results_console()
    for block in store_blocks(stored[1]):
        console.print(block)
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    words = " ".join(shown.split())
    assert "mechanisms at 0.03 nats" in words and "0.0 (0.0-0.0)" in words


def test_states_of_a_file_with_and_without_a_release(tmp_path: Path) -> None:
    file, through = (
        states_file(tmp_path / "a.safetensors"),
        release_file(tmp_path / "r.safetensors"),
    )
    clean = store_hidden(HiddenStoreSpec(states=file), tmp_path / "clean", command=COMMAND)
    assert [(cell.mechanism, cell.layer) for cell in clean.cells] == [("none", None)] * 2
    spec = HiddenStoreSpec(states=file, release=through, storages=("int8",), index="faiss")
    found = store_hidden(spec, tmp_path / "run", command=COMMAND)
    (_, before), (cell, after) = found.measured
    assert cell.mechanism == "isotropic" and after.budget_nats == 2.0
    assert before.n_duplicates == after.n_duplicates == 1 and before.n_candidates == 49
    assert after.recall_lost > before.recall_lost
    assert after.attack_top1.mean < before.attack_top1.mean == 1.0
    store = RunStore.open(tmp_path / "run")
    store.verify()
    assert [fact.name for fact in store.manifest.inputs] == ["states", "release"]
    assert "1 of them copies of another" in (tmp_path / "run" / "report.html").read_text()


def test_the_verdict_follows_the_attack_and_not_the_recall(tmp_path: Path) -> None:
    file = states_file(tmp_path / "a.safetensors")
    result = store_hidden(HiddenStoreSpec(states=file), tmp_path / "run", command=COMMAND)
    assert verdict_of(result) == ("Every index tells whose its rows are", "bad")
    hidden = []
    for cell in result.cells:
        assert cell.measured is not None
        attacks = tuple(
            replace(attack, top1=replace(attack.top1, mean=0.02, low=0.0, high=0.1))
            for attack in cell.measured.attacks
        )
        hidden.append(replace(cell, measured=replace(cell.measured, attacks=attacks)))
    assert verdict_of(replace(result, cells=tuple(hidden)))[1] == "good"
    mixed = (hidden[0], result.cells[1])
    assert verdict_of(replace(result, cells=mixed))[0].startswith("1 of 2 indexes")
    unknown = tuple(replace(cell, measured=None, status="jumps") for cell in result.cells)
    assert verdict_of(replace(result, cells=unknown))[1] == "open"


def test_a_file_must_hold_one_matrix(tmp_path: Path) -> None:
    file, rows = tmp_path / "states.safetensors", torch.ones(3, 4)
    save_file({"a": rows, "tokens:a": torch.tensor([1, 2, 3])}, file)
    assert torch.equal(read_matrix(file), rows)
    save_file({"a": rows, "b": rows.clone()}, file)
    with pytest.raises(RecordError, match="one matrix of states, got 2"):
        read_matrix(file)
    with pytest.raises(RecordError, match="cannot be read"):
        read_matrix(tmp_path / "absent.safetensors")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"release": "r.safetensors"}, "release must come with states"),
        ({"states": "s.safetensors", "mechanisms": ("dropout",)}, "give --release"),
        ({"mechanisms": ("noise",)}, "mechanisms must be one of none, isotropic"),
        ({"mechanisms": ("none", "none")}, "mechanisms must be different"),
        ({"mechanisms": ()}, "mechanisms must be an integer >= 1"),
        ({"storages": ()}, "storages must be an integer >= 1"),
        ({"storages": ("int2",)}, "storages must be one of float32"),
        ({"index": "annoy"}, "index must be one of numpy, faiss"),
        ({"queries": 1}, "queries must be an integer >= 2"),
        ({"bank": 100, "k": 200, "queries": 50}, "bank must be an integer >= 201"),
        ({"kl_nats": (0.0,)}, "kl_nats must be finite and > 0"),
        ({"bank": 100}, "queries must be candidates of the bank of 100"),
    ],
)
def test_what_breaks_a_rule_is_named(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        HiddenStoreSpec(**changes)
