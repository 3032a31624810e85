"""``insular replay``: run an audit again from its evidence and compare every recorded distance."""

from dataclasses import dataclass
from pathlib import Path
from typing import final

from insular.audit.results import ArmResult, AuditResult, CaseResult, ExecutionPath
from insular.errors import EvidenceError
from insular.evidence import RunStore
from insular.recipes.arm import ArmOutput, forget_built, run_arm
from insular.recipes.audit import KIND, RESULT, read_spec, subject_arm
from insular.recipes.inputs import Progress, prepare_inputs, silent
from insular.recipes.parallel import Job, run_jobs


@final
@dataclass(frozen=True, kw_only=True)
class ReplayResult:
    """Whether a run came out the same again."""

    run: str
    """Folder of the run."""
    n_distances: int
    """Recorded distances that were compared."""
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
    arms = [recorded.subject, *(() if only_subject else recorded.repairs)]
    again: dict[str, ArmResult] = {}

    def finished(name: str, output: ArmOutput) -> None:
        again[name] = output.result
        report(name, "done")

    if spec.subject:
        finished(recorded.subject.arm, subject_arm(spec, inputs, report))
    else:
        jobs = [Job(name=arm.arm, work=run_arm, args=(spec, arm.arm, inputs.text)) for arm in arms]
        run_jobs(jobs, workers=workers, progress=report, finished=finished)
        forget_built()
    return _compare(str(run), arms, again)


def _compare(run: str, arms: list[ArmResult], again: dict[str, ArmResult]) -> ReplayResult:
    """Count equal distances, case by case."""
    total = same = 0
    mismatch, paths = "", []
    for arm in arms:
        new = again[arm.arm]
        paths += [f"{arm.arm}: {line}" for line in path_differences(arm.path, new.path)]
        for old_case, new_case in zip(arm.cases, new.cases, strict=True):
            pairs = list(zip(_distances(old_case), _distances(new_case), strict=True))
            equal = sum(repr(one) == repr(two) for one, two in pairs)
            total, same = total + len(pairs), same + equal
            if equal < len(pairs) and not mismatch:
                mismatch = f"{arm.arm}, {old_case.name}"
    return ReplayResult(
        run=run,
        n_distances=total,
        n_reproduced=same,
        path_differences=tuple(paths),
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


def _distances(case: CaseResult) -> list[float | None]:
    """Every distance that a case records."""
    return [
        case.sum_ratio,
        *(
            value
            for influence in case.influences
            for value in (
                influence.forward_max_abs,
                influence.gradient_relative,
                influence.clipped_distance,
            )
        ),
    ]
