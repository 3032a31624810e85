"""What attacks on a training run proved, for its card."""

from collections.abc import Sequence
from pathlib import Path

from insular.audit.training_attack_results import TrainingAttackResult
from insular.errors import EvidenceError
from insular.evidence import RunManifest, RunStore
from insular.evidence.card import LowerBound

KIND, RESULT, INPUT = "attack.training", "results", "training"


def lower_bounds(attacks: Sequence[Path], manifest: RunManifest) -> tuple[LowerBound, ...] | None:
    """The bounds of complete attacks on one training run.

    Args:
        attacks: Their folders.
        manifest: The training run.

    Returns:
        A bound for each game; None without an attack.

    Raises:
        EvidenceError: If a folder holds no such attack, or one on another run.
    """
    if not attacks:
        return None
    return tuple(bound for folder in attacks for bound in _bounds(folder, manifest))


def _bounds(folder: Path, manifest: RunManifest) -> tuple[LowerBound, ...]:
    """The bounds of one attack."""
    store = RunStore.open(folder)
    if store.manifest.kind != KIND or store.manifest.status != "complete":
        raise EvidenceError(
            f"attack {folder} must be a complete run of insular attack training, got a "
            f"{store.manifest.status} run ({store.manifest.kind})."
        )
    attacked = {fact.sha256 for fact in store.manifest.inputs if fact.name == INPUT}
    if attacked != {manifest.files.get(f"{RESULT}.json")}:
        raise EvidenceError(
            f"attack {folder} must be one on this run, got one on another; name the right folder."
        )
    result = store.read_result(RESULT, TrainingAttackResult)
    return tuple(
        LowerBound(
            attack=f"training, {found.game}",
            epsilon_lower_bound=found.point.epsilon_lower_bound,
            delta=found.point.delta,
            significance=result.significance,
            refutes=found.verdict == "refuted",
            evidence_sha256=store.manifest.files[f"{RESULT}.json"],
        )
        for found in result.games
    )
