"""What a run was: when, where, with which code and inputs, and the digest of each file it made."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Literal, final

from insular.errors import EvidenceError
from insular.evidence.codec import decode, parse_json

SCHEMA_VERSION = 1
"""Version of the layout of a run folder. It grows when an older reader would misread it."""

RunStatus = Literal["running", "complete", "failed", "interrupted"]


@final
@dataclass(frozen=True, kw_only=True)
class MachineFacts:
    """The machine that ran."""

    cpu_model: str
    """Name of the processor, as the system gives it."""
    logical_cores: int
    """Cores that this process may use."""
    memory_bytes: int | None
    """Installed memory. None where the system does not say."""
    cuda_devices: tuple[str, ...] = ()
    """Names of the CUDA devices that were visible."""


@final
@dataclass(frozen=True, kw_only=True)
class InputFact:
    """One input by name and digest, never by content."""

    name: str
    """Its role, such as ``"text"`` or ``"model"``."""
    source: str
    """Path, package or model name that it was read from."""
    sha256: str | None
    """Digest of what was read. None if it was no file."""
    n_records: int | None = None
    """Records in it. None for an input that is not records."""
    size_bytes: int | None = None
    """Size of what was read."""


@final
@dataclass(frozen=True, kw_only=True)
class Failure:
    """A stage that could not be done, and why."""

    stage: str
    """What was tried."""
    message: str
    """One clear line."""
    at_utc: datetime
    """When it failed."""


@final
@dataclass(frozen=True, kw_only=True)
class RunManifest:
    """What a run was, and the digest of each file that it wrote."""

    schema_version: int
    """Layout of the folder."""
    kind: str
    """What ran, such as ``"audit.isolation"``."""
    name: str
    """Name of the run."""
    status: RunStatus
    """``"running"`` also after the process was killed."""
    created_utc: datetime
    """Start."""
    finished_utc: datetime | None
    """End. None while running, or if killed."""
    command: tuple[str, ...]
    """The command as typed."""
    insular_version: str
    """Version of this package."""
    code_revision: str | None
    """Git commit of the source checkout, with ``+changes`` if files differ. None if installed."""
    python: str
    """Version of the interpreter."""
    platform: str
    """Operating system and architecture."""
    machine: MachineFacts
    """Processor, memory, devices."""
    packages: dict[str, str]
    """Versions of the packages that can change a number, those installed."""
    inputs: tuple[InputFact, ...]
    """What was read."""
    seed: int | None
    """Seed of the run. None if it had none."""
    files: dict[str, str]
    """SHA-256 of each file of the run, by its path in the folder."""

    @property
    def identity(self) -> str:
        """Twelve hex digits that tell this run from any other, of its name and its start."""
        return sha256(f"{self.name} {self.created_utc.isoformat()}".encode()).hexdigest()[:12]

    @property
    def finished(self) -> bool:
        """Whether the run ended in an orderly way."""
        return self.status != "running"


def finish_manifest(
    manifest: RunManifest, status: RunStatus, *, files: dict[str, str]
) -> RunManifest:
    """The manifest of a run that ends now.

    Args:
        manifest: The manifest so far.
        status: How it ended.
        files: SHA-256 of each file, by its path in the folder.

    Returns:
        A new manifest, with its files in alphabetical order.
    """
    now = datetime.now(UTC) if status != "running" else None
    return replace(manifest, status=status, finished_utc=now, files=dict(sorted(files.items())))


def decode_manifest(text: bytes, *, source: str) -> RunManifest:
    """Read a manifest, naming a newer layout as such instead of by its first unknown field.

    Args:
        text: JSON in UTF-8.
        source: What the error calls it.

    Returns:
        The manifest.

    Raises:
        EvidenceError: If it is not a manifest of this or an older layout.
    """
    content = parse_json(text.decode("utf-8", errors="replace"), source=source)
    version = content.get("schema_version") if isinstance(content, dict) else None
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise EvidenceError(
            f"{source} has layout {version}, and this insular reads up to {SCHEMA_VERSION}; "
            "install a newer insular."
        )
    return decode(RunManifest, text, source=source)
