"""Each example runs, small, as its docstring says."""

import json
import subprocess
import sys
from pathlib import Path

from insular.accounting import PoissonGaussianEvent, RepeatedEvent, spend
from insular.audit.audit_results import AuditResult
from insular.evidence import RunStore
from insular.recipes.train.results import TrainResult
from recipes.tiny_run import tiny_folder

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
    cells = [line.split() for line in lines[3:] if "none" not in line and "figure" not in line]
    rows = {(int(n), float(s)): (float(e), float(a)) for n, s, e, _, a in cells}
    assert [rows[200, s][0] for s in (16, 64, 256)] == [3.19, 0.76, 0.19]
    lost = {n: rows[n, 16][1] - rows[n, 256][1] for n in (200, 2000)}
    assert lost[200] > 2 * lost[2000] > 0
    assert rows[200, 256][1] < rows[2000, 256][1] - 0.1
    assert figure.read_text().count("<text") + figure.read_text().count("<g id=") > 10


def test_the_private_loop_spends_what_its_log_says() -> None:
    step = PoissonGaussianEvent(
        noise_multiplier=2.0, sampling_prob=0.08, relation="add_or_remove_one", unit="owner"
    )
    cost = spend(RepeatedEvent(event=step, count=20), delta=1e-4)
    said = script("private_loop.py")
    assert f"20 releases: epsilon {cost.epsilon:.2f} at delta 1e-4, by owner" in said


def test_support_tickets_learn_with_and_without_privacy(tmp_path: Path) -> None:
    """A tiny model that knows none of the words: it learns that they are all unknown."""
    model = tiny_folder(tmp_path / "model")
    out = tmp_path / "run"
    # Draws are secret. At a rate of 0.1 one draw in sixty overshoots; here none of 120 did.
    given = ["--quick", "--model", str(model), "--learning-rate", "0.03", "--out", str(out)]
    said = script("support_tickets.py", *given)
    lines = {line[:12].strip(): line.split() for line in said.splitlines()}
    base = float(lines["base model"][2])
    private, free = float(lines["epsilon 7.99"][4]), float(lines["no noise, so"][5])
    assert max(private, free) < base
    assert "37.42 times less" in said
    assert "9413 tickets of 942 speakers" in said
    store = RunStore.open(out / "epsilon-8")
    store.verify()
    assert store.read_result("results", TrainResult).exit_code == 0
    rows = (out / "tickets.jsonl").read_text().splitlines()
    plays = {json.loads(row)["user_id"].split(":")[1] for row in rows}
    assert len(plays) == 36
    assert "lear" not in plays
