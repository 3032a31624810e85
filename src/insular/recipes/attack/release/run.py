"""``insular attack release``: draw an audited pair's releases, hold them against the promise."""

from collections.abc import Sequence
from pathlib import Path

from insular.audit.audit_results import AuditResult
from insular.errors import EvidenceError
from insular.evidence import InputFact, RunStore
from insular.recipes.attack.release.draws import (
    AuditedPair,
    released_step,
    shard_tasks,
    start_adapter,
)
from insular.recipes.attack.release.judge import judge_stack
from insular.recipes.attack.release.page import release_page
from insular.recipes.attack.release.results import ReleaseResult
from insular.recipes.attack.release.spec import ReleaseSpec
from insular.recipes.audit import run as audits
from insular.recipes.inputs import Progress, silent
from insular.recipes.run_folder import (
    RESULT,
    begin_or_continue,
    run_fact,
    run_status,
    write_run_page,
)
from insular.recipes.tasks import run_tasks

KIND = "attack.release"


def attack_releases(
    spec: ReleaseSpec,
    out: Path,
    *,
    command: Sequence[str],
    workers: int = 1,
    progress: Progress | None = None,
) -> ReleaseResult:
    """Release an audited pair many times and bound from below what the releases tell.

    Guarantees:
        * The audit's files are verified first, and none of them is changed.
        * A shard that was drawn is not drawn again; the numbers do not depend on ``workers``.
        * ``out`` holds ``run.toml``, every statistic with its seed and digest, the adapter that
          each release started from, ``results.json`` and the page.
        * All trade-off bounds of a run hold together with probability 1 - significance.

    Args:
        spec: What to release, how often, and what is promised.
        out: Folder of the evidence: new, empty, or an unfinished run of the same spec.
        command: The command as typed, for the manifest.
        workers: Processes that draw shards side by side, of one thread each.
        progress: Called from this process.

    Returns:
        The result.

    Raises:
        EvidenceError: If the audit cannot be used, or ``out`` holds another run.
    """
    report = progress or silent
    pair = open_pair(Path(spec.run))
    arms = pair.arms(spec.stacks)
    store = begin_or_continue(
        KIND, out, spec, command=command, inputs=_facts(pair), other="another audit"
    )
    with run_status(store, stage="attack"):
        start, words = start_adapter(pair, report=report)
        steps = [released_step(pair, arm, spec, start) for arm in arms]
        store.write_arrays("start", {"adapter": start})
        tasks = [shard_tasks(spec, arm.stack, step) for arm, step in zip(arms, steps, strict=True)]
        shards = run_tasks(sum(tasks, []), store, workers=workers, progress=report)
        stacks = []
        for arm, step, mine in zip(arms, steps, tasks, strict=True):
            drawn, shards = shards[: len(mine)], shards[len(mine) :]
            report("", f"bounds for {arm.stack}")
            stacks.append(judge_stack(spec, arm, step, drawn, store=store, n_stacks=len(arms)))
        result = ReleaseResult(
            spec=spec,
            record=pair.sensitivity.screen.selected.record,
            n_baseline=len(pair.sensitivity.screen.baseline),
            clip_norm=steps[0].clip_norm,
            noise_multiplier=steps[0].noise_multiplier,
            expected_batch_size=steps[0].expected_batch_size,
            n_params=len(start),
            start=words,
            stacks=tuple(stacks),
        )
        store.write_result(RESULT, result)
        store.finish("complete")
    write_page(store)
    return result


def open_pair(run: Path) -> AuditedPair:
    """Read the pair that an audit validated.

    Args:
        run: Folder of the audit.

    Returns:
        The pair.

    Raises:
        EvidenceError: If it is no complete audit with a sensitivity part.
    """
    store = RunStore.open(run)
    if store.manifest.kind != audits.KIND or store.manifest.status != "complete":
        raise EvidenceError(
            f"{run} must hold a complete {audits.KIND} run, got a {store.manifest.status}"
            f" {store.manifest.kind} run."
        )
    store.verify()
    result = store.read_result(RESULT, AuditResult)
    if result.sensitivity is None:
        raise EvidenceError(
            f"{run} must have a sensitivity part, whose pair is released; it has none: audit with"
            " --parts isolation,sensitivity."
        )
    return AuditedPair(
        audit=audits.read_spec(store), result=result, sensitivity=result.sensitivity, store=store
    )


def write_page(store: RunStore) -> Path:
    """Render the page of a finished run from its evidence alone.

    Args:
        store: The run.

    Returns:
        The page's path.
    """
    result = store.read_result(RESULT, ReleaseResult)
    return write_run_page(store, lambda manifest: release_page(result, manifest))


def _facts(pair: AuditedPair) -> tuple[InputFact, ...]:
    """The audit by the digest of its results, which name every array by digest."""
    return (run_fact("audit", pair.store.path),)
