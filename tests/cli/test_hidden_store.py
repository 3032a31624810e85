"""``insular hidden store`` as a user meets it."""

import json
from dataclasses import fields
from pathlib import Path

import pytest

from insular.cli.spec_options import field_docs
from insular.recipes.hidden.store.spec import HiddenStoreSpec
from recipes.hidden.test_store import release_file, states_file, tiny_store

from .in_process import insular

NAMES = {
    "kl_nats": "--kl",
    "layers": "--layer",
    "mechanisms": "--mechanism",
    "storages": "--storage",
}
"""Options that are not named as their field."""


def option(field: str) -> str:
    return NAMES.get(field, f"--{field.replace('_', '-')}")


def test_every_setting_is_an_option_with_its_docstring_as_help() -> None:
    shown = " ".join(insular("hidden", "store", "--help").stdout.split())
    docs = field_docs(HiddenStoreSpec)
    for field in fields(HiddenStoreSpec):
        assert f"{option(field.name)} " in shown
        if field.name != "states":
            assert docs[field.name][:20] in shown


def test_a_text_is_measured_and_the_page_is_named(tmp_path: Path) -> None:
    spec = tiny_store(tmp_path, mechanisms=("none", "isotropic"))
    typed = ["hidden", "store", "--quiet", "--workers", "1", "--states", str(tmp_path / "shared")]
    for field in fields(HiddenStoreSpec):
        value = getattr(spec, field.name)
        if value != field.default:
            text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
            typed += [option(field.name), text]
    done = insular(*typed, "--out", str(tmp_path / "run"))
    assert done.code == 0, done.stderr
    lines = done.stdout.splitlines()
    assert max(map(len, lines[:-1])) <= 80
    assert lines[-1] == f"Page:   {tmp_path / 'run' / 'report.html'}"
    assert (tmp_path / "shared" / "manifest.json").is_file()
    again = insular(
        "hidden", "store", "--quiet", "--workers", "1", "--config", str(tmp_path / "run/run.toml"),
        "--storage", "bf16", "--states", str(tmp_path / "shared"), "--out", str(tmp_path / "two"),
        "--json", "-",
    )  # fmt: skip
    assert again.code == 0, again.stderr
    assert [cell["storage"] for cell in json.loads(again.stdout)["cells"]] == ["bf16", "bf16"]


@pytest.mark.parametrize("form", [(), ("--states",)])
def test_a_file_of_states_is_measured_in_both_forms(tmp_path: Path, form: tuple[str, ...]) -> None:
    file, through = (
        states_file(tmp_path / "s.safetensors"),
        release_file(tmp_path / "r.safetensors"),
    )
    done = insular(
        "hidden", "store", *form, file, "--release", through, "--storage", "int8",
        "--queries", "20", "--json", "-", "--out", str(tmp_path / "run"), "--quiet",
    )  # fmt: skip
    assert done.code == 0, done.stderr
    clean, noisy = (cell["measured"] for cell in json.loads(done.stdout)["cells"])
    assert clean["attacks"][1]["top1"]["mean"] == 1.0
    assert noisy["recall"]["mean"] < clean["recall"]["mean"]
    assert clean["recall"]["n"] == 20 and clean["storage"] == "int8"


def test_what_cannot_be_read_is_one_line_and_2(tmp_path: Path) -> None:
    for typed, words in (
        (["absent.safetensors"], "cannot be read as safetensors"),
        (["--states", "absent.safetensors"], "cannot be read as safetensors"),
        (["--release", "r.safetensors"], "release must come with states"),
        (["--storage", "int2"], "storages must be one of"),
    ):
        done = insular("hidden", "store", *typed, "--out", str(tmp_path / "run"))
        assert done.code == 2 and done.stdout == ""
        assert words in " ".join(done.stderr.split())
        assert not (tmp_path / "run").exists()
