"""Layers before any release: numbers, page, and states that a sweep shares."""

from dataclasses import replace
from pathlib import Path

import pytest

from insular.errors import EvidenceError
from insular.evidence import RunStore
from insular.recipes.hidden.geometry.run import layer_sentences, measure_layers
from insular.recipes.hidden.sweep.results import LayersResult
from insular.recipes.hidden.sweep.run import sweep_hidden
from insular.recipes.pages import write_page_of
from recipes.hidden_samples import SECRET, tiny_sweep

COMMAND = ("insular", "hidden", "geometry")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, LayersResult]:
    folder = tmp_path_factory.mktemp("geometry")
    out = folder / "run"
    return out, measure_layers(tiny_sweep(folder), out, command=COMMAND)


def test_every_layer_has_its_numbers_beside_null_and_halves(
    measured: tuple[Path, LayersResult],
) -> None:
    out, result = measured
    spec = tiny_sweep(out.parent)
    assert [layer.layer for layer in result.layers] == list(spec.layers)
    for layer in result.layers:
        assert layer.geometry.adaptive_gain.value >= 1
        assert layer.geometry.adaptive_gain.null.n_simulations > 1
        assert layer.clean[0].n_candidates == result.n_candidates
    assert RunStore.open(out).read_result("results", LayersResult) == result
    assert len(layer_sentences(result)) == len(result.layers)


def test_the_page_can_be_made_again_and_holds_no_text(measured: tuple[Path, LayersResult]) -> None:
    out, _ = measured
    page = write_page_of(out).read_text()
    assert "Layers before any release" in page
    assert "Which part of the state the prediction lives in" in page
    assert "How far rounding moves a state" in page
    for file in out.iterdir():
        if file.is_file():
            assert SECRET.encode() not in file.read_bytes()


def test_a_sweep_with_the_same_settings_takes_these_states_as_they_are(
    measured: tuple[Path, LayersResult], tmp_path: Path
) -> None:
    out, result = measured
    spec = replace(tiny_sweep(out.parent), mechanisms=("isotropic",), kl_nats=(0.1,))
    before = (out / "states" / "manifest.json").read_bytes()
    swept = sweep_hidden(spec, tmp_path / "sweep", states=out / "states", command=COMMAND)
    assert (out / "states" / "manifest.json").read_bytes() == before
    assert RunStore.open(out).has_result("components-0")
    assert not RunStore.open(tmp_path / "sweep").has_result("components-0")  # a sweep stays fast
    assert [layer.geometry for layer in swept.layers] == [x.geometry for x in result.layers]


def test_states_of_other_settings_are_refused(
    measured: tuple[Path, LayersResult], tmp_path: Path
) -> None:
    out, _ = measured
    with pytest.raises(EvidenceError, match="choose another --states"):
        measure_layers(
            replace(tiny_sweep(out.parent), seed=5),
            tmp_path / "other",
            states=out / "states",
            command=COMMAND,
        )
