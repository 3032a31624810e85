"""The command line as a user meets it: exit codes, one clear line, standard output and error."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from cli.in_process import insular as insular_here
from insular.audit.audit_results import AuditResult
from insular.evidence import RunStore, decode
from recipes.tiny_run import tickets, tiny_folder


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("cli")
    return tiny_folder(folder / "model"), tickets(folder / "tickets.jsonl")


def insular(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "insular", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=cwd,
        check=False,
    )


def audit_arguments(inputs: tuple[Path, Path], out: Path, *more: str) -> list[str]:
    model, text = inputs
    fixed = ["--id-field", "id", "--batch", "4", "--tokens", "16", "--workers", "1"]
    return ["audit", "--model", str(model), "--text", str(text), "--out", str(out), *fixed, *more]


def test_a_coupled_stack_exits_1_with_verdict_page_and_replay(
    inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    done = insular(*audit_arguments(inputs, out, "--repairs", "record-owned"))
    assert done.returncode == 1, done.stderr
    assert "COUPLED" in done.stdout
    assert f"insular replay {out}" in done.stdout
    assert str(out / "report.html") in done.stdout.replace("\n", "")
    assert all(len(line) <= 80 for line in done.stdout.splitlines() if str(out) not in line)
    assert "record-owned: done" in done.stderr and "COUPLED" not in done.stderr
    again = insular("replay", str(out), "--workers", "1", "--quiet")
    assert again.returncode == 0, again.stderr
    assert "REPRODUCED" in again.stdout and again.stderr == ""


@pytest.fixture(scope="module")
def isolated(
    inputs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """The folder of an audit, which every test leaves as it is, and what its command left."""
    out = tmp_path_factory.mktemp("isolated") / "run"
    done = insular(
        *audit_arguments(inputs, out, "--stack", "nf4", "--repairs", "none"),
        "--json", "-", "--quiet",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return out, done


def test_json_to_standard_output_is_the_result_alone(
    isolated: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    out, done = isolated
    result = decode(AuditResult, done.stdout)
    assert result.verdict == "isolated"
    assert result == RunStore.open(out).read_result("results", AuditResult)
    assert done.stderr == ""


def test_a_run_is_repeated_by_the_toml_that_it_wrote(
    isolated: tuple[Path, subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    first, second = isolated[0], tmp_path / "second"
    done = insular("audit", "--config", str(first / "run.toml"), "--out", str(second),
                   "--workers", "1", "--quiet")  # fmt: skip
    assert done.returncode == 0, done.stderr
    one = RunStore.open(first).read_result("results", AuditResult)
    two = RunStore.open(second).read_result("results", AuditResult)
    assert one.subject.cases == two.subject.cases
    third = insular("audit", "--config", str(first / "run.toml"), "--stack", "float32",
                    "--out", str(tmp_path / "third"), "--workers", "1",
                    "--json", "-", "--quiet")  # fmt: skip
    assert json.loads(third.stdout)["subject"]["arm"] == "float32"


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (["--text", "nowhere.jsonl"], ["nowhere.jsonl"]),
        (["--text", "empty.jsonl"], ["empty.jsonl"]),
        (["--text", "one.jsonl"], ["must have 8 records", "--batch"]),
        (["--text", "latin.jsonl"], ["latin.jsonl", "line 2", "encoding"]),
        (["--stack", "int4"], ["stack must be one of", "stack='int4'"]),
        (["--batch", "1"], ["batch must be an integer >= 2"]),
        (["--tokens", "1000"], ["context of 64", "--tokens"]),
        (["--clip-norm", "nan"], ["clip_norm must be finite and > 0"]),
        (["--model", "nowhere.gguf"], ["nowhere.gguf"]),
        (["--lora-targets", "nothing"], ["--lora-targets must name", "q_proj"]),
        (["--subject", "nothing"], ["must be module:factory"]),
        (["--config", "nowhere.toml"], ["nowhere.toml"]),
        (["--out", "occupied"], ["occupied", "--out"]),
        (["--device", "cuda:99"], ["cuda:99"]),
    ],
)
def test_bad_input_is_one_clear_line_and_exit_code_2(
    change: Sequence[str],
    parts: Sequence[str],
    inputs: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "empty.jsonl").write_text("\n\n")
    (tmp_path / "one.jsonl").write_text('{"id": "a", "text": "only one record of text"}\n')
    (tmp_path / "latin.jsonl").write_bytes(
        b'{"id": "a", "text": "ok"}\n{"id": "b", "text": "caf\xe9"}\n'
    )
    (tmp_path / "occupied").mkdir()
    (tmp_path / "occupied" / "thesis.tex").write_text("precious")
    arguments = audit_arguments(inputs, tmp_path / "run", "--repairs", "none", "--quiet")
    for option, value in zip(change[::2], change[1::2], strict=True):
        if option in arguments:
            arguments[arguments.index(option) + 1] = value
        else:
            arguments += [option, value]
    monkeypatch.chdir(tmp_path)
    done = insular_here(*arguments)
    lines = done.stderr.strip().splitlines()
    assert done.code == 2, done.stdout + done.stderr
    assert len(lines) == 1 and lines[0].startswith("insular: "), done.stderr
    assert all(part in lines[0] for part in parts), lines[0]
    assert (tmp_path / "occupied" / "thesis.tex").read_text() == "precious"


def test_a_nan_gradient_is_undecided_and_names_the_record(
    inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(
        "import torch\n"
        "def make():\n"
        "    def gradients(texts):\n"
        "        rows = torch.tensor([[float(len(t)), 1.0] for t in texts])\n"
        "        rows[-1] = float('nan')\n"
        "        return rows\n"
        "    return gradients\n"
    )
    done = insular(
        *audit_arguments(inputs, tmp_path / "run", "--subject", "mine:make", "--quiet"),
        cwd=tmp_path,
    )
    assert done.returncode == 2
    assert "UNDECIDED" in done.stdout
    assert "NaN or inf in the gradient of T-" in " ".join(done.stdout.split()).replace("│ ", "")


def test_report_renders_the_page_again_from_evidence(
    isolated: tuple[Path, subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    out = isolated[0]
    page = (out / "report.html").read_text()
    done = insular("report", str(out))
    assert done.returncode == 0, done.stderr
    assert (out / "report.html").read_text() == page
    assert insular("replay", str(tmp_path)).returncode == 2


def test_a_full_disk_is_one_clear_line(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("mounting a small file system needs root")
    try:
        done = insular(*audit_arguments(inputs, place / "run", "--quiet"))
        assert done.returncode == 2, done.stderr
        lines = done.stderr.strip().splitlines()
        assert len(lines) == 1 and "No space left on device" in lines[0], done.stderr
        RunStore.open(place / "run").verify()
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_an_interrupt_is_one_line_and_the_run_goes_on(
    inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    arguments = audit_arguments(inputs, out, "--repairs", "record-owned")
    arguments[arguments.index("--workers") + 1] = "2"
    process = subprocess.Popen(
        [sys.executable, "-m", "insular", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # a test process that ignores interrupts would hand that on
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.strip().startswith("llm-int8: done"):
            break
    os.killpg(process.pid, signal.SIGINT)
    _, rest = process.communicate(timeout=120)
    assert process.returncode == 130, rest
    *progress, last = rest.splitlines()
    assert last.startswith("insular: interrupted; ") and str(out) in last
    assert all(line.startswith("  ") for line in progress), rest  # no traceback, of workers neither
    assert RunStore.open(out).manifest.status == "interrupted"
    again = insular(*arguments)
    assert again.returncode == 1, again.stderr
    assert "llm-int8: done before" in again.stderr


def test_help_and_version_need_nothing_heavy() -> None:
    code = (
        "import sys\nfrom insular.cli.app import app\n"
        "try:\n    app(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'torch', 'transformers', 'matplotlib', 'pydantic', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "audit" in done.stdout
    assert insular("--version").stdout.startswith("insular 0.")


def test_the_witnesses_come_out_as_published() -> None:
    done = insular("audit", "--witness")
    assert done.returncode == 0, done.stderr
    assert "AS PUBLISHED" in done.stdout
    assert "14.998" in done.stdout and "7.000000" in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
