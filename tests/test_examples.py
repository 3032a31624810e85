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
