"""The answer of an attack on a training run for the terminal."""

from typing import TYPE_CHECKING

from insular.audit.training.results import TrainingAttackResult
from insular.recipes._numbers import short
from insular.recipes.attack.release._words import KINDS, count
from insular.recipes.attack.training._words import (
    GAMES,
    chance_sentence,
    epsilon_sentence,
    method_sentences,
    speed,
    verdict_sentences,
)

if TYPE_CHECKING:
    from rich.console import RenderableType


def training_blocks(result: TrainingAttackResult) -> "tuple[RenderableType, ...]":
    """The verdict on the promise, with what it rests on.

    Args:
        result: The attack.

    Returns:
        What the console prints, in order.
    """
    from insular.reports import terminal

    curves = [
        (
            GAMES[game.game],
            f"{game.tradeoff.fpr.upper:.4f}",
            f"{game.tradeoff.tpr.lower:.4f}",
            f"{game.allowed_rate:.4f}",
            "refuted" if game.curve_refuted else "not refuted",
        )
        for game in result.games
    ]
    points = [
        (
            GAMES[game.game],
            short(game.point.delta),
            f"{game.point.epsilon_lower_bound:.3f}",
            f"{game.claimed_epsilon:.3f}",
            f"{game.largest_epsilon:.3f}",
            "refuted" if game.point_refuted else "not refuted",
        )
        for game in result.games
    ]
    return (
        terminal.verdict_panel(
            result.verdict, kind=KINDS[result.verdict], lines=list(verdict_sentences(result))
        ),
        terminal.table(
            ("Game", "FPR <", "TPR >", "Allowed", "Verdict"),
            curves,
            numeric=(1, 2, 3),
            title="The whole trade-off curve",
        ),
        terminal.table(
            ("Game", "Delta", "At least", "Promised", "Provable", "Verdict"),
            points,
            numeric=(1, 2, 3, 4),
            title="The one point, in epsilon",
        ),
        *(epsilon_sentence(game) for game in result.games),
        *(chance_sentence(game) for game in result.games),
        *(
            f"{GAMES[game.game]}: {count(game.n_scores)} scores, {speed(game):,.0f} a second and"
            " process."
            for game in result.games
        ),
        "",
        *method_sentences(result),
    )
