"""The releases of an audited pair as tasks: what is released, in which shards."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, final

from insular.audit.audit_results import AuditResult
from insular.audit.sensitivity.results import SensitivityResult, ValidatedArm
from insular.errors import EvidenceError, InvalidArgumentError
from insular.evidence import ArrayRef, RunStore, digest_array
from insular.recipes.attack.release.results import ReleaseShard
from insular.recipes.attack.release.spec import ReleaseSpec, Statistic
from insular.recipes.audit.sensitivity import Report
from insular.recipes.audit.spec import AuditSpec
from insular.recipes.inputs import Progress
from insular.recipes.parallel import Job, intra_op_threads
from insular.recipes.tasks import Output, Task

if TYPE_CHECKING:
    import numpy as np

    from insular.audit.release.draws import ReleasedStep


@final
@dataclass(frozen=True, kw_only=True)
class AuditedPair:
    """What an audit left to release."""

    audit: AuditSpec
    """Its settings."""
    result: AuditResult
    """What it found."""
    sensitivity: SensitivityResult
    """The part that has the pair."""
    store: RunStore
    """Its folder."""

    def arms(self, names: tuple[str, ...]) -> tuple[ValidatedArm, ...]:
        """The validated arms of some stacks.

        Args:
            names: The stacks; empty for the one under test and its first repair.

        Returns:
            The arms, in that order.

        Raises:
            InvalidArgumentError: If the audit has no such arm, or one that does not count.
        """
        found = {arm.stack: arm for arm in self.sensitivity.arms}
        wanted = names or tuple(found)[:2]
        for name in wanted:
            if name not in found:
                raise InvalidArgumentError(
                    f"stacks must be arms of {self.store.path}, which has {', '.join(found)}; got"
                    f" {name}."
                )
            failed = [check.name for check in found[name].checks if not check.passed]
            if failed or found[name].gradients is None:
                why = f"its check failed: {failed[0]}" if failed else "its gradients were not kept"
                raise InvalidArgumentError(
                    f"stacks must have a valid pair, got {name}: {why}; leave it out with --stack."
                )
        return tuple(found[name] for name in wanted)


def start_adapter(pair: AuditedPair, *, report: Progress) -> "tuple[np.ndarray, str]":
    """The adapter before the step, built again as the audit built it.

    Args:
        pair: The audit.
        report: Called with a line before long steps.

    Returns:
        One float32 number a coordinate, and where they come from.

    Raises:
        EvidenceError: If the model is not the audited one.
    """
    import numpy as np

    spec, manifest = pair.audit, pair.result.subject.manifest
    if spec.subject:
        return (
            np.zeros(manifest.n_params, dtype=np.float32),
            "zeros: the audited callable does not say where its parameters start",
        )
    from insular.models.loading import load_decoder
    from insular.models.lora import add_lora
    from insular.models.spec import LoraSpec
    from insular.models.structure import trainable
    from insular.precision.stock import quiet_bitsandbytes

    report("", f"loading {spec.model} for its adapter")
    with quiet_bitsandbytes():
        decoder = load_decoder(spec.model, progress=lambda line: report("", line))
    if decoder.digest != manifest.model_digest:
        raise EvidenceError(
            f"{spec.model} must be the audited model to start from its adapter, got another digest."
        )
    lora = LoraSpec(
        rank=spec.lora_rank,
        targets=spec.lora_targets,
        init_b_std=spec.lora_b_std,
        seed=spec.seed,
    )
    with quiet_bitsandbytes():
        parts = trainable(add_lora(decoder, lora))
    if tuple(parts) != manifest.trainable:
        raise EvidenceError(
            f"{pair.store.path} has other adapter layers than {spec.model} gets now; audit it"
            " again."
        )
    flat = [p.detach().cpu().numpy().reshape(-1) for p in parts.values()]
    return np.concatenate(flat).astype(np.float32), f"the audit's own adapter, seed {spec.seed}"


def released_step(
    pair: AuditedPair, arm: ValidatedArm, spec: ReleaseSpec, start: "np.ndarray"
) -> "ReleasedStep":
    """The step whose releases are drawn, from one arm's saved gradients.

    Args:
        pair: The audit.
        arm: The stack.
        spec: The attack.
        start: The adapter before the step.

    Returns:
        The step.

    Raises:
        InvalidArgumentError: If the two clipped sums are the same.
    """
    from insular.audit.release.draws import ReleasedStep, clipped_sums

    assert arm.gradients is not None
    radius = arm.radii[0].radius
    stabiliser = pair.result.subject.manifest.stabiliser
    sums = clipped_sums(pair.store.read_arrays(arm.gradients), radius=radius, stabiliser=stabiliser)
    step = ReleasedStep(
        start=start,
        sums=sums,
        clip_norm=radius,
        noise_multiplier=spec.noise_multiplier or pair.audit.noise_multiplier,
        expected_batch_size=spec.expected_batch_size or pair.audit.batch,
        learning_rate=spec.learning_rate,
    )
    if not step.mu:
        raise InvalidArgumentError(
            f"stacks must have a pair whose clipped sums differ, got {arm.stack}: the record adds"
            " nothing; leave it out with --stack."
        )
    return step


def shard_tasks(spec: ReleaseSpec, stack: str, step: "ReleasedStep") -> list[Task]:
    """The tasks that draw one stack's releases.

    Args:
        spec: The attack.
        stack: Name of the stack.
        step: Its step.

    Returns:
        For each shard, one task without the record and one with it.
    """
    tasks = []
    for shard, first in enumerate(range(0, spec.draws, spec.shard_draws)):
        n = min(spec.shard_draws, spec.draws - first)
        for with_record in (False, True):
            side = "with" if with_record else "without"
            arguments = (stack, step, spec.statistic, with_record, shard, n, spec.seed)
            slug = f"{stack.replace(':', '-')}-{side}-{shard + 1:03d}"
            tasks.append(
                Task(
                    job=Job(name=f"{stack} {side} {shard + 1}", work=run_shard, args=arguments),
                    slug=slug,
                    kind=ReleaseShard,
                    attach=_attach,
                )
            )
    return tasks


def run_shard(
    stack: str,
    step: "ReleasedStep",
    statistic: Statistic,
    with_record: bool,
    shard: int,
    n: int,
    seed: int,
    *,
    progress: Report,
) -> Output:
    """Draw one shard, on one thread.

    Args:
        stack: Name of the stack.
        step: Its step.
        statistic: What is drawn.
        with_record: Which neighbour.
        shard: Position of the shard.
        n: Releases.
        seed: Of the run.
        progress: Called with a short line now and then.

    Returns:
        A :class:`ReleaseShard`, and the statistic of every release.
    """
    import time

    from insular.audit.release.draws import Releaser, draw_exact_scalar, shard_seed

    own = shard_seed(seed, stack=stack, with_record=with_record, shard=shard)
    started = time.perf_counter()
    with intra_op_threads(1):
        if statistic == "exact-scalar":
            scores = draw_exact_scalar(step.mu, n, with_record=with_record, seed=own)
        else:
            tell = partial(_tell, progress, n)
            scores = Releaser(step).draw(n, with_record=with_record, seed=own, progress=tell)
    result = ReleaseShard(
        stack=stack,
        with_record=with_record,
        shard=shard,
        n=n,
        seed=own,
        mean=float(scores.mean()),
        std=float(scores.std()),
        digest=digest_array(scores),
        seconds=time.perf_counter() - started,
    )
    return Output(result=result, arrays={f"{stack.replace(':', '-')}-scores": {"scores": scores}})


def _attach(shard: ReleaseShard, refs: Mapping[str, ArrayRef]) -> ReleaseShard:
    """Put the reference of the saved statistics into a shard."""
    (scores,) = refs.values()
    return replace(shard, scores=scores)


def _tell(progress: Report, n: int, done: int) -> None:
    """One line about a shard."""
    progress(f"{done} of {n}")
