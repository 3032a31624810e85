"""``insular hidden invert`` end to end on a tiny decoder."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from insular.errors import EvidenceError, InvalidArgumentError, RecordError
from insular.evidence import RunStore, decode, encode, from_toml
from insular.hidden.inversion.results import InversionResult
from insular.hidden.mechanisms import load_release
from insular.hidden.states.forward import SplitDecoder
from insular.hidden.utility import calibration
from insular.models.loading import load_decoder
from insular.recipes.hidden.inversion import cells as hidden_inversion_cells
from insular.recipes.hidden.inversion import run as hidden_inversion
from insular.recipes.hidden.inversion.run import invert_hidden, write_page
from insular.recipes.hidden.inversion.spec import HiddenInversionSpec
from insular.recipes.hidden.spec import MECHANISM_KINDS
from insular.recipes.run_folder import PAGE, RESULT
from insular.records.batches import collate
from insular.records.tokens import TokenisedRecord
from recipes.hidden_samples import SECRET
from recipes.inversion_samples import (
    tiny_calibration,
    tiny_inversion,
    without_times,
)

GRID: dict[str, Any] = {
    "layers": (0, 1),
    "mechanisms": ("none", "isotropic"),
    "storages": ("float32", "int8"),
    "kl_nats": 0.05,
    "prompts": 6,
    "tokens": 6,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("inversion")


@pytest.fixture(autouse=True)
def own_cache(folder: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INSULAR_CACHE", str(folder / "cache"))
        patch.setattr(hidden_inversion, "calibration_records", tiny_calibration)
        yield


def run(folder: Path, out: Path, **changes: Any) -> InversionResult:
    told = {name: changes.pop(name) for name in ("workers", "progress") if name in changes}
    return invert_hidden(tiny_inversion(folder, **changes), out, command=("insular",), **told)


@pytest.fixture(scope="module")
def grid(folder: Path) -> tuple[Path, InversionResult]:
    """Two layers, clean and released, in two formats; run once for all tests."""
    out = folder / "grid"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INSULAR_CACHE", str(folder / "cache"))
        patch.setattr(hidden_inversion, "calibration_records", tiny_calibration)
        return out, run(folder, out, **GRID)


def test_clean_states_of_prompts_are_read_and_no_file_holds_their_text(
    folder: Path, tmp_path: Path
) -> None:
    found = run(folder, tmp_path / "run", tokens=60, prompts=5)
    (cell,) = found.cells
    assert found.notes == ("5 prompts of 10 to 14 tokens, 12 at the median.",)
    assert (cell.n_exact, cell.silent_errors, found.exit_code) == (5, 0, 1)
    assert (cell.status, cell.mechanism, cell.kl) == ("clean", "none", None)
    assert cell.exact_match is not None and cell.exact_match.method == "binomial"
    assert decode(InversionResult, encode(found), source="text") == found
    for path in (tmp_path / "run").rglob("*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes()
    store = RunStore.open(tmp_path / "run")
    store.verify()
    page = (tmp_path / "run" / PAGE).read_bytes()
    write_page(store)
    assert (tmp_path / "run" / PAGE).read_bytes() == page
    assert store.read_result(RESULT, InversionResult) == found


def test_every_layer_mechanism_and_storage_is_a_cell_over_the_same_prompts(
    grid: tuple[Path, InversionResult],
) -> None:
    out, found = grid
    assert [(c.layer, c.mechanism, c.storage) for c in found.cells] == [
        (layer, mechanism, storage)
        for layer in (0, 1)
        for mechanism in ("none", "isotropic")
        for storage in ("float32", "int8")
    ]
    ids = {tuple(one.record_id for one in cell.prompts) for cell in found.cells}
    assert len(ids) == 1 and len(next(iter(ids))) == 6
    spec = from_toml(HiddenInversionSpec, (out / "run.toml").read_text())
    assert spec.storages == ("float32", "int8")
    assert found.notes[0] == "6 prompts of 6 tokens."
    for path in out.rglob("*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes()
    RunStore.open(out).verify()


def test_every_mechanism_is_scaled_to_the_same_measured_kl(
    grid: tuple[Path, InversionResult],
) -> None:
    out, found = grid
    released = [cell for cell in found.cells if cell.mechanism == "isotropic"]
    assert len(released) == 4
    for cell in released:
        assert cell.status == "reached" and cell.kl is not None and cell.scale is not None
        assert cell.kl.mean == pytest.approx(0.05, rel=0.05)
        assert cell.kl.low < cell.kl.mean < cell.kl.high and cell.kl.n == 20
        file = f"release-{cell.layer}-isotropic.safetensors"
        assert file in RunStore.open(out).manifest.files
        assert load_release(out / file).budget_nats == cell.budget_nats
    assert "applied to every position" in " ".join(found.notes)


def test_a_run_that_was_interrupted_goes_on_to_the_same_result(
    folder: Path,
    tmp_path: Path,
    grid: tuple[Path, InversionResult],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "run"

    def stop_at(name: str, line: str) -> Callable[[str, str], None]:
        def progress(task: str, told: str) -> None:
            if (task, told) == (name, line):
                raise KeyboardInterrupt

        return progress

    for stop in (stop_at("releases", "1 of 2"), stop_at("prompts", "14 of 48")):
        with pytest.raises(KeyboardInterrupt):
            run(folder, out, progress=stop, **GRID)
        assert RunStore.open(out).manifest.status == "interrupted"
    asked: list[int] = []
    whole = hidden_inversion_cells.run_prompts

    def counted(shared: Any, cell: Any, start: int, stop: int, **told: Any) -> Any:
        asked.append(stop - start)
        return whole(shared, cell, start, stop, **told)

    monkeypatch.setattr(hidden_inversion_cells, "run_prompts", counted)
    found = run(folder, out, **GRID)
    assert sum(asked) == 48 - 12  # two of the 14 were not stored yet
    assert without_times(found) == without_times(grid[1])


def test_an_unfinished_run_of_other_settings_is_refused(folder: Path, tmp_path: Path) -> None:
    def stop(task: str, line: str) -> None:
        if (task, line) == ("prompts", "1 of 4"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(folder, tmp_path / "run", progress=stop)
    with pytest.raises(EvidenceError, match="other settings"):
        run(folder, tmp_path / "run", seed=1)


def test_the_numbers_do_not_depend_on_workers(
    folder: Path, tmp_path: Path, grid: tuple[Path, InversionResult]
) -> None:
    found = run(folder, tmp_path / "run", workers=2, **GRID)
    assert without_times(found) == without_times(grid[1])


def test_every_mechanism_is_a_cell_and_one_without_a_release_says_why(
    folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    found = run(folder, out, mechanisms=("all",), kl_nats=0.05, prompts=1, tokens=5)
    assert [cell.mechanism for cell in found.cells] == ["none", *MECHANISM_KINDS]
    assert found.exit_code == 1
    for cell in found.cells:
        if cell.status in ("clean", "reached"):
            assert len(cell.prompts) == 1
        else:
            assert not cell.prompts and cell.scale is None
            assert not (out / f"release-1-{cell.mechanism}.safetensors").exists()


@pytest.mark.parametrize("mechanism", ["adaptive-optimum-near", "worst-case"])
def test_mechanisms_of_nearest_neighbours_are_fitted_to_these(
    folder: Path, tmp_path: Path, mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from insular.recipes.hidden.inversion.bench import Bench

    asked = []
    whole = Bench.geometry

    def geometry(self: Bench, layer: int, *, near: bool) -> Any:
        asked.append(near)
        return whole(self, layer, near=near)

    monkeypatch.setattr(Bench, "geometry", geometry)
    run(folder, tmp_path / "run", mechanisms=(mechanism, "isotropic"), prompts=1, tokens=4)
    assert asked == [True, False]


def test_a_kl_that_no_scale_reaches_and_a_mechanism_without_a_fit_stop_no_other_cell(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = calibration.calibrate_scale

    def never(*arguments: Any, sampler: Any, **given: Any) -> Any:
        found = whole(*arguments, sampler=sampler, **given)
        if sampler.mechanism.kind != "inverse fisher":
            return found
        return replace(found, status="too_weak", scale=None, kl_nats=None)

    monkeypatch.setattr(calibration, "calibrate_scale", never)
    chosen = ("complement", "inverse-fisher", "isotropic")
    found = run(folder, tmp_path / "run", mechanisms=chosen, rank=64, kl_nats=0.05, prompts=2)
    assert [cell.status for cell in found.cells] == ["not fitted", "too_weak", "reached"]
    assert "rank" in found.cells[0].reason
    assert [len(cell.prompts) for cell in found.cells] == [0, 0, 2]
    page = (tmp_path / "run" / PAGE).read_text()
    assert "inverse-fisher at layer 1: not reached: its noise stays" in page
    nothing = run(folder, tmp_path / "none", mechanisms=("inverse-fisher",), prompts=2)
    assert nothing.exit_code == 2 and nothing.worst is None
    assert "Nothing was attacked" in (tmp_path / "none" / PAGE).read_text()


def test_text_is_shown_only_when_asked_for(folder: Path, tmp_path: Path) -> None:
    shown = run(folder, tmp_path / "run", show_text=True)
    prompts = shown.cells[0].prompts
    assert all(one.recovered_text and one.recovered_text == one.true_text for one in prompts)
    assert "Recovered text" in (tmp_path / "run" / PAGE).read_text()


@pytest.mark.parametrize("storage", ["bf16", "int8"])
def test_storage_is_applied(folder: Path, tmp_path: Path, storage: str) -> None:
    (cell,) = run(folder, tmp_path / "run", storages=(storage,), every=2).cells
    assert (cell.storage, cell.every) == (storage, 2)
    assert all("unobserved" in one.statuses for one in cell.prompts if one.n_tokens % 2 == 0)


def test_the_model_computes_as_asked(folder: Path, tmp_path: Path) -> None:
    found = run(folder, tmp_path / "run", dtype="bfloat16", attention="sdpa", prompts=1)
    exact = run(folder, tmp_path / "exact", prompts=1)
    assert found.cells[0].rounding > 100 * exact.cells[0].rounding


def test_a_release_from_a_file_is_applied_and_belongs_to_the_inputs(
    folder: Path, tmp_path: Path, grid: tuple[Path, InversionResult]
) -> None:
    file = grid[0] / "release-1-isotropic.safetensors"
    found = run(folder, tmp_path / "run", release=str(file), storages=("float32", "bf16"))
    assert {(cell.status, cell.mechanism) for cell in found.cells} == {("given", "isotropic")}
    assert {cell.budget_nats for cell in found.cells} == {load_release(file).budget_nats}
    manifest = RunStore.open(tmp_path / "run").manifest
    assert [fact.name for fact in manifest.inputs] == ["text", "model", "release"]
    clean = run(folder, tmp_path / "clean")
    assert found.cells[0].ranked_first != clean.cells[0].ranked_first


def test_states_of_a_file_are_read_with_and_without_truth(folder: Path, tmp_path: Path) -> None:
    spec = tiny_inversion(folder)
    split = SplitDecoder(load_decoder(spec.model).model)
    tokens = (5, 9, 30, 12, 8)
    batch = collate([TokenisedRecord(id="a", owner="a", tokens=tokens)], pad_token_id=0)
    states = split.states(batch, layers=[1])[1][0].contiguous()
    file = str(tmp_path / "states.safetensors")
    save_file({"a": states, "tokens:a": torch.tensor(tokens), "b": states.clone()}, file)
    found = run(folder, tmp_path / "run", states=file)
    (cell,) = found.cells
    assert [one.exact for one in cell.prompts] == [True, None]
    assert (cell.n_certain, cell.n_read) == (2, 2)
    save_file({"b": states.clone()}, file)
    assert run(folder, tmp_path / "blind", states=file).exit_code == 1


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ({"a": torch.ones(3, 7)}, r"64 columns.*\(3, 7\)"),
        ({"a": torch.ones(64)}, r"64 columns.*\(64,\)"),
        ({"a": torch.ones((3, 64), dtype=torch.int64)}, "int64"),
        ({"a": torch.ones(3, 64), "tokens:a": torch.tensor([1])}, "one token id a row"),
        ({"tokens:a": torch.tensor([1])}, "got none"),
    ],
)
def test_wrong_states_are_named(
    folder: Path, tmp_path: Path, tensors: dict[str, torch.Tensor], words: str
) -> None:
    # case hid-05
    save_file(tensors, str(tmp_path / "states.safetensors"))
    with pytest.raises(InvalidArgumentError, match=words):
        run(folder, tmp_path / "run", states=str(tmp_path / "states.safetensors"))


def test_a_file_that_is_none_and_a_run_that_is_there_are_refused(
    folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "states.safetensors").write_bytes(b"no")
    with pytest.raises(RecordError, match="safetensors"):
        run(folder, tmp_path / "run", states=str(tmp_path / "states.safetensors"))
    with pytest.raises(InvalidArgumentError, match="layers"):
        run(folder, tmp_path / "run", layers=(2,))
    run(folder, tmp_path / "run", prompts=1)
    with pytest.raises(EvidenceError):
        run(folder, tmp_path / "run", prompts=1)


def test_a_release_of_another_size_is_refused(folder: Path, tmp_path: Path) -> None:
    from insular.hidden.matrices.spectral import isotropic_matrix
    from insular.hidden.mechanisms import GaussianRelease, Isotropic, save_release

    file = tmp_path / "release.safetensors"
    release = GaussianRelease(
        mechanism=Isotropic(), budget_nats=1.0, covariance=isotropic_matrix(7, 0.01)
    )
    save_release(release, file)
    with pytest.raises(InvalidArgumentError, match="states of 64 numbers.*got 7"):
        run(folder, tmp_path / "run", release=str(file))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"layers": (-1,), "kl_nats": 0.0, "prompts": 0}, r"prompts.*kl_nats.*layers"),
        ({"layers": (1, 1), "storages": ("bf16",) * 2}, r"layers must be diff.*storages must be"),
        ({"mechanisms": ("isotropic",) * 2}, "mechanisms must be different ones"),
        ({"layers": ()}, "layers"),
        ({"mechanisms": ("all", "none")}, "all alone"),
        ({"mechanisms": ("snow",)}, "snow"),
        ({"storages": ("int3",)}, "int3"),
        ({"release": "a", "mechanisms": ("isotropic",)}, "none with release"),
        ({"states": "a", "mechanisms": ("all",)}, "give --release"),
        ({"states": "a", "layers": (1, 2)}, "layers must be one with states, got 2"),
        ({"release": "a", "layers": (1, 2)}, "layers must be one with release, got 2"),
        ({"states": "a", "special": True}, "special must be off with states"),
        ({"dtype": "float16"}, "dtype"),
        ({"attention": "flash"}, "attention"),
        ({"significance": 1.0}, "significance"),
    ],
)
def test_every_broken_rule_is_reported_at_once(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        HiddenInversionSpec(**changes)
