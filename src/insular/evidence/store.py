"""One folder per run: manifest first, then results, arrays and texts, each with its digest."""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, final

from insular.errors import EvidenceError
from insular.evidence import arrays as packing
from insular.evidence.codec import decode, encode
from insular.evidence.files import explained, read_bytes, remove_leftovers, sha256_of, write_atomic
from insular.evidence.folders import MANIFEST, checked_name, read_manifest, refuse_used
from insular.evidence.manifest import (
    Failure,
    RunManifest,
    RunStatus,
    finish_manifest,
)

if TYPE_CHECKING:
    import numpy as np

T = TypeVar("T")


@final
class RunStore:
    """The evidence of one run, in one folder with one writer.

    Guarantees:
        * The manifest is written first, as ``"running"``, so a killed run says that it was one.
        * Each file is complete, and its digest in the manifest, before the next one starts.
        * What is read is what was written: a file that differs from its digest is refused.
        * A folder that holds anything else is never touched.
        * A finished run refuses writes until it is reopened.
    """

    def __init__(self, path: Path, manifest: RunManifest) -> None:
        self._path = path
        self._manifest = manifest

    @classmethod
    def create(cls, path: str | Path, manifest: RunManifest) -> "RunStore":
        """Start a run in a new or empty folder.

        Args:
            path: The folder; its parents are made too.
            manifest: What ``collect_manifest`` returned.

        Returns:
            The store, open for writing.

        Raises:
            EvidenceError: If the folder is in use or cannot be made.
        """
        path = Path(path)
        store = cls(path, replace(manifest, files={}))
        with explained(path, doing="use"):
            refuse_used(path)
            path.mkdir(parents=True, exist_ok=True)
            (path / MANIFEST).touch(exist_ok=False)  # of two processes, one gets the folder
        try:
            store._update(finish_manifest(manifest, "running", files={}))
        except EvidenceError:
            (path / MANIFEST).unlink(missing_ok=True)
            raise
        return store

    @classmethod
    def open(cls, path: str | Path) -> "RunStore":
        """Open a run: to read it, or to go on writing if it is unfinished.

        Args:
            path: The folder.

        Returns:
            The store. Nothing is written, and no digest is checked yet.

        Raises:
            EvidenceError: If there is no manifest or it cannot be read.
        """
        return cls(Path(path), read_manifest(Path(path)))

    @property
    def path(self) -> Path:
        """The folder."""
        return self._path

    @property
    def manifest(self) -> RunManifest:
        """The manifest as last written or read."""
        return self._manifest

    def write_result(self, name: str, value: object) -> None:
        """Write a result dataclass as ``<name>.json``, replacing an earlier one.

        Args:
            name: Letters, digits, dot, dash and underscore.
            value: A frozen dataclass.
        """
        self._write(checked_name(f"{name}.json"), encode(value))

    def read_result(self, name: str, cls: type[T]) -> T:
        """Read ``<name>.json``; refused if it is absent, changed or not a ``cls``.

        Args:
            name: As for ``write_result``.
            cls: The dataclass.

        Returns:
            The result.
        """
        file = checked_name(f"{name}.json")
        return decode(cls, self._read(file), source=str(self._path / file))

    def has_result(self, name: str) -> bool:
        """Whether ``<name>.json`` was written and is there.

        Args:
            name: As for ``write_result``.

        Returns:
            True if it can be read, unless it was changed.
        """
        file = checked_name(f"{name}.json")
        return file in self._manifest.files and self._inside(file).is_file()

    def write_text(self, name: str, text: str) -> None:
        """Write a text file, such as ``report.html``, replacing an earlier one.

        Args:
            name: File name: letters, digits, dot, dash and underscore.
            text: Its content.
        """
        self._write(checked_name(name), text)

    def read_text(self, name: str) -> str:
        """Read a text file; refused if it is absent or changed.

        Args:
            name: As for ``write_text``.

        Returns:
            Its content.
        """
        return self._read(checked_name(name)).decode("utf-8")

    def adopt(self, file: str) -> str:
        """List a file that something else wrote into the folder, such as an adapter or a log.

        Args:
            file: Path within the folder.

        Returns:
            Its SHA-256, which the manifest holds from now on.

        Raises:
            EvidenceError: If it is not there, or lies outside the folder.
        """
        if self._manifest.finished:
            raise EvidenceError(f"{self._path} is a finished run; reopen it to add {file}.")
        place = self._inside(file)
        if not place.is_file():
            raise EvidenceError(f"{place} must be a file to be listed; it is not there.")
        digest = sha256_of(place)
        files = {name: known for name, known in self._manifest.files.items() if name != file}
        self._update(replace(self._manifest, files={**files, file: digest}))
        return digest

    def write_arrays(self, name: str, arrays: Mapping[str, "np.ndarray"]) -> packing.ArrayRef:
        """Write arrays as one safetensors file, named by its digest.

        Args:
            name: Letters, digits, dot, dash and underscore.
            arrays: Booleans or numbers by name, with any strides.

        Returns:
            The reference to put into a result.
        """
        ref, data = packing.pack(checked_name(name), arrays)
        self._write(ref.file, data)
        return ref

    def read_arrays(self, ref: packing.ArrayRef) -> dict[str, "np.ndarray"]:
        """Read the arrays that a result refers to; refused if they are not the same bytes.

        Args:
            ref: What ``write_arrays`` returned.

        Returns:
            Read-only arrays by name.
        """
        return packing.unpack(ref, self._read(ref.file))

    def record_failure(self, stage: str, message: str) -> None:
        """Keep what could not be done; nothing that was written before is lost.

        Args:
            stage: What was tried.
            message: Why it failed, without record text; put on one line.
        """
        failure = Failure(stage=stage, message=" ".join(message.split()), at_utc=datetime.now(UTC))
        slug = re.sub(r"[^A-Za-z0-9]+", "-", stage).strip("-")[:60] or "stage"
        self._write(f"failures/{len(self._failure_files()) + 1:02d}-{slug}.json", encode(failure))

    def failures(self) -> tuple[Failure, ...]:
        """Read the recorded failures.

        Returns:
            Them, in the order in which they happened.
        """
        files = self._failure_files()
        return tuple(decode(Failure, self._read(file), source=file) for file in files)

    def verify(self) -> None:
        """Check the digest of every file that the manifest lists.

        Raises:
            EvidenceError: Naming the files that are missing or were changed.
        """
        problems: list[str] = []
        for file, digest in self._manifest.files.items():
            place = self._inside(file)
            if not place.is_file():
                problems.append(f"{file} is missing")
            elif sha256_of(place) != digest:
                problems.append(f"{file} was changed")
        if problems:
            more = f" and {len(problems) - 5} more" if len(problems) > 5 else ""
            raise EvidenceError(
                f"{self._path} is not as it was written: {', '.join(problems[:5])}{more}."
            )

    def finish(self, status: RunStatus) -> None:
        """End the run. A run that ends as complete is verified first.

        Args:
            status: How it ended.
        """
        if status == "complete":
            self.verify()
        self._tidy()
        self._update(finish_manifest(self._manifest, status, files=self._manifest.files))

    def reopen(self) -> None:
        """Make a finished run writable again; it says ``"running"`` until it is finished."""
        self._tidy()
        self._update(finish_manifest(self._manifest, "running", files=self._manifest.files))

    def _write(self, file: str, data: bytes | str) -> None:
        """Write one file and note its digest; at each moment the manifest is true."""
        if self._manifest.finished:
            raise EvidenceError(f"{self._path} is a finished run; reopen it to write {file}.")
        content = data.encode("utf-8") if isinstance(data, str) else data
        place = self._inside(file)
        before = self._manifest
        others = {name: digest for name, digest in before.files.items() if name != file}
        if file in before.files:  # if killed between the next two writes, nothing untrue is listed
            self._update(replace(before, files=others))
        try:
            with explained(place, doing="write"):
                place.parent.mkdir(exist_ok=True)
            write_atomic(place, content)
        except EvidenceError:
            if file in before.files:
                self._update(before)
            raise
        self._update(replace(before, files={**others, file: sha256(content).hexdigest()}))

    def _read(self, file: str) -> bytes:
        """Read one listed file whose digest still holds."""
        if file not in self._manifest.files:
            raise EvidenceError(f"{self._path} has no {file}: the manifest does not list it.")
        content = read_bytes(self._inside(file))
        if sha256(content).hexdigest() != self._manifest.files[file]:
            raise EvidenceError(
                f"{self._path / file} was changed: its sha256 is not the one in the manifest."
            )
        return content

    def _inside(self, file: str) -> Path:
        """The path of a file, which a manifest from elsewhere may try to point outside."""
        place = self._path / file
        if not place.resolve().is_relative_to(self._path.resolve()):
            raise EvidenceError(f"{self._path / MANIFEST} lists a file outside its folder.")
        return place

    def _failure_files(self) -> list[str]:
        """The files of failures, oldest first."""
        return sorted(
            (file for file in self._manifest.files if file.startswith("failures/")),
            key=lambda file: int(re.sub(r"\D.*", "", file.removeprefix("failures/")) or 0),
        )

    def _update(self, manifest: RunManifest) -> None:
        """Write the manifest, then keep it."""
        write_atomic(self._path / MANIFEST, encode(manifest))
        self._manifest = manifest

    def _tidy(self) -> None:
        """Remove what killed writes left."""
        for folder in (self._path, self._path / "arrays", self._path / "failures"):
            if folder.is_dir():
                remove_leftovers(folder)
