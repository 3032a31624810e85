"""The executed log: on disk first, whole or refused."""

import json
import os
import signal
import subprocess
import sys
import typing
from dataclasses import fields
from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insular.errors import EvidenceError
from insular.training import executed_log
from insular.training.executed_log import ExecutedLog, LogHead, ReleaseFacts, read_log
from insular.training.results import ReleaseEntry
from training.log_samples import facts, log_of


def test_the_run_gives_every_field_but_the_log_s_own() -> None:
    mine = {f.name: f.type for f in fields(ReleaseEntry)}
    for own in ("number", "previous", "time_utc"):
        del mine[own]
    assert typing.get_type_hints(ReleaseFacts) == mine


def test_what_is_appended_is_read_back(tmp_path) -> None:
    log = log_of(tmp_path / "log", 5)
    again = ExecutedLog.open(tmp_path / "log", head=log.head)
    assert again.entries() == log.entries() == read_log(tmp_path / "log")
    assert [e.number for e in again.entries()] == [1, 2, 3, 4, 5]
    assert (again.n_entries, again.head, again.cut) == (5, log.head, "")
    again.append(**facts(5))
    assert read_log(tmp_path / "log", head=again.head) == again.entries()


def test_lines_are_plain_json_that_names_the_line_before(tmp_path) -> None:
    log = log_of(tmp_path / "log", 3)
    lines = (tmp_path / "log").read_bytes().splitlines()
    assert [json.loads(line)["previous"] for line in lines] == [
        "",
        sha256(lines[0]).hexdigest(),
        sha256(lines[1]).hexdigest(),
    ]
    assert log.head == LogHead(number=3, sha256=sha256(lines[2]).hexdigest())


def test_an_empty_log(tmp_path) -> None:
    log = ExecutedLog.create(tmp_path / "log")
    assert log.head == LogHead() and log.entries() == ()
    assert ExecutedLog.open(tmp_path / "log", head=LogHead()).entries() == ()


def test_create_refuses_a_file_that_exists(tmp_path) -> None:
    log_of(tmp_path / "log", 1)
    with pytest.raises(EvidenceError, match=r"cannot create .*log: File exists"):
        ExecutedLog.create(tmp_path / "log")
    with pytest.raises(EvidenceError, match=r"cannot read .*none: No such file"):
        ExecutedLog.open(tmp_path / "none")
    assert len(read_log(tmp_path / "log")) == 1


def test_an_unfinished_last_line_is_cut_off_and_said(tmp_path) -> None:
    path = tmp_path / "log"
    head = log_of(path, 3).head
    whole = path.read_bytes()
    for torn in (b"{", b'{"number":4,"previous":"ab', b"\x00" * 10):
        path.write_bytes(whole + torn)
        assert len(read_log(path)) == 3
        assert path.read_bytes() == whole + torn  # reading touches nothing
        log = ExecutedLog.open(path, head=head)
        assert f"unfinished last line of {len(torn)} bytes was cut off" in log.cut
        assert path.read_bytes() == whole
    assert log.append(**facts(3)).number == 4


CONTENT = {}


def damaged(lines: list[bytes]) -> dict[str, list[bytes]]:
    swapped = [lines[0], lines[2], lines[1], *lines[3:]]
    return {
        "edited": [lines[0], lines[1].replace(b'"n_units":16', b'"n_units":15'), *lines[2:]],
        "spaced": [lines[0], lines[1].replace(b",", b", ", 1), *lines[2:]],
        "deleted": lines[:1] + lines[2:],
        "first deleted": lines[1:],
        "reordered": swapped,
        "repeated": [*lines[:2], lines[1], *lines[2:]],
        "cut in the middle": [lines[0], lines[1][:40], *lines[2:]],
        "blank": [lines[0], b"", *lines[1:]],
        "not text": [lines[0], b"\xff\xfe", *lines[1:]],
    }


@pytest.mark.parametrize("kind", sorted(damaged([b"{}"] * 4)))
def test_damage_is_refused_in_one_line(tmp_path, kind: str) -> None:
    path = tmp_path / "log"
    log_of(path, 4)
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join(damaged(lines)[kind]) + b"\n")
    with pytest.raises(EvidenceError) as caught:
        ExecutedLog.open(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


@settings(max_examples=40, deadline=None)
@given(place=st.integers(0, 10_000), value=st.integers(0, 255))
def test_any_changed_byte_before_the_last_line_is_refused(tmp_path_factory, place, value) -> None:
    if not CONTENT:
        path = tmp_path_factory.mktemp("log") / "log"
        log_of(path, 3)
        CONTENT[path] = path.read_bytes()
    ((path, whole),) = CONTENT.items()
    place %= whole.rindex(b"\n", 0, -1)
    if whole[place] == value:
        return
    path.write_bytes(whole[:place] + bytes([value]) + whole[place + 1 :])
    with pytest.raises(EvidenceError):
        ExecutedLog.open(path)


def test_lines_taken_off_the_end_are_seen_with_a_kept_head(tmp_path) -> None:
    path = tmp_path / "log"
    head = log_of(path, 4).head
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2]))
    assert ExecutedLog.open(path).n_entries == 2  # by itself it is a shorter log
    with pytest.raises(EvidenceError, match=r"ends with release 2, the checkpoint .* release 4"):
        ExecutedLog.open(path, head=head)


def test_an_edited_last_line_is_seen_with_a_kept_head(tmp_path) -> None:
    path = tmp_path / "log"
    head = log_of(path, 2).head
    whole = path.read_bytes()
    at = whole.rindex(b'"noise_std":0.1')
    path.write_bytes(whole[:at] + whole[at:].replace(b'"noise_std":0.1', b'"noise_std":0.9'))
    with pytest.raises(EvidenceError, match="is not the checkpoint's log: its release 2"):
        ExecutedLog.open(path, head=head)


def test_a_log_may_be_ahead_of_the_kept_head(tmp_path) -> None:
    log = log_of(tmp_path / "log", 2)
    head = log.head
    log.append(**facts(2))
    assert ExecutedLog.open(tmp_path / "log", head=head).n_entries == 3


def test_a_second_writer_is_found_out(tmp_path) -> None:
    one = log_of(tmp_path / "log", 1)
    two = ExecutedLog.open(tmp_path / "log")
    two.append(**facts(1))
    with pytest.raises(EvidenceError, match="was changed by another process"):
        one.append(**facts(1))
    assert read_log(tmp_path / "log") == two.entries()


def test_an_append_that_fails_records_nothing(tmp_path, monkeypatch) -> None:
    log = log_of(tmp_path / "log", 2)
    before, head = (tmp_path / "log").read_bytes(), log.head

    def fail(*_):
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patch:
        patch.setattr("insular.training.executed_log.os.fsync", fail)
        with pytest.raises(EvidenceError, match="No space left on device. Free some space"):
            log.append(**facts(2))
    assert (tmp_path / "log").read_bytes() == before
    assert (log.head, log.n_entries) == (head, 2)
    assert log.append(**facts(2)).number == 3


def test_an_entry_that_evidence_cannot_hold_is_refused(tmp_path) -> None:
    log = log_of(tmp_path / "log", 1)
    with pytest.raises(EvidenceError):
        log.append(**facts(1, n_units=True))
    assert read_log(tmp_path / "log") == log.entries()


def test_each_entry_is_on_disk_before_append_returns(tmp_path) -> None:
    # A process that is killed right after each append: its entry is there.
    code = (
        "import os, signal, sys; sys.path.insert(0, 'tests')\n"
        "from training.log_samples import facts\n"
        "from insular.training.executed_log import ExecutedLog\n"
        "log = ExecutedLog.create(sys.argv[1])\n"
        "for step in range(7): log.append(**facts(step))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "log")], timeout=120)
    assert done.returncode == -signal.SIGKILL
    assert len(read_log(tmp_path / "log")) == 7


def test_an_append_reads_no_earlier_line(tmp_path, monkeypatch) -> None:
    log = log_of(tmp_path / "log", 3)
    monkeypatch.setattr(executed_log, "_read", None)
    monkeypatch.setattr(executed_log, "read_bytes", None)
    assert log.append(**facts(3)).number == 4


def test_reading_a_log_needs_no_torch() -> None:
    code = (
        "import sys\n"
        "import insular.training.executed_log, insular.training.reconciliation\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0
