"""Each example runs, small, as its docstring says."""

import subprocess
import sys
from pathlib import Path

from insular.audit.audit_results import AuditResult
from insular.evidence import RunStore

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(out: Path, subject: str) -> AuditResult:
    arguments = f"audit --subject {subject} --text tickets.jsonl --batch 4 --tokens 24 --quiet"
    done = subprocess.run(
        [sys.executable, "-m", "insular.cli.app", *arguments.split(), "--out", str(out)],
        cwd=EXAMPLES,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return RunStore.open(out).read_result("results", AuditResult)


def test_opacus_stack_is_coupled_and_its_manifest_is_read_from_the_objects(
    tmp_path: Path,
) -> None:
    result = run(tmp_path / "run", "opacus_stack:make_subject")
    assert result.verdict == "coupled", result.subject.failed_checks
    assert result.clip_norm == 0.5
    manifest = result.subject.manifest
    assert "UniformWithReplacementSampler (Poisson), accounted sample rate 0.125" in (
        manifest.sampler
    )
    assert manifest.engine == "opacus PrivacyEngine"
    assert "Linear8bitLt" in manifest.replaced
    assert "bitsandbytes::int8_mixed_scaled_mm" in result.subject.path.operators


def test_the_same_stack_in_float32_is_isolated(tmp_path: Path) -> None:
    assert run(tmp_path / "run", "opacus_stack:make_float32").verdict == "isolated"


def script(name: str, *arguments: str) -> str:
    """What an example prints, run as its docstring says."""
    done = subprocess.run(
        [sys.executable, name, *arguments],
        cwd=EXAMPLES,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_ten_times_the_people_cost_far_less_at_the_same_budget(tmp_path: Path) -> None:
    figure = tmp_path / "dp_gd.svg"
    lines = script("dp_gd.py", "--runs", "3", "--figure", str(figure)).splitlines()
    rows = {
        (int(n), float(s)): (float(e), float(a)) for n, s, e, _, a in map(str.split, lines[2:8])
    }
    assert [rows[200, s][0] for s in (16, 64, 256)] == [3.19, 0.76, 0.19]
    lost = {n: rows[n, 16][1] - rows[n, 256][1] for n in (200, 2000)}
    assert lost[200] > 2 * lost[2000] > 0
    assert rows[200, 256][1] < rows[2000, 256][1] - 0.1
    assert figure.read_text().count("<text") + figure.read_text().count("<g id=") > 10


def test_the_private_loop_spends_what_its_log_says() -> None:
    said = script("private_loop.py")
    assert "20 releases, 256 of B's coordinates moved" in said
    assert "epsilon 4.323 at delta 0.001, for one record more or less" in said
