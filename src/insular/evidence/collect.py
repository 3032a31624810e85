"""Read what a manifest states from the machine, the installed packages and the checkout."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from insular.evidence.manifest import SCHEMA_VERSION, InputFact, MachineFacts, RunManifest

DEFAULT_PACKAGES = (
    "accelerate",
    "bitsandbytes",
    "gguf",
    "numpy",
    "opacus",
    "peft",
    "pydantic",
    "safetensors",
    "tokenizers",
    "torch",
    "torchao",
    "transformers",
)
"""Packages that can change a number in a result."""


def collect_manifest(
    kind: str,
    name: str,
    *,
    command: tuple[str, ...],
    inputs: tuple[InputFact, ...],
    seed: int | None,
    packages: tuple[str, ...] = DEFAULT_PACKAGES,
    cuda_devices: tuple[str, ...] = (),
) -> RunManifest:
    """Describe a run that starts now, on this machine.

    Guarantees:
        * Package versions are read from what is installed; nothing is imported.
        * The revision is this package's own: it is None for an installed copy, also when the
          environment lies inside some other checkout.

    Args:
        kind: What runs, such as ``"audit.isolation"``.
        name: Name of the run.
        command: The command as typed.
        inputs: What is read.
        seed: Seed of the run, or None.
        packages: Packages whose versions to note, where installed.
        cuda_devices: Names of the visible CUDA devices, which only the caller can know.

    Returns:
        A manifest with status ``"running"`` and no files.
    """
    versions = {package: _version(package) for package in packages}
    return RunManifest(
        schema_version=SCHEMA_VERSION,
        kind=kind,
        name=name,
        status="running",
        created_utc=datetime.now(UTC),
        finished_utc=None,
        command=command,
        insular_version=_version("insular") or "not installed",
        code_revision=code_revision(Path(__file__).parent),
        python=platform.python_version(),
        platform=platform.platform(),
        machine=_machine(cuda_devices),
        packages={package: found for package, found in versions.items() if found},
        inputs=inputs,
        seed=seed,
        files={},
    )


def code_revision(folder: Path) -> str | None:
    """The git commit of a folder whose files git tracks.

    Args:
        folder: Folder of source code.

    Returns:
        The commit, with ``+changes`` if a file of the folder differs from it; None if git does
        not track the folder or is not there.
    """
    tracked = _git(folder, "ls-files", "--", ".")
    commit = _git(folder, "rev-parse", "HEAD") if tracked else None
    if not commit:
        return None
    return commit + ("+changes" if _git(folder, "status", "--porcelain", "--", ".") else "")


def _git(folder: Path, *arguments: str) -> str | None:
    """What a git command prints, or None if it fails."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _version(package: str) -> str | None:
    """The installed version of a package, or None."""
    from importlib import metadata  # slow to import

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def available_cores() -> int:
    """Cores that this process may use, which a container may limit.

    Returns:
        At least 1.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _machine(cuda_devices: tuple[str, ...]) -> MachineFacts:
    """The facts that the standard library can find."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        memory = None
    return MachineFacts(
        cpu_model=_cpu_model(),
        logical_cores=available_cores(),
        memory_bytes=memory,
        cuda_devices=cuda_devices,
    )


def _cpu_model() -> str:
    """The processor's name, which Python itself does not know on Linux."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
