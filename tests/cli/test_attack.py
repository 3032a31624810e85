"""``insular attack`` as a user meets it."""

import json
from pathlib import Path

import pytest

from insular.recipes.audit.run import audit_stack
from insular.recipes.audit.spec import AuditSpec
from recipes.tiny_run import tickets

from .in_process import insular

POWER = ("attack", "power", "--ratio", "1.065257905", "--draws", "50000")


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audited")
    spec = AuditSpec(
        subject="audit.centred_subject:make_subject",
        text=str(tickets(folder / "t.jsonl")),
        id_field="id",
        batch=4,
        tokens=16,
        parts=("isolation", "sensitivity"),
    )
    audit_stack(spec, folder / "run", command=())
    return folder / "run"


def test_power_prints_both_procedures_in_80_columns() -> None:
    done = insular(*POWER)
    assert done.code == 0 and done.stderr == ""
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "trade-off curve" in done.stdout and "one (epsilon, delta)" in done.stdout
    assert "epsilon 4.3772 at delta 1e-5" in done.stdout


def test_power_as_json_and_as_a_figure(tmp_path: Path) -> None:
    done = insular(*POWER, "--json", "-", "--out", str(tmp_path / "p"))
    found = json.loads(done.stdout)
    assert found["procedures"][0]["refutes"] > 0.99
    assert found["claimed_epsilon"] == pytest.approx(4.3772, abs=1e-4)
    svg = (tmp_path / "p" / "power.svg").read_text()
    assert svg.startswith("<svg") and "prefers-color-scheme" in svg


def test_an_excess_of_nothing_needs_no_draws() -> None:
    done = insular("attack", "power", "--ratio", "1", "--draws", "1000")
    assert "no excess" in done.stdout


def test_a_release_is_refuted_with_exit_code_1(audited: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = insular(
        "attack", "release", str(audited), "--draws", "80000", "--workers", "1", "--out", str(out)
    )
    assert done.code == 1
    assert max(map(len, done.stdout.splitlines()[:-1])) <= 80
    assert "is REFUTED" in " ".join(done.stdout.split())
    assert "without 1: done" in done.stderr
    assert done.stdout.endswith(f"Page:   {out / 'report.html'}\n")
    assert insular("report", str(out)).stdout.strip() == str(out / "report.html")


def test_too_few_draws_have_exit_code_2_and_json_is_the_result(
    audited: Path, tmp_path: Path
) -> None:
    done = insular(
        *("attack", "release", str(audited), "--draws", "500", "--workers", "1", "--quiet"),
        *("--out", str(tmp_path / "run"), "--json", "-"),
    )
    assert done.code == 2 and done.stderr == ""
    assert json.loads(done.stdout) == json.loads((tmp_path / "run" / "results.json").read_text())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("power", "--ratio", "-1"), "ratio must be finite and > 0"),
        (("power",), "Missing option '--ratio'; see"),
        (("release", "/nowhere/at/all"), "is not a run folder"),
        (("release", "/nowhere", "--statistic", "half"), "statistic must be one of full-vector"),
    ],
)
def test_errors_are_one_line(arguments: tuple[str, ...], message: str) -> None:
    done = insular("attack", *arguments)
    assert done.code == 2 and done.stdout == ""
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
