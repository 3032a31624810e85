"""The answer of an audit by one run for the terminal."""

from typing import TYPE_CHECKING

from insular.audit.one_run.results import OneRunResult
from insular.recipes.attack.one_run._words import (
    VERDICT_KINDS,
    chance_sentence,
    curve_sentence,
    epsilon_sentence,
    guessed,
    method_sentences,
    verdict_sentences,
)
from insular.recipes.attack.release._words import count

if TYPE_CHECKING:
    from rich.console import RenderableType


def one_run_blocks(result: OneRunResult) -> "tuple[RenderableType, ...]":
    """The verdict on the promise, with what it rests on.

    Args:
        result: The audit.

    Returns:
        What the console prints, in order.
    """
    from insular.reports import terminal

    rows = [
        (
            f"{guessed(one.counts)}{', reversed' if one.reversed else ''}",
            f"{one.correct}/{one.counts.n}",
            f"{one.epsilon_lower_bound:.3f}",
            f"{one.largest_epsilon:.3f}",
            f"{one.mu_lower_bound:.3f}",
            f"{one.largest_mu:.3f}",
        )
        for one in result.bound.attempts
    ]
    bound = result.bound
    seconds = result.played.seconds
    return (
        terminal.verdict_panel(
            result.verdict,
            kind=VERDICT_KINDS[result.verdict],
            lines=list(verdict_sentences(result)),
        ),
        terminal.table(
            ("Guesses", "Right", "Epsilon >", "Provable", "mu >", "Provable"),
            rows,
            numeric=(1, 2, 3, 4, 5),
            title=f"{count(bound.n_canaries)} canaries, {count(bound.n_present)} of them present",
        ),
        epsilon_sentence(result),
        curve_sentence(result),
        chance_sentence(result),
        f"The repetition took {seconds:.1f} s.",
        "",
        *method_sentences(result),
    )
