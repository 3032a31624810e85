"""What the games against a training run prove, held against its promise."""

from typing import TYPE_CHECKING, cast

from insular.accounting import TradeoffCurve
from insular.audit.statistics.rates import bonferroni, largest_epsilon
from insular.audit.statistics.scores import epsilon_bounds, tradeoff_bound
from insular.audit.training.game import Scores
from insular.audit.training.power import excess_power
from insular.audit.training.results import SCORES, GameFinding, GameShard, beyond
from insular.errors import EvidenceError
from insular.evidence import ArrayRef, RunStore, digest_array
from insular.recipes.attack.training.games import Game

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
        * Curve and point, each for both scores, have a quarter of the error probability: a run that
          keeps its promise, and whose scores are independent, is refuted with probability
          ``significance`` at most.

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
    each = bonferroni(significance, 2 * len(SCORES))
    pairs = list(zip(scores.without, scores.with_record, strict=True))
    bounds = [tradeoff_bound(*pair, claim=claim, significance=each) for pair in pairs]
    points = [epsilon_bounds(*pair, deltas=(delta,), significance=each)[0] for pair in pairs]
    # all of them hold together, so that the furthest may be taken after the fact
    best = max(range(len(SCORES)), key=lambda i: bounds[i].tpr.lower - beyond(bounds[i], claim)[0])
    allowed, refuted = beyond(bounds[best], claim)
    n_draws = min(scores.without.shape[1], scores.with_record.shape[1])
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
        chance = power.chance(n_draws)
        needed = power.draws_needed(WANTED)
    return GameFinding(
        game=game.name,
        stack=game.stack,
        n_canaries=game.n_canaries,
        n_params=game.training().n_params,
        ratio=game.ratio,
        score=SCORES[best],
        tradeoff=bounds[best],
        allowed_rate=allowed,
        curve_refuted=refuted,
        point=max(points, key=lambda point: point.epsilon_lower_bound),
        claimed_epsilon=epsilon,
        largest_epsilon=largest_epsilon(n_draws // 2, significance=each / 2, delta=delta),
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
        without=np.concatenate(found["without"], 1), with_record=np.concatenate(found["with"], 1)
    )
