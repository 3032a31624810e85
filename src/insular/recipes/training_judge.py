"""What the games against a training run prove, held against its promise."""

from typing import TYPE_CHECKING, cast

from insular.accounting import TradeoffCurve
from insular.audit.rates import bonferroni, largest_epsilon
from insular.audit.statistics import epsilon_bounds, tradeoff_bound
from insular.audit.training_attack_results import GameFinding, GameShard, beyond
from insular.audit.training_game import Scores
from insular.audit.training_power import excess_power
from insular.errors import EvidenceError
from insular.evidence import ArrayRef, RunStore, digest_array
from insular.recipes.training_games import Game

if TYPE_CHECKING:
    pass

WANTED = 0.95
"""Probability to refute that the needed scores are to reach."""
MARGIN = 1e-4
"""How far above 1 a measured ratio counts as an excess."""


def judge(
    game: Game,
    scores: Scores,
    shards: tuple[GameShard, ...] = (),
    *,
    claim: TradeoffCurve,
    epsilon: float,
    delta: float,
    excess: float,
    significance: float,
) -> GameFinding:
    """Hold one game's scores against what is promised.

    Guarantees:
        * Curve and point have half of the error probability each: a run that keeps its promise, and
          whose scores are independent, is refuted with probability ``significance`` at most.

    Args:
        game: The game.
        scores: Its scores.
        shards: Where they come from.
        claim: The promised curve.
        epsilon: The promised epsilon at ``delta``.
        delta: Of the point.
        excess: For canaries, the sensitivity over the promised one that should be seen.
        significance: Error probability of curve and point together.

    Returns:
        The bounds, and what so many scores could have shown.
    """
    each = bonferroni(significance, 2)
    without, with_record = scores.without, scores.with_record
    bound = tradeoff_bound(without, with_record, claim=claim, significance=each)
    (point,) = epsilon_bounds(without, with_record, deltas=(delta,), significance=each)
    allowed, refuted = beyond(bound, claim)
    wanted = excess if game.name == "canaries" else game.ratio
    chance, needed = None, None
    if wanted > 1 + MARGIN:
        # the rule's unit weighs ``ratio`` of what is promised
        power = excess_power(
            game.rule,
            steps=game.plan.steps,
            claim=claim,
            ratio=wanted / game.ratio,
            significance=each,
        )
        chance = power.chance(min(len(without), len(with_record)))
        needed = power.draws_needed(WANTED)
    n_judged = min(len(without), len(with_record)) // 2
    return GameFinding(
        game=game.name,
        stack=game.stack,
        n_canaries=game.n_canaries,
        n_params=game.training().n_params,
        ratio=game.ratio,
        tradeoff=bound,
        allowed_rate=allowed,
        curve_refuted=refuted,
        point=point,
        claimed_epsilon=epsilon,
        largest_epsilon=largest_epsilon(n_judged, significance=each / 2, delta=delta),
        excess=wanted if wanted > 1 + MARGIN else None,
        chance=chance,
        draws_needed=needed,
        shards=shards,
    )


def scores_of(shards: list[GameShard], store: RunStore) -> Scores:
    """The scores of every shard, one after another.

    Args:
        shards: The shards.
        store: The run that keeps them.

    Returns:
        The scores.

    Raises:
        EvidenceError: If they are not the ones that were drawn.
    """
    import numpy as np

    found: dict[str, list[np.ndarray]] = {"without": [], "with": []}
    for shard in shards:
        arrays = store.read_arrays(cast(ArrayRef, shard.scores))
        digests = {"without": shard.digest_without, "with": shard.digest_with}
        for side, mine in found.items():
            if digest_array(arrays[side]) != digests[side]:
                raise EvidenceError(
                    f"{store.path} holds other scores than were drawn for {shard.game}, shard"
                    f" {shard.shard + 1}."
                )
            mine.append(arrays[side])
    return Scores(
        without=np.concatenate(found["without"]), with_record=np.concatenate(found["with"])
    )
