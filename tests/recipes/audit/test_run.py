"""The audit recipe end to end on a tiny decoder and real files."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from insular.audit.audit_results import AuditResult
from insular.audit.isolation.results import ArmResult
from insular.errors import (
    EvidenceError,
    InvalidArgumentError,
    ModelError,
    RecordError,
    SubjectError,
)
from insular.evidence import RunStore, to_toml
from insular.recipes.audit.replay import path_differences, replay
from insular.recipes.audit.run import audit_stack, read_spec
from insular.recipes.audit.spec import REPAIRS, STACKS, AuditSpec
from insular.recipes.inputs import load_subject
from insular.recipes.run_folder import PAGE, SPEC_FILE
from insular.recipes.stacks import build_stack
from recipes.tiny_run import tickets


def test_the_native_stack_is_coupled_and_every_repair_isolated(
    tiny_run: tuple[Path, AuditResult],
) -> None:
    _, result = tiny_run
    assert result.verdict == "coupled"
    assert result.exit_code == 1
    assert [arm.arm for arm in result.repairs] == list(REPAIRS)
    assert {arm.verdict for arm in result.repairs} == {"isolated"}
    content = result.subject.axis("content")
    assert content is not None and content.verdict == "coupled"
    for arm in result.repairs:
        for axis in ("content", "length"):
            finding = arm.axis(axis)
            assert finding is not None and finding.n_moved == 0, (arm.arm, axis)


def test_every_arm_is_validated(tiny_run: tuple[Path, AuditResult]) -> None:
    _, result = tiny_run
    for arm in (result.subject, *result.repairs):
        assert arm.failed_checks == ()
        assert {check.name for check in arm.checks} == {
            "finite gradients",
            "identical repeat",
            "independent autograd",
            "sum of gradients",
            "coverage",
            "operators",
            "clipping",
        }


def test_the_run_folder_repeats_the_run_and_verifies(
    tiny_run: tuple[Path, AuditResult], tiny_whole: AuditSpec
) -> None:
    out, result = tiny_run
    store = RunStore.open(out)
    store.verify()
    assert store.manifest.status == "complete"
    assert read_spec(store) == tiny_whole
    assert store.read_result("results", AuditResult) == result
    assert {"report.html", "run.toml", "results.json"} <= set(store.manifest.files)
    assert any(name.startswith("arrays/counterexample-llm-int8") for name in store.manifest.files)
    assert "COUPLED" in store.read_text(PAGE).upper()


def test_no_file_holds_record_text(
    tiny_run: tuple[Path, AuditResult], tiny_whole: AuditSpec
) -> None:
    out, _ = tiny_run
    words = {
        word
        for line in Path(tiny_whole.text).read_text().splitlines()
        for word in line.split('"text": "')[1].rstrip('"}').split()
    }
    pairs = {f"{a} {b}" for a in list(words)[:30] for b in list(words)[:30]}
    for path in out.rglob("*"):
        if path.is_file() and path.suffix != ".safetensors":
            content = path.read_text(encoding="utf-8")
            assert not any(pair in content for pair in pairs), path


def test_replay_reproduces_every_distance(tiny_run: tuple[Path, AuditResult]) -> None:
    out, _ = tiny_run
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    result = replay(out)
    assert result.reproduced and result.exit_code == 0
    assert result.n_distances > 500
    assert result.path_differences == ()
    assert before == {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}


def test_replay_says_which_path_differs(tiny_run: tuple[Path, AuditResult]) -> None:
    _, result = tiny_run
    path = result.subject.path
    other = replace(path, threads=7, versions={**path.versions, "torch": "0.0.1"})
    lines = path_differences(path, other)
    assert f"threads {path.threads} then, 7 now" in lines
    assert f"torch {path.versions['torch']} then, 0.0.1 now" in lines


def test_replay_catches_a_recorded_distance_that_is_not_what_the_stack_gives(
    tiny_run: tuple[Path, AuditResult], tmp_path: Path, tiny_whole: AuditSpec
) -> None:
    _, result = tiny_run
    case = result.subject.cases[0]
    wrong = replace(
        result.subject,
        cases=(replace(case, sum_ratio=0.123), *result.subject.cases[1:]),
    )
    out = tmp_path / "planted"
    old = RunStore.open(tiny_run[0])
    store = RunStore.create(out, old.manifest)
    store.reopen()
    store.write_text(SPEC_FILE, to_toml(tiny_whole))
    store.write_result("results", replace(result, subject=wrong, repairs=()))
    store.finish("complete")
    again = replay(out)
    assert not again.reproduced
    assert again.exit_code == 1
    assert again.first_mismatch == f"llm-int8, {case.name}, sum_ratio"


def test_replay_refuses_changed_evidence_and_other_inputs(
    tiny_inputs: AuditSpec, tmp_path: Path
) -> None:
    text = tickets(tmp_path / "t.jsonl")
    spec = replace(tiny_inputs, text=str(text), repairs=(), stack="float32")
    out = tmp_path / "run"
    assert audit_stack(spec, out, command=()).verdict == "isolated"
    text.write_text(text.read_text() + '{"id": "T-99", "text": "w1 w2 w3 w4 w5"}\n')
    with pytest.raises(EvidenceError, match="made from other inputs: text changed"):
        replay(out)
    (out / "results.json").write_text("{}")
    with pytest.raises(EvidenceError, match=r"results\.json was changed"):
        replay(out)


def test_an_unfinished_run_goes_on_where_it_stopped(tiny_inputs: AuditSpec, tmp_path: Path) -> None:
    out = tmp_path / "run"
    spec = replace(tiny_inputs, repairs=("float32", "nf4"))
    seen: list[str] = []

    def stop(arm: str, line: str) -> None:
        seen.append(arm)
        if arm == "nf4":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        audit_stack(spec, out, command=(), progress=stop)
    store = RunStore.open(out)
    assert store.manifest.status == "interrupted"
    first = store.read_result("arm-llm-int8", ArmResult)
    with pytest.raises(EvidenceError, match="other settings"):
        audit_stack(replace(spec, batch=3), out, command=())
    lines: list[tuple[str, str]] = []
    result = audit_stack(spec, out, command=(), progress=lambda a, b: lines.append((a, b)))
    assert ("llm-int8", "done before") in lines
    assert result.subject == first
    with pytest.raises(EvidenceError, match="already holds a complete run"):
        audit_stack(spec, out, command=())


def test_a_killed_run_leaves_its_finished_arms(tiny_inputs: AuditSpec, tmp_path: Path) -> None:
    out = tmp_path / "run"
    config = tmp_path / "run.toml"
    config.write_text(to_toml(replace(tiny_inputs, repairs=tuple(STACKS)[2:8])))
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "insular.cli.app",
            "audit",
            "--config",
            str(config),
            "--out",
            str(out),
            "--workers",
            "1",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    deadline = time.monotonic() + 120
    while not _listed(out, "arm-llm-int8") and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    store = RunStore.open(out)
    store.verify()
    assert store.manifest.status == "running"
    assert store.read_result("arm-llm-int8", ArmResult).verdict == "coupled"


def _listed(out: Path, name: str) -> bool:
    """Whether the manifest of a run in progress lists a result."""
    try:
        return RunStore.open(out).has_result(name)
    except EvidenceError:
        return False


def test_workers_do_not_change_a_number(tiny_inputs: AuditSpec, tmp_path: Path) -> None:
    spec = replace(tiny_inputs, repairs=("record-owned",))
    one = audit_stack(spec, tmp_path / "one", command=(), workers=1)
    two = audit_stack(spec, tmp_path / "two", command=(), workers=2)
    for a, b in zip((one.subject, *one.repairs), (two.subject, *two.repairs), strict=True):
        assert a.cases == b.cases
        assert a.gradient_digests == b.gradient_digests


@pytest.mark.parametrize("stack", STACKS)
def test_every_named_stack_runs_as_it_claims(
    stack: str, tiny_inputs: AuditSpec, tmp_path: Path
) -> None:
    spec = replace(tiny_inputs, stack=stack, repairs=())
    result = audit_stack(spec, tmp_path / "run", command=())
    assert result.subject.failed_checks == ()
    expected = "coupled" if stack == "llm-int8" else "isolated"
    assert result.verdict == expected
    if stack == "llm-int8-train":
        assert "Linear8bitLt train" in result.subject.path.mode
        assert not any("int8" in name for name in result.subject.path.operators)


@pytest.mark.parametrize("gradients", ["hooks", "opacus", "loop"])
def test_the_verdict_does_not_depend_on_the_gradient_engine(
    gradients: str, tiny_inputs: AuditSpec, tmp_path: Path
) -> None:
    spec = replace(tiny_inputs, gradients=gradients, repairs=("record-owned",), lora_b_std=0.05)
    result = audit_stack(spec, tmp_path / "run", command=())
    assert result.verdict == "coupled"
    assert result.repairs[0].verdict == "isolated"
    assert result.subject.manifest.untouched == ()


def test_a_token_mean_loss_is_coupled_through_lengths(
    tiny_inputs: AuditSpec, tmp_path: Path
) -> None:
    spec = replace(tiny_inputs, stack="float32", loss="token_mean", repairs=())
    result = audit_stack(spec, tmp_path / "run", command=())
    assert result.verdict == "coupled"
    length = result.subject.axis("length")
    assert length is not None and length.verdict == "coupled"


def test_left_padding_and_a_callable_under_test(
    tiny_inputs: AuditSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = replace(tiny_inputs, padding_side="left", stack="record-owned", repairs=())
    assert audit_stack(left, tmp_path / "left", command=()).verdict == "isolated"
    (tmp_path / "mine.py").write_text(
        "import torch\n"
        "def coupled():\n"
        "    def gradients(texts):\n"
        "        rows = torch.tensor([[len(t), t.count('w1') + 1.0] for t in texts])\n"
        "        return rows / rows.sum(0)\n"
        "    return gradients\n"
        "def clean():\n"
        "    def gradients(batch):\n"
        "        return (batch.input_ids * batch.attention_mask).double().cumsum(1)[:, -1:]\n"
        "    return gradients\n"
        "def broken():\n"
        "    return lambda texts: 3\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    coupled = replace(tiny_inputs, subject="mine:coupled")
    assert audit_stack(coupled, tmp_path / "c", command=()).verdict == "coupled"
    clean = replace(tiny_inputs, subject="mine:clean")
    assert audit_stack(clean, tmp_path / "d", command=()).verdict == "isolated"
    assert replay(tmp_path / "d").reproduced
    with pytest.raises(
        SubjectError, match=r"must return a float tensor \[record, param\], got int"
    ):
        audit_stack(replace(tiny_inputs, subject="mine:broken"), tmp_path / "e", command=())
    assert RunStore.open(tmp_path / "e").manifest.status == "failed"


def test_bad_subjects_are_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SubjectError, match="must be module:factory"):
        load_subject("nothing")
    with pytest.raises(SubjectError, match="module cannot be imported"):
        load_subject("no_such_module_here:make")
    with pytest.raises(SubjectError, match="module json has no make"):
        load_subject("json:make")
    with pytest.raises(SubjectError, match="factory failed with TypeError"):
        load_subject("json:loads")
    (tmp_path / "loud.py").write_text('def make():\n    raise ValueError("private words")\n')
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(SubjectError, match=r"failed with ValueError at loud\.py:2\.") as caught:
        load_subject("loud:make")
    assert "private" not in str(caught.value)


def test_too_little_text_and_too_long_records_are_refused(
    tiny_inputs: AuditSpec, tmp_path: Path
) -> None:
    few = replace(tiny_inputs, text=str(tickets(tmp_path / "few.jsonl", n_records=1)))
    with pytest.raises(RecordError, match="must have 8 records"):
        audit_stack(few, tmp_path / "run", command=())
    long = replace(tiny_inputs, tokens=1000)
    with pytest.raises(InvalidArgumentError, match="context of 64"):
        audit_stack(long, tmp_path / "run", command=())
    with pytest.raises(ModelError, match="--lora-targets must name"):
        build_stack(replace(tiny_inputs, lora_targets=("nothing",)), "float32")
    assert not (tmp_path / "run").exists()


def test_a_spec_reports_all_problems_at_once() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        AuditSpec(stack="int4", batch=1, clip_norm=0.0, repairs=("magic",))
    message = str(caught.value)
    for part in ("stack must be one of", "batch must be", "clip_norm=0.0", "'magic'"):
        assert part in message


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_on_cuda_the_union_couples_records_in_any_mode(
    tiny_inputs: AuditSpec, tmp_path: Path
) -> None:
    for stack, verdict in (
        ("llm-int8", "coupled"),
        ("llm-int8-train", "coupled"),
        ("threshold-0", "isolated"),
        ("record-owned", "isolated"),
        ("nf4", "isolated"),
        ("bf16", "isolated"),
    ):
        spec = replace(tiny_inputs, stack=stack, repairs=(), device="cuda")
        result = audit_stack(spec, tmp_path / stack, command=())
        assert result.verdict == verdict, (stack, result.subject.failed_checks)
        assert result.subject.path.device.startswith("cuda")
