"""What attacks on a training run proved, for its card."""

from collections.abc import Callable, Sequence
from pathlib import Path

from insular.audit.membership.results import MembershipResult
from insular.audit.one_run.results import OneRunResult
from insular.audit.training.results import TrainingAttackResult
from insular.errors import EvidenceError
from insular.evidence import RunManifest, RunStore
from insular.evidence.card import LowerBound

RESULT, INPUT = "results", "training"

Found = tuple[str, float, float, float, bool]
"""Name of an attack, epsilon at least, at this delta, error probability, whether it refutes."""


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
    if store.manifest.kind not in _READERS or store.manifest.status != "complete":
        raise EvidenceError(
            f"attack {folder} must be a complete run of insular attack training, one-run or "
            f"membership, got a {store.manifest.status} run ({store.manifest.kind})."
        )
    attacked = {fact.sha256 for fact in store.manifest.inputs if fact.name == INPUT}
    if attacked != {manifest.files.get(f"{RESULT}.json")}:
        raise EvidenceError(
            f"attack {folder} must be one on this run, got one on another; name the right folder."
        )
    return tuple(
        LowerBound(
            attack=attack,
            epsilon_lower_bound=epsilon,
            delta=delta,
            significance=significance,
            refutes=refutes,
            evidence_sha256=store.manifest.files[f"{RESULT}.json"],
        )
        for attack, epsilon, delta, significance, refutes in _READERS[store.manifest.kind](store)
    )


def _training(store: RunStore) -> list[Found]:
    """A bound for each game."""
    result = store.read_result(RESULT, TrainingAttackResult)
    return [
        (
            f"training, {found.game}",
            found.point.epsilon_lower_bound,
            found.point.delta,
            result.significance,
            found.verdict == "refuted",
        )
        for found in result.games
    ]


def _one_run(store: RunStore) -> list[Found]:
    """The point's bound; the curve may refute where the point does not."""
    result = store.read_result(RESULT, OneRunResult)
    bound = result.bound
    refutes = result.verdict == "refuted"
    return [
        ("one run", bound.epsilon_lower_bound, bound.delta, result.significance, refutes),
    ]


def _membership(store: RunStore) -> list[Found]:
    """The bound of the score that proved most."""
    result = store.read_result(RESULT, MembershipResult)
    best = result.best.epsilon
    refutes = result.verdict == "refuted"
    return [
        (
            f"membership, {result.best.score}",
            best.epsilon_lower_bound,
            best.delta,
            result.significance,
            refutes,
        )
    ]


_READERS: dict[str, Callable[[RunStore], list[Found]]] = {
    "attack.training": _training,
    "attack.one-run": _one_run,
    "attack.membership": _membership,
}
"""Kind of an attack to what reads its bounds."""
