"""The write-ahead log of a run: what is released is on disk before it is released.

One line of JSON for each noisy sum, hash-chained. What the run cost is computed from it alone, so
a run that is killed and resumed, at any moment, has spent what its log says.
"""

import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import TypedDict, Unpack, final

from insular.accounting import NoiseSource
from insular.errors import EvidenceError
from insular.evidence import decode, encode_json, write_atomic
from insular.evidence.files import explained, read_bytes
from insular.training.results import ReleaseEntry, SamplerFacts


class ReleaseFacts(TypedDict):
    """The fields of ``ReleaseEntry`` that come from the run; the log adds the others."""

    start: int
    step: int
    sampler: SamplerFacts
    slot: int | None
    n_units: int
    n_records: int
    clip_norm: float
    influence: float
    noise_std: float
    noise_rms: float
    n_params: int
    divisor: float
    noise_source: NoiseSource


@final
@dataclass(frozen=True, kw_only=True)
class LogHead:
    """The last line of a log. Kept elsewhere, it shows that lines were taken off the end."""

    number: int = 0
    """Its number; 0 for an empty log."""
    sha256: str = ""
    """Its digest; empty for an empty log."""


@final
@dataclass(frozen=True)
class _Content:
    """A log as read."""

    entries: list[ReleaseEntry]
    digests: list[str]
    size_bytes: int
    n_cut_bytes: int


@final
class ExecutedLog:
    """The log of one run, with one writer.

    Guarantees:
        * An entry is on disk before ``append`` returns. If it raises, nothing was recorded and
          nothing may be released.
        * A line that was edited, deleted, moved or cut is refused on opening, where a later line
          or a kept head can show it.
        * A last line that was never finished, because the process was killed while writing it, was
          not followed by a release: opening for writing cuts it off, and ``cut`` says so.
        * A second writer is refused by its first append, or refuses the first writer's next one.
        * An append costs the same however long the log is.
    """

    def __init__(self, path: Path, content: _Content) -> None:
        """Use ``create`` or ``open``."""
        self._path = path
        self._entries = content.entries
        self._size = content.size_bytes
        self._head = LogHead(
            number=len(content.entries), sha256=content.digests[-1] if content.digests else ""
        )
        self.cut = (
            f"{path}: an unfinished last line of {content.n_cut_bytes} bytes was cut off; no "
            "release followed it."
            if content.n_cut_bytes
            else ""
        )
        """What opening repaired, in one sentence; empty if nothing."""

    @classmethod
    def create(cls, path: str | Path) -> "ExecutedLog":
        """Start an empty log.

        Args:
            path: A file that does not exist yet, in a folder that does.

        Returns:
            The log.

        Raises:
            EvidenceError: If the file exists or cannot be made.
        """
        path = Path(path)
        with explained(path, doing="create"), open(path, "xb"):
            pass  # of two processes, one gets the name
        write_atomic(path, b"")  # which then reaches the disk with its folder
        return cls(path, _Content([], [], 0, 0))

    @classmethod
    def open(cls, path: str | Path, *, head: LogHead | None = None) -> "ExecutedLog":
        """Go on with a log.

        Args:
            path: The file.
            head: What a checkpoint kept: the log must hold that very line.

        Returns:
            The log, read and checked.

        Raises:
            EvidenceError: If the file cannot be read, is damaged, or lacks the kept line.
        """
        path = Path(path)
        content = _read(path, head)
        if content.n_cut_bytes:
            with explained(path, doing="write"), open(path, "r+b") as file:
                file.truncate(content.size_bytes)
                os.fsync(file.fileno())
        return cls(path, content)

    @property
    def head(self) -> LogHead:
        """Number and digest of the last line."""
        return self._head

    @property
    def n_entries(self) -> int:
        """Releases that may have happened."""
        return self._head.number

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    def entries(self) -> tuple[ReleaseEntry, ...]:
        """Every release that may have happened.

        Returns:
            The entries, oldest first.
        """
        return tuple(self._entries)

    def append(self, **facts: Unpack[ReleaseFacts]) -> ReleaseEntry:
        """Put a release on disk, before it happens.

        Args:
            **facts: The fields of ``ReleaseEntry`` besides ``number``, ``previous`` and
                ``time_utc``.

        Returns:
            The entry.

        Raises:
            EvidenceError: If it cannot be written, or another process wrote in the meantime.
        """
        entry = ReleaseEntry(
            number=self._head.number + 1,
            previous=self._head.sha256,
            time_utc=datetime.now(UTC),
            **facts,
        )
        line = _line(entry)
        with explained(self._path, doing="write"), open(self._path, "r+b", buffering=0) as file:
            if file.seek(0, os.SEEK_END) != self._size:
                raise EvidenceError(
                    f"{self._path} was changed by another process: it is no longer as long as it "
                    "was left. Let one process write, and open the log again."
                )
            try:
                written = file.write(line + b"\n")
                if written != len(line) + 1:
                    raise EvidenceError(
                        f"cannot write {self._path}: the disk is full. Free some space and resume."
                    )
                os.fsync(file.fileno())
            except BaseException:
                file.truncate(self._size)
                raise
        self._size += len(line) + 1
        self._head = LogHead(number=entry.number, sha256=sha256(line).hexdigest())
        self._entries.append(entry)
        return entry


def read_log(path: str | Path, *, head: LogHead | None = None) -> tuple[ReleaseEntry, ...]:
    """Read a log without touching it; an unfinished last line is left out.

    Args:
        path: The file.
        head: As for ``ExecutedLog.open``.

    Returns:
        The entries, oldest first.

    Raises:
        EvidenceError: As for ``ExecutedLog.open``.
    """
    return tuple(_read(Path(path), head).entries)


def _line(entry: ReleaseEntry) -> bytes:
    """An entry as the text that is stored and hashed."""
    return json.dumps(encode_json(entry), separators=(",", ":"), ensure_ascii=True).encode()


def _read(path: Path, head: LogHead | None) -> _Content:
    """Every complete line, each checked against the one before."""
    data = read_bytes(path)
    complete, _, rest = data.rpartition(b"\n")
    lines = complete.split(b"\n") if complete or data.startswith(b"\n") else []
    entries: list[ReleaseEntry] = []
    digests: list[str] = []
    for number, line in enumerate(lines, start=1):
        entry = decode(ReleaseEntry, line, source=f"{path} line {number}")
        previous = digests[-1] if digests else ""
        if entry.number != number or entry.previous != previous or _line(entry) != line:
            raise EvidenceError(
                f"{path} was changed: line {number} does not follow from the lines before it. "
                "Restore the log; without it nobody knows what the run has spent."
            )
        entries.append(entry)
        digests.append(sha256(line).hexdigest())
    if head is not None and head.number:
        if len(digests) < head.number:
            raise EvidenceError(
                f"{path} is behind the checkpoint: it ends with release {len(digests)}, the "
                f"checkpoint was made after release {head.number}. Restore the log; the missing "
                "releases are spent."
            )
        if digests[head.number - 1] != head.sha256:
            raise EvidenceError(
                f"{path} is not the checkpoint's log: its release {head.number} is another one. "
                "Use the log and the checkpoint of one run."
            )
    return _Content(entries, digests, len(data) - len(rest), len(rest))
