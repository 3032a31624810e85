"""Files: the old one or the new one, whatever happens."""

import errno
import hashlib
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from insular.errors import EvidenceError, InvalidArgumentError
from insular.evidence import digest_array, sha256_of, write_atomic
from insular.evidence.files import remove_leftovers

SIZE = 300_000


@contextmanager
def small_disk(folder):
    """A real file system of 64 KiB."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True)
    except OSError as error:
        pytest.skip(f"no mount command: {error.strerror}")
    if done.returncode:
        pytest.skip(f"mounting is not permitted: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_writes_bytes_and_text(tmp_path):
    write_atomic(tmp_path / "a", b"\x00\xff")
    write_atomic(tmp_path / "b", "é\r\n")
    assert (tmp_path / "a").read_bytes() == b"\x00\xff"
    assert (tmp_path / "b").read_bytes() == b"\xc3\xa9\r\n"
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_new_file_has_ordinary_permissions(tmp_path):
    write_atomic(tmp_path / "a", "x")
    (tmp_path / "b").write_text("x")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def test_full_disk_leaves_the_old_file(tmp_path):
    with small_disk(tmp_path) as disk:
        write_atomic(disk / "result.json", b"old")
        with pytest.raises(EvidenceError) as caught:
            write_atomic(disk / "result.json", bytes(SIZE))
        assert str(caught.value) == (
            f"cannot write {disk / 'result.json'}: No space left on device. "
            "Free some space and run again."
        )
        assert (disk / "result.json").read_bytes() == b"old"
        assert os.listdir(disk) == ["result.json"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS])
def test_failing_system_call_leaves_the_old_file(tmp_path, monkeypatch, call, code):
    def fail(*_):
        raise OSError(code, os.strerror(code))

    write_atomic(tmp_path / "a", b"old")
    with monkeypatch.context() as patch:
        patch.setattr(f"insular.evidence.files.os.{call}", fail)
        with pytest.raises(EvidenceError) as caught:
            write_atomic(tmp_path / "a", b"new")
    assert os.strerror(code) in str(caught.value) and str(tmp_path / "a") in str(caught.value)
    assert (tmp_path / "a").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


def test_interrupt_leaves_the_old_file(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    write_atomic(tmp_path / "a", b"old")
    with monkeypatch.context() as patch:
        patch.setattr("insular.evidence.files.os.fsync", interrupt)
        with pytest.raises(KeyboardInterrupt):
            write_atomic(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


def test_missing_folder_is_one_clear_line(tmp_path):
    with pytest.raises(EvidenceError) as caught:
        write_atomic(tmp_path / "no" / "a", b"")
    assert str(caught.value) == (
        f"cannot write {tmp_path / 'no' / 'a'}: No such file or directory."
    )
    with pytest.raises(EvidenceError, match="cannot read .*: No such file or directory"):
        sha256_of(tmp_path / "a")


def test_killed_writer_leaves_a_complete_file(tmp_path):
    script = (
        "import sys\n"
        "from insular.evidence import write_atomic\n"
        "n = 0\n"
        "while True:\n"
        "    n += 1\n"
        f"    write_atomic(sys.argv[1], bytes([n % 256]) * {SIZE})\n"
    )
    target = tmp_path / "a"
    for round_ in range(5):
        with subprocess.Popen([sys.executable, "-c", script, str(target)]) as writer:
            deadline = time.monotonic() + 30
            before = target.stat().st_mtime_ns if target.exists() else 0
            while time.monotonic() < deadline:
                if target.exists() and target.stat().st_mtime_ns != before:
                    break
                time.sleep(0.002)
            time.sleep(0.003 * round_)
            os.kill(writer.pid, signal.SIGKILL)
        content = target.read_bytes()
        assert len(content) == SIZE and len(set(content)) == 1
    remove_leftovers(tmp_path)
    assert os.listdir(tmp_path) == ["a"]


def test_sha256_of_is_the_files_digest(tmp_path):
    (tmp_path / "a").write_bytes(b"abc" * 100_000)
    assert sha256_of(tmp_path / "a") == hashlib.sha256(b"abc" * 100_000).hexdigest()


def test_digest_array_worked_example():
    array = np.array([[1, 2]], dtype=np.int16)
    expected = hashlib.sha256(b"<i2 (1, 2) " + b"\x01\x00\x02\x00").hexdigest()
    assert digest_array(array) == expected


@given(hnp.arrays(st.sampled_from([np.float32, np.int64, np.bool_]), hnp.array_shapes(min_dims=0)))
def test_digest_array_ignores_strides_and_byte_order(array):
    expected = digest_array(np.ascontiguousarray(array).reshape(array.shape))
    assert digest_array(np.asfortranarray(array).reshape(array.shape)) == expected
    assert digest_array(np.repeat(array[..., None], 2, axis=-1)[..., 0]) == expected
    assert digest_array(array.astype(array.dtype.newbyteorder(">"))) == expected


def test_digest_array_sees_dtype_shape_and_the_sign_of_zero():
    arrays = [
        np.zeros(2, np.float32),
        np.zeros(2, np.int32),
        np.zeros((1, 2), np.float32),
        np.zeros((2, 1), np.float32),
        np.array([0.0, -0.0], np.float32),
        np.zeros(0, np.float32),
        np.zeros((0, 3), np.float32),
        np.float32(0).reshape(()),
    ]
    assert len({digest_array(array) for array in arrays}) == len(arrays)


@pytest.mark.parametrize("dtype", [object, "U3", "M8[s]", np.longdouble])
def test_digest_array_refuses_other_elements(dtype):
    with pytest.raises(InvalidArgumentError, match="array must hold plain numbers, got dtype="):
        digest_array(np.zeros(2, dtype))
