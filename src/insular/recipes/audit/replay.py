"""``insular replay``: run an audit again from its evidence and compare every recorded distance."""

from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import final

from insular.audit.audit_results import AuditResult
from insular.audit.isolation.results import ExecutionPath
from insular.errors import EvidenceError
from insular.evidence import RunStore
from insular.recipes.audit.comparison import measured
from insular.recipes.audit.plan import measure
from insular.recipes.audit.run import KIND, read_spec
from insular.recipes.inputs import Progress, prepare_inputs, silent
from insular.recipes.run_folder import RESULT
from insular.recipes.tasks import repeat_tasks


@final
@dataclass(frozen=True, kw_only=True)
class ReplayResult:
    """Whether a run came out the same again."""

    run: str
    """Folder of the run."""
    n_distances: int
    """Recorded numbers and digests that were compared, times left out."""
    n_reproduced: int
    """Those that came out exactly the same."""
    path_differences: tuple[str, ...]
    """How the path that ran now differs from the recorded one, in words; empty if it does not."""
    first_mismatch: str
    """Arm and case of the first distance that differs; empty if none does."""

    @property
    def reproduced(self) -> bool:
        """Whether every distance is the same."""
        return self.n_reproduced == self.n_distances

    @property
    def exit_code(self) -> int:
        """0: reproduced; 1: not, on the same path; 2: not, and the path differs."""
        if self.reproduced:
            return 0
        return 2 if self.path_differences else 1


def replay(
    run: Path,
    *,
    only_subject: bool = False,
    workers: int = 1,
    progress: Progress | None = None,
) -> ReplayResult:
    """Repeat a recorded audit and compare.

    Guarantees:
        * The recorded files are verified first, and nothing in the folder is changed.
        * The inputs must have the recorded digests.

    Args:
        run: Folder of a complete run.
        only_subject: Leave the repairs out.
        workers: Processes that run arms side by side.
        progress: Called with an arm and a line.

    Returns:
        The comparison.

    Raises:
        EvidenceError: If the run is not complete, was changed, or its inputs are others now.
    """
    store = RunStore.open(run)
    if store.manifest.kind != KIND or store.manifest.status != "complete":
        raise EvidenceError(
            f"{run} must hold a complete {KIND} run to be replayed, got a"
            f" {store.manifest.status} {store.manifest.kind} run."
        )
    store.verify()
    report = progress or silent
    spec = read_spec(store)
    recorded = store.read_result(RESULT, AuditResult)
    inputs = prepare_inputs(spec, report)
    if inputs.facts != store.manifest.inputs:
        pairs = zip(inputs.facts, store.manifest.inputs, strict=False)
        changed = [now.name for now, then in pairs if now != then]
        raise EvidenceError(
            f"{run} was made from other inputs: {', '.join(changed) or 'their number'} changed;"
            " restore them to replay."
        )
    run_again = partial(repeat_tasks, workers=1 if spec.subject else workers, progress=report)
    again = measure(spec, inputs, run_again, only_subject=only_subject)
    return _compare(str(run), _same_arms(recorded, again), again)


def _same_arms(recorded: AuditResult, again: AuditResult) -> AuditResult:
    """The recorded result without the arms that did not run again."""
    names = {arm.arm for arm in again.repairs}
    sensitivity = recorded.sensitivity
    if sensitivity is not None:
        kept = (arm for arm in sensitivity.arms[1:] if arm.stack in names)
        sensitivity = replace(sensitivity, arms=(sensitivity.arms[0], *kept))
    repairs = tuple(arm for arm in recorded.repairs if arm.arm in names)
    return replace(recorded, repairs=repairs, sensitivity=sensitivity)


def _compare(run: str, recorded: AuditResult, again: AuditResult) -> ReplayResult:
    """Count equal numbers, arm by arm and part by part."""
    total = same = 0
    mismatch = ""
    now = measured(again)
    for name, old in measured(recorded).items():
        pairs = list(zip_longest(old, now.get(name, [])))
        for one, two in pairs:
            if repr(one) == repr(two):
                same += 1
            elif not mismatch:
                mismatch = f"{name}, {(one or two)[0]}"
        total += len(pairs)
    arms = zip((recorded.subject, *recorded.repairs), (again.subject, *again.repairs), strict=False)
    return ReplayResult(
        run=run,
        n_distances=total,
        n_reproduced=same,
        path_differences=tuple(
            f"{old.arm}: {line}"
            for old, new in arms
            for line in path_differences(old.path, new.path)
        ),
        first_mismatch=mismatch,
    )


def path_differences(recorded: ExecutionPath, now: ExecutionPath) -> list[str]:
    """How one path differs from another, a line each.

    Args:
        recorded: Path of the evidence.
        now: Path that ran now.

    Returns:
        Lines such as ``threads 1 then, 2 now``; empty if the paths are the same.
    """
    lines = [
        f"{name} {getattr(recorded, name)} then, {getattr(now, name)} now"
        for name in ("device", "mode", "dtype", "shapes", "threads")
        if getattr(recorded, name) != getattr(now, name)
    ]
    for kind in ("versions", "operators"):
        old, new = getattr(recorded, kind), getattr(now, kind)
        lines += [
            f"{key} {old.get(key, 'absent')} then, {new.get(key, 'absent')} now"
            for key in sorted({*old, *new})
            if old.get(key) != new.get(key)
        ]
    return lines
