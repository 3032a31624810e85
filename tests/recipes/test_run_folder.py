"""The folder of a run: which one may be written to, and how it ends."""

from pathlib import Path

import pytest

from insular.errors import InvalidArgumentError
from insular.evidence import InputFact, RunManifest, RunStore
from insular.recipes.hidden.spec import SweepSpec
from insular.recipes.run_folder import PAGE, begin_or_continue, write_run_page
from insular.reports.page import Page


def begin(out: Path, source: str) -> RunStore:
    fact = InputFact(name="text", source=source, sha256="0" * 64)
    return begin_or_continue(
        "kind", out, SweepSpec(), command=(), inputs=(fact,), other="another text"
    )


def test_no_folder_that_is_read_is_written_to(tmp_path: Path) -> None:
    read = tmp_path / "run"
    read.mkdir()
    for spelt in (str(read), str(read / ".." / "run")):
        with pytest.raises(InvalidArgumentError, match="--out must be another folder"):
            begin(read, spelt)
    assert not list(read.iterdir())


@pytest.mark.parametrize("name", ["wikipedia", "shakespeare", "smollm2"])
def test_a_folder_called_like_a_packaged_text_or_model_is_not_read(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert begin(Path(name), name).manifest.status == "running"
    assert begin(Path(name), name).manifest.status == "running"  # goes on, though it is there now


def test_a_folder_called_like_a_hub_name_that_is_not_there_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert begin(Path("owner/model"), "owner/model").manifest.status == "running"


def interrupted(manifest: RunManifest) -> Page:
    assert manifest.status == "complete"
    raise KeyboardInterrupt


def test_a_run_whose_page_is_interrupted_stays_as_finished_as_it_was(tmp_path: Path) -> None:
    store = begin(tmp_path / "run", "wikipedia")
    store.write_text(PAGE, "the page of before")
    store.finish("complete")
    with pytest.raises(KeyboardInterrupt):
        write_run_page(store, interrupted)
    assert RunStore.open(tmp_path / "run").manifest.status == "complete"


def test_a_run_that_never_had_its_page_is_gone_on_with(tmp_path: Path) -> None:
    store = begin(tmp_path / "run", "wikipedia")
    store.finish("complete")
    with pytest.raises(KeyboardInterrupt):
        write_run_page(store, interrupted)
    assert RunStore.open(tmp_path / "run").manifest.status == "interrupted"
    assert begin(tmp_path / "run", "wikipedia").manifest.status == "running"
