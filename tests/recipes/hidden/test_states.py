"""States of a sweep's prompts: extracted once, shared, refused where they are of something else."""

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from insular.errors import EvidenceError
from insular.evidence import RunStore
from insular.recipes.folder_lock import alone_in
from insular.recipes.hidden import states as hidden_states
from insular.recipes.hidden.bench import Bench
from insular.recipes.hidden.spec import SweepSpec
from insular.recipes.hidden.states import States, open_states, prepare_states
from insular.recipes.hidden.states_spec import StatesSpec
from recipes.hidden_samples import tiny_sweep

OWN_CHECK = 6
"""Records on which a split decoder checks itself, before any prompt."""


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> SweepSpec:
    return tiny_sweep(tmp_path_factory.mktemp("states"), layers=(0, 1))


def prepare(spec: SweepSpec, folder: Path, *, lines: list[str] | None = None) -> States:
    bench = Bench(spec, Path())
    return prepare_states(
        spec,
        folder,
        bench.prompts,
        decoder=bench.decoder,
        split=bench.split,
        command=("insular",),
        progress=(lines if lines is not None else []).append,
    )


@pytest.fixture(scope="module")
def prepared(spec: SweepSpec, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, States]:
    folder = tmp_path_factory.mktemp("prepared") / "states"
    return folder, prepare(spec, folder)


@pytest.fixture
def forwards(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Records of every forward from here on, counted where their tokens are embedded."""
    found: list[int] = []
    real = torch.nn.Embedding.forward

    def counting(self: torch.nn.Embedding, input: torch.Tensor) -> torch.Tensor:
        found.append(len(input))
        return real(self, input)

    monkeypatch.setattr(torch.nn.Embedding, "forward", counting)
    return found


def test_states_are_those_of_the_plain_model(
    prepared: tuple[Path, States], spec: SweepSpec
) -> None:
    bench = Bench(spec, Path())
    for layer in (0, 1):
        found = prepared[1].layer(layer)
        assert found.bank.shape == (60, 64) and found.fit.shape == (60, 64)
        assert found.gradients.shape == (60 * spec.labels, 64)
        assert found.bank.dtype == found.gradients.dtype == np.float32
        for rows, records in ((found.bank, bench.prompts.bank), (found.fit, bench.prompts.fit)):
            for place in (0, 7, 59):
                tokens = torch.tensor([records[place].tokens[:-1]])
                caught: list[torch.Tensor] = []
                block = bench.decoder.model.model.layers[layer]
                hook = block.register_forward_hook(lambda m, i, out, to=caught: to.append(out))
                with torch.no_grad():
                    bench.decoder.model(tokens)
                hook.remove()
                plain = caught[0][0] if isinstance(caught[0], tuple) else caught[0]
                assert rows[place] == pytest.approx(plain[0, -1].numpy(), abs=1e-4)


def test_a_complete_extraction_is_reused_and_the_model_does_not_run_again(
    prepared: tuple[Path, States], spec: SweepSpec, forwards: list[int]
) -> None:
    folder, first = prepared
    others = replace(
        spec,
        mechanisms=("worst-case",),
        kl_nats=(1.0,),
        queries=20,
        evaluation=10,
        repeats=2,
        rank=4,
        shrinkage=0.1,
        agreement=0.9,
        top1=0.2,
        delta=1e-6,
        significance=0.1,
    )
    again = prepare(others, folder)
    assert sum(forwards) == OWN_CHECK
    assert np.array_equal(again.layer(1).gradients, first.layer(1).gradients)
    settings = {field.name for field in fields(SweepSpec)}
    shared = {name for name in settings if getattr(others, name) != getattr(spec, name)}
    assert settings - shared == {field.name for field in fields(StatesSpec)}


def test_the_counter_would_notice_a_forward(
    spec: SweepSpec, tmp_path: Path, forwards: list[int]
) -> None:
    prepare(replace(spec, layers=(0,)), tmp_path / "s")
    assert sum(forwards) == OWN_CHECK + 120  # candidates and fitted prompts, once each


def changed_model(spec: SweepSpec, folder: Path) -> SweepSpec:
    """The same path, another model."""
    from recipes.tiny_run import tiny_folder

    tiny_folder(Path(spec.model), seed=5)
    return spec


def changed_text(spec: SweepSpec, folder: Path) -> SweepSpec:
    """The same path, another text."""
    text = Path(spec.text)
    lines = text.read_text().splitlines()
    text.write_text("\n".join(lines[1:] + lines[:1]) + "\n")
    return spec


@pytest.mark.parametrize(
    "change",
    [
        lambda spec, folder: replace(spec, seed=1),
        lambda spec, folder: replace(spec, calibration=19),
        lambda spec, folder: replace(spec, layers=(1,)),
        changed_text,
        changed_model,
    ],
    ids=["seed", "calibration", "layers", "text", "model"],
)
def test_a_folder_of_other_settings_another_text_or_another_model_is_refused(
    change,
    tmp_path: Path,
) -> None:
    spec = tiny_sweep(tmp_path)
    folder = tmp_path / "states"
    prepare(spec, folder)
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    with pytest.raises(EvidenceError, match="must hold states of the same model, text and prompts"):
        prepare(change(spec, tmp_path), folder)
    assert before == {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_a_folder_of_another_kind_of_run_is_refused(spec: SweepSpec, tmp_path: Path) -> None:
    from insular.recipes.run_folder import begin_run

    begin_run("hidden.sweep", tmp_path / "run", spec, command=(), inputs=())
    with pytest.raises(EvidenceError, match="choose another --states"):
        prepare(spec, tmp_path / "run")


def test_an_extraction_that_was_stopped_goes_on_at_its_first_missing_file(
    prepared: tuple[Path, States],
    spec: SweepSpec,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    forwards: list[int],
) -> None:
    monkeypatch.setattr(hidden_states, "FIT_PROMPTS", 20)
    folder, lines = tmp_path / "states", []

    class Stopping(list):
        def append(self, line: str) -> None:
            lines.append(line)
            if line == "gradients of 40 of 60 prompts":
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(spec, folder, lines=Stopping())
    assert RunStore.open(folder).manifest.status == "interrupted"
    kept = {file: file.stat().st_mtime_ns for file in (folder / "arrays").iterdir()}
    assert sum(forwards) == OWN_CHECK + 100
    forwards.clear()
    found = prepare(spec, folder)
    assert sum(forwards) == OWN_CHECK + 20 and len(found.parts) == 3
    assert all(file.stat().st_mtime_ns == time for file, time in kept.items())
    whole = prepared[1].layer(0)
    assert np.array_equal(found.layer(0).bank, whole.bank)
    assert found.layer(0).fit == pytest.approx(whole.fit, abs=1e-5)  # other batches
    assert found.store.manifest.status == "complete"


def test_of_two_runs_that_extract_into_one_folder_the_second_is_refused_and_writes_nothing(
    spec: SweepSpec, tmp_path: Path
) -> None:
    folder, said = tmp_path / "states", []

    class Meanwhile(list):
        def append(self, line: str) -> None:
            """The second one starts while the first one is at its first file."""
            if said:
                return
            before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
            with pytest.raises(EvidenceError) as error:
                prepare(spec, folder)
            said.append(str(error.value))
            assert before == {
                file: file.read_bytes() for file in folder.rglob("*") if file.is_file()
            }

    found = prepare(spec, folder, lines=Meanwhile())
    assert said == [
        f"another run is extracting into {folder}; wait until it is done, or choose another "
        "--states."
    ]
    assert found.store.manifest.status == "complete"
    prepare(spec, folder)


def test_a_complete_folder_is_read_while_another_one_holds_it(
    prepared: tuple[Path, States], spec: SweepSpec
) -> None:
    with alone_in(prepared[0], doing="extracting into", option="--states"):
        assert prepare(spec, prepared[0]).bank == prepared[1].bank


def test_states_of_prompts_that_were_chosen_in_another_way_are_refused(
    prepared: tuple[Path, States], spec: SweepSpec
) -> None:
    """Equal settings and text: another version gave the prompts other roles."""
    bench = Bench(spec, Path())
    prompts = replace(bench.prompts, bank=bench.prompts.bank[::-1])
    with pytest.raises(EvidenceError, match="must hold states of the same model, text and prompts"):
        prepare_states(
            spec,
            prepared[0],
            prompts,
            decoder=bench.decoder,
            split=bench.split,
            command=(),
            progress=print,
        )


def test_changed_arrays_are_refused(spec: SweepSpec, tmp_path: Path) -> None:
    folder = tmp_path / "states"
    small = replace(spec, layers=(0,))
    prepare(small, folder)
    (file,) = (folder / "arrays").glob("fit-0000*")
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(EvidenceError):
        open_states(folder).layer(0)
