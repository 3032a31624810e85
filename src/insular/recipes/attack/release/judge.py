"""What the releases of one stack prove about what is promised for it."""

from typing import TYPE_CHECKING, cast

from insular.accounting import pair_epsilon
from insular.audit.release.power import chance_to_refute, draws_to_refute
from insular.audit.sensitivity.results import ValidatedArm
from insular.audit.statistics.rates import bonferroni
from insular.audit.statistics.scores import epsilon_bounds, tradeoff_bound
from insular.errors import EvidenceError
from insular.evidence import ArrayRef, RunStore, digest_array
from insular.recipes.attack.release.results import ReleaseShard, StackRelease
from insular.recipes.attack.release.spec import ReleaseSpec

if TYPE_CHECKING:
    import numpy as np

    from insular.audit.release.draws import ReleasedStep


def judge_stack(
    spec: ReleaseSpec,
    arm: ValidatedArm,
    step: "ReleasedStep",
    shards: list[ReleaseShard],
    *,
    store: RunStore,
    n_stacks: int,
) -> StackRelease:
    """Hold one stack's releases against what is promised.

    Args:
        spec: The attack.
        arm: The stack in the audit.
        step: Its step.
        shards: Its releases.
        store: The run that keeps them.
        n_stacks: Stacks that share the error probability.

    Returns:
        The bounds, and what so many draws could have shown.

    Raises:
        EvidenceError: If a shard's numbers are not the ones that were drawn.
    """
    without, with_record = (_scores(shards, side, store) for side in (False, True))
    claimed = 1 / step.noise_multiplier
    ratio = step.mu * step.noise_multiplier
    significance = bonferroni(spec.significance, n_stacks)
    margin = arm.radii[0].margin
    excess = ratio > 1 + margin
    return StackRelease(
        stack=arm.stack,
        ratio=ratio,
        margin=margin,
        claimed_mu=claimed,
        mu=step.mu,
        claimed_epsilons=tuple(pair_epsilon(claimed, delta) for delta in spec.deltas),
        shards=tuple(shards),
        tradeoff=tradeoff_bound(without, with_record, claim=claimed, significance=significance),
        points=epsilon_bounds(without, with_record, deltas=spec.deltas, significance=significance),
        chance=chance_to_refute(
            step.mu, claimed=claimed, draws=spec.draws, significance=significance
        )
        if excess
        else None,
        draws_needed=draws_to_refute(step.mu, claimed=claimed, significance=significance)
        if excess
        else None,
    )


def _scores(shards: list[ReleaseShard], with_record: bool, store: RunStore) -> "np.ndarray":
    """The statistics of one neighbour, shard after shard."""
    import numpy as np

    found = []
    for shard in shards:
        if shard.with_record == with_record:
            scores = store.read_arrays(cast(ArrayRef, shard.scores))["scores"]
            if digest_array(scores) != shard.digest:
                raise EvidenceError(
                    f"{store.path} holds other numbers than were drawn for {shard.stack}, shard"
                    f" {shard.shard + 1}."
                )
            found.append(scores)
    return np.concatenate(found)
