"""One process at a time in a folder."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from insular.errors import EvidenceError
from insular.recipes.folder_lock import alone_in

pytest.importorskip("fcntl", reason="this platform has no such locks")

HOLDER = """
import sys
from pathlib import Path
from insular.recipes.folder_lock import alone_in
with alone_in(Path(sys.argv[1]), doing="writing into", option="--out"):
    print("held", flush=True)
    sys.stdin.read()
"""


def take(folder: Path) -> None:
    with alone_in(folder, doing="writing into", option="--out"):
        pass


def test_of_two_who_ask_the_second_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    with alone_in(folder, doing="writing into", option="--out"):
        with pytest.raises(EvidenceError, match="another run is writing into .*folder; wait"):
            take(folder)
        take(tmp_path)  # another folder
    take(folder)


def test_the_folder_is_free_after_an_error_and_holds_no_file(tmp_path: Path) -> None:
    with pytest.raises(KeyError), alone_in(tmp_path, doing="writing into", option="--out"):
        raise KeyError
    take(tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_folder_is_free_again_where_its_process_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        with pytest.raises(EvidenceError, match="choose another --out"):
            take(tmp_path)
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
    take(tmp_path)


def test_a_file_in_place_of_the_folder_is_one_clear_line(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(EvidenceError, match="cannot use .*file"):
        take(file)
