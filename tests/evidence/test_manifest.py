"""The manifest: what a run was, from this machine and this checkout."""

import importlib.metadata
import json
import platform
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from insular.errors import EvidenceError
from insular.evidence import InputFact, RunManifest, collect_manifest, decode, encode
from insular.evidence.collect import code_revision
from insular.evidence.manifest import SCHEMA_VERSION, decode_manifest, finish_manifest

from .samples import manifest


def git(folder, *arguments):
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    command = ["git", *identity, *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def test_states_this_machine_and_what_is_installed():
    fact = InputFact(name="text", source="tickets.jsonl", sha256="ab" * 32, n_records=8)
    found = collect_manifest(
        "audit.isolation",
        "tiny",
        command=("insular", "audit", "--seed", "0"),
        inputs=(fact,),
        seed=0,
        packages=("numpy", "no-such-package"),
        cuda_devices=("H100",),
    )
    assert found.status == "running" and not found.finished
    assert found.schema_version == SCHEMA_VERSION
    assert found.packages == {"numpy": importlib.metadata.version("numpy")}
    assert found.insular_version == importlib.metadata.version("insular")
    assert found.python == platform.python_version()
    assert found.machine.logical_cores >= 1
    assert found.machine.memory_bytes is None or found.machine.memory_bytes > 2**28
    assert found.machine.cpu_model and found.machine.cuda_devices == ("H100",)
    assert found.inputs == (fact,) and found.files == {} and found.finished_utc is None
    assert abs((datetime.now(UTC) - found.created_utc).total_seconds()) < 60
    assert decode(RunManifest, encode(found)) == found


def test_importing_evidence_imports_no_heavy_package():
    heavy = ("torch", "transformers", "pydantic", "safetensors", "numpy")
    script = f"import sys, insular.evidence; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_finish_states_end_and_sorts_files():
    done = finish_manifest(manifest(), "failed", files={"b": "2", "a": "1"})
    assert done.finished and done.finished_utc >= done.created_utc
    assert list(done.files) == ["a", "b"]
    assert finish_manifest(done, "running", files={}).finished_utc is None


def test_newer_layout_is_named_as_such():
    content = json.loads(encode(manifest())) | {"schema_version": 99, "novelty": 1}
    with pytest.raises(EvidenceError) as caught:
        decode_manifest(json.dumps(content).encode(), source="m.json")
    assert str(caught.value) == (
        f"m.json has layout 99, and this insular reads up to {SCHEMA_VERSION}; "
        "install a newer insular."
    )


@pytest.mark.parametrize("status", ["done", None, 1])
def test_unknown_status_is_refused(status):
    content = json.loads(encode(manifest())) | {"status": status}
    with pytest.raises(EvidenceError, match="m.json: status must be 'running', "):
        decode_manifest(json.dumps(content).encode(), source="m.json")


def test_revision_is_the_commit_and_says_if_files_differ(tmp_path):
    source = tmp_path / "src"
    source.mkdir()
    (source / "a.py").write_text("x = 1\n")
    assert code_revision(source) is None
    git(tmp_path, "init", "-q")
    assert code_revision(source) is None
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "one")
    commit = git(tmp_path, "rev-parse", "HEAD").strip()
    assert code_revision(source) == commit
    (source / "a.py").write_text("x = 2\n")
    assert code_revision(source) == commit + "+changes"


def test_revision_of_an_installed_copy_in_some_other_checkout_is_none(tmp_path):
    (tmp_path / "theirs.py").write_text("x = 1\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "one")
    installed = tmp_path / ".venv" / "insular"
    installed.mkdir(parents=True)
    (installed / "a.py").write_text("x = 1\n")
    assert code_revision(installed) is None


def test_revision_ignores_the_callers_git_variables(tmp_path, monkeypatch):
    (tmp_path / "a.py").write_text("x = 1\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "one")
    commit = git(tmp_path, "rev-parse", "HEAD").strip()
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    assert code_revision(tmp_path) == commit


def test_revision_without_git_is_none(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert code_revision(tmp_path) is None
