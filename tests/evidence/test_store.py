"""The store: one folder per run that says what it is, and notices any change."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from insular.errors import EvidenceError, InvalidArgumentError
from insular.evidence import RunStore
from insular.evidence.files import write_atomic

from .samples import VERDICT, Distance, Verdict, WithArrays, manifest
from .test_files import small_disk


@pytest.fixture
def store(tmp_path):
    return RunStore.create(tmp_path / "runs" / "tiny", manifest())


def listing(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_complete_run_is_read_back(store):
    gradients = {"own": np.arange(6, dtype=np.float32).reshape(2, 3).T, "empty": np.zeros((0, 3))}
    store.write_result("verdict", VERDICT)
    ref = store.write_arrays("gradients", gradients)
    store.write_result("pair", WithArrays(ratio=1.49, gradients=ref))
    store.write_text("report.html", "<p>é</p>\r\n")
    store.finish("complete")

    back = RunStore.open(store.path)
    back.verify()
    assert back.manifest == store.manifest and back.manifest.status == "complete"
    assert list(back.manifest.files) == ["arrays/" + ref.file[7:]] + [
        "pair.json",
        "report.html",
        "verdict.json",
    ]
    assert back.read_result("verdict", Verdict) == VERDICT
    assert back.read_text("report.html") == "<p>é</p>\r\n"
    read = back.read_arrays(back.read_result("pair", WithArrays).gradients)
    assert all(np.array_equal(read[name], gradients[name]) for name in gradients)
    assert back.has_result("pair") and not back.has_result("other")


def test_manifest_is_written_first_as_running(store):
    assert os.listdir(store.path) == ["manifest.json"]
    assert RunStore.open(store.path).manifest.status == "running"


def test_each_file_is_in_the_manifest_before_the_next_one_starts(store):
    store.write_result("verdict", VERDICT)
    unfinished = RunStore.open(store.path)
    unfinished.verify()
    assert unfinished.read_result("verdict", Verdict) == VERDICT


def test_killed_run_is_intact_says_running_and_can_go_on(tmp_path):
    script = (
        "import sys\n"
        "from tests.evidence.samples import VERDICT, manifest\n"
        "from insular.evidence import RunStore\n"
        "store = RunStore.create(sys.argv[1], manifest())\n"
        "for n in range(10**9):\n"
        "    store.write_result(f'verdict-{n % 3}', VERDICT)\n"
    ).replace("tests.evidence.samples", f"{__package__}.samples")
    path = tmp_path / "run"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    for delay in (0.0, 0.004, 0.009):
        target = path / str(delay)
        with subprocess.Popen([sys.executable, "-c", script, target], env=environment) as writer:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and not (target / "verdict-2.json").exists():
                time.sleep(0.002)
            time.sleep(delay)
            os.kill(writer.pid, signal.SIGKILL)
        killed = RunStore.open(target)
        assert killed.manifest.status == "running"
        killed.verify()
        for name in ("verdict-0", "verdict-1", "verdict-2"):
            assert not killed.has_result(name) or killed.read_result(name, Verdict) == VERDICT
        killed.write_result("verdict-9", VERDICT)
        killed.finish("complete")
        assert not list(target.glob(".*"))


@pytest.mark.parametrize("writes", [0, 1, 2, 3])
def test_manifest_is_true_whenever_the_run_dies(store, monkeypatch, writes):
    left = iter(range(writes))

    def die_after_some(path, data):
        if next(left, None) is None:
            raise SystemExit
        write_atomic(path, data)

    store.write_result("verdict", VERDICT)
    with monkeypatch.context() as patch:
        patch.setattr("insular.evidence.store.write_atomic", die_after_some)
        try:
            store.write_result("verdict", replace(VERDICT, n=4))
        except SystemExit:
            assert writes < 3
    after = RunStore.open(store.path)
    after.verify()
    n = {0: 3, 3: 4}.get(writes)
    assert after.has_result("verdict") == (n is not None)
    assert n is None or after.read_result("verdict", Verdict).n == n


@pytest.mark.parametrize("victim", ["verdict.json", "report.html", "arrays"])
def test_changed_file_is_detected(store, victim):
    store.write_result("verdict", VERDICT)
    ref = store.write_arrays("gradients", {"own": np.zeros(4)})
    store.write_text("report.html", "<p></p>")
    store.finish("complete")
    file = ref.file if victim == "arrays" else victim
    content = bytearray((store.path / file).read_bytes())
    content[-2] ^= 1
    (store.path / file).write_bytes(content)

    changed = RunStore.open(store.path)
    with pytest.raises(EvidenceError) as caught:
        changed.verify()
    assert str(caught.value) == f"{store.path} is not as it was written: {file} was changed."
    readers = {
        "verdict.json": lambda: changed.read_result("verdict", Verdict),
        "report.html": lambda: changed.read_text("report.html"),
        "arrays": lambda: changed.read_arrays(ref),
    }
    with pytest.raises(EvidenceError, match="was changed: its sha256 is not the one in the"):
        readers[victim]()


def test_verify_names_every_problem_at_once(store):
    for n in range(7):
        store.write_text(f"{n}.txt", "x")
        (store.path / f"{n}.txt").unlink()
    with pytest.raises(EvidenceError) as caught:
        store.verify()
    assert "0.txt is missing, 1.txt is missing" in str(caught.value)
    assert str(caught.value).endswith("4.txt is missing and 2 more.")


def test_run_whose_file_changed_cannot_be_finished_as_complete(store):
    store.write_result("verdict", VERDICT)
    (store.path / "verdict.json").write_text("{}")
    with pytest.raises(EvidenceError, match="verdict.json was changed"):
        store.finish("complete")
    store.finish("failed")
    assert RunStore.open(store.path).manifest.status == "failed"


def test_folder_of_something_else_is_refused_and_untouched(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("x")
    before = listing(tmp_path)
    with pytest.raises(EvidenceError) as caught:
        RunStore.create(tmp_path / "thesis", manifest())
    assert str(caught.value) == (
        f"{tmp_path / 'thesis'} exists and is not a run folder; choose another --out."
    )
    with pytest.raises(EvidenceError, match="is not a run folder: it has no manifest.json"):
        RunStore.open(tmp_path / "thesis")
    with pytest.raises(EvidenceError, match="is not a run folder; choose another --out"):
        RunStore.create(tmp_path / "thesis" / "chapter.tex", manifest())
    with pytest.raises(EvidenceError, match="cannot use .*: Not a directory"):
        RunStore.create(tmp_path / "thesis" / "chapter.tex" / "run", manifest())
    assert listing(tmp_path) == before


def test_folder_of_another_run_is_refused_and_untouched(store):
    store.write_result("verdict", VERDICT)
    before = listing(store.path)
    with pytest.raises(EvidenceError) as caught:
        RunStore.create(store.path, manifest("other"))
    assert str(caught.value) == (
        f"{store.path} already holds a run (audit.isolation, running); open that run to resume "
        "it or choose another --out."
    )
    assert listing(store.path) == before


def test_missing_and_empty_folders_are_accepted(tmp_path):
    (tmp_path / "empty").mkdir()
    RunStore.create(tmp_path / "empty", manifest())
    RunStore.create(tmp_path / "a" / "b", manifest())
    with pytest.raises(EvidenceError, match="nowhere is not a run folder"):
        RunStore.open(tmp_path / "nowhere")


def test_finished_run_refuses_writes_until_reopened(store):
    store.write_result("verdict", VERDICT)
    store.finish("complete")
    again = RunStore.open(store.path)
    with pytest.raises(EvidenceError, match="is a finished run; reopen it to write report.html"):
        again.write_text("report.html", "x")
    again.reopen()
    assert RunStore.open(store.path).manifest.status == "running"
    again.write_text("report.html", "x")
    again.finish("complete")
    assert set(RunStore.open(store.path).manifest.files) == {"verdict.json", "report.html"}


def test_result_can_be_replaced(store):
    store.write_result("verdict", VERDICT)
    store.write_result("verdict", replace(VERDICT, n=4))
    store.finish("complete")
    assert RunStore.open(store.path).read_result("verdict", Verdict).n == 4


def test_failures_are_kept_in_order_on_one_line(store):
    for n in range(11):
        store.record_failure("repair: nf4/cpu", f"kernel {n}\n  is missing")
    assert "failures/01-repair-nf4-cpu.json" in store.manifest.files
    store.finish("failed")
    found = RunStore.open(store.path).failures()
    assert [failure.message for failure in found] == [f"kernel {n} is missing" for n in range(11)]
    assert found[0].stage == "repair: nf4/cpu"


def test_full_disk_keeps_what_was_written(tmp_path):
    with small_disk(tmp_path) as disk:
        store = RunStore.create(disk / "run", manifest())
        store.write_result("verdict", VERDICT)
        with pytest.raises(EvidenceError, match="cannot write .*: No space left on device"):
            store.write_arrays("gradients", {"own": np.zeros(100_000)})
        with pytest.raises(EvidenceError, match="No space left on device"):
            store.write_text("verdict.json", "x" * 100_000)
        back = RunStore.open(disk / "run")
        back.verify()
        assert back.read_result("verdict", Verdict) == VERDICT
        store.record_failure("arrays", "No space left on device.")
        store.finish("failed")
        assert RunStore.open(disk / "run").manifest.status == "failed"


def test_full_disk_at_the_start_leaves_no_half_run(tmp_path):
    with small_disk(tmp_path) as disk:
        (disk / "ballast").write_bytes(bytes(64 * 1024))
        with pytest.raises(EvidenceError, match="No space left on device"):
            RunStore.create(disk / "run", manifest())
        (disk / "ballast").unlink()
        RunStore.create(disk / "run", manifest())


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "manifest.json is not JSON"),
        ("{}", "manifest.json: schema_version is missing (the first of"),
        ("[]", "manifest.json: RunManifest must be"),
    ],
)
def test_broken_manifest_is_one_clear_line(store, text, part):
    (store.path / "manifest.json").write_text(text)
    with pytest.raises(EvidenceError) as caught:
        RunStore.open(store.path)
    assert part in str(caught.value) and "\n" not in str(caught.value)


def test_manifest_that_points_outside_its_folder_is_refused(store, tmp_path):
    (tmp_path / "secret").write_text("x")
    content = json.loads((store.path / "manifest.json").read_text())
    content["files"] = {"../../secret": "ab" * 32}
    write_atomic(store.path / "manifest.json", json.dumps(content))
    with pytest.raises(EvidenceError, match="lists a file outside its folder"):
        RunStore.open(store.path).verify()


def test_unlisted_file_is_not_evidence(store):
    (store.path / "forged.json").write_text('{"value": 0, "axis": "shape", "record": null}')
    with pytest.raises(EvidenceError, match="has no forged.json: the manifest does not list it"):
        store.read_result("forged", Distance)
    assert not store.has_result("forged")


@pytest.mark.parametrize("name", ["../a", "a/b", "", "manifest"])
def test_bad_names_are_refused(store, name):
    with pytest.raises(InvalidArgumentError, match="got name="):
        store.write_result(name, VERDICT)
