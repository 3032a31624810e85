"""The answer of a sweep over release mechanisms for the terminal."""

from typing import TYPE_CHECKING

from insular.recipes._hidden_words import (
    answer_sentences,
    clean_sentence,
    low_rank_sentence,
    prediction_sentences,
)
from insular.recipes.hidden_results import SweepResult

if TYPE_CHECKING:
    from rich.console import RenderableType

    from insular.reports.terminal import VerdictKind


def sweep_blocks(result: SweepResult) -> "tuple[RenderableType, ...]":
    """The answer, layers, winners and what was foretold.

    Args:
        result: The sweep.

    Returns:
        What the console prints, in order.
    """
    from insular.reports import terminal

    kinds: dict[int, VerdictKind] = {0: "good", 1: "bad", 2: "open"}
    words = {
        0: "each layer has a useful and private release",
        1: "the middle is empty" if not result.in_the_middle else "not for every layer",
        2: "nothing was measured",
    }
    code = result.exit_code
    layers = [
        (
            str(layer.layer),
            f"{layer.clean[0].top_1.value:.3f}",
            f"{layer.geometry.adaptive_gain.value:.2f}",
            f"{layer.geometry.adaptive_gain.null.mean:.2f}",
            f"{layer.geometry.fisher_energy.value:.2f}",
            f"{layer.geometry.fisher_energy.null.mean:.2f}",
        )
        for layer in result.layers
    ]
    best = [
        (
            str(winner.layer),
            f"{winner.matched} {winner.value:g}",
            _some(winner.mechanisms),
            f"{'found' if winner.matched == 'kl' else 'KL'} {winner.measure:.2g}",
            str(winner.n_compared),
        )
        for winner in result.winners
    ]
    return (
        terminal.verdict_panel(
            words[code], kind=kinds[code], lines=[clean_sentence(result), *answer_sentences(result)]
        ),
        terminal.table(
            ("Layer", "Clean top-1", "G_mah", "null", "E_k", "null"),
            layers,
            numeric=(0, 1, 2, 3, 4, 5),
            title="Layers, each number beside what data without structure gives",
        ),
        terminal.table(
            ("Layer", "At equal", "Best, and as good", "Of it", "Of"),
            best,
            numeric=(0, 4),
            title="Best mechanisms",
        ),
        *(text for text in (low_rank_sentence(result), *prediction_sentences(result)) if text),
    )


def _some(names: tuple[str, ...]) -> str:
    """A few names, and how many more."""
    more = f" +{len(names) - 2}" if len(names) > 2 else ""
    return ", ".join(names[:2]) + more
