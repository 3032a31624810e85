"""The answer of a sweep over release mechanisms for the terminal."""

from typing import TYPE_CHECKING

from insular.recipes.hidden.sweep._words import (
    answer_sentences,
    clean_sentence,
    low_rank_sentence,
    prediction_sentences,
)
from insular.recipes.hidden.sweep.results import SweepResult, Winner

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
        1: "not for every layer" if result.in_the_middle else "no release is useful and private",
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
            f"KL {winner.value:g}" if winner.matched == "kl" else f"epsilon {winner.value:g}",
            _some(winner),
            f"{'top-1' if winner.matched == 'kl' else 'KL'} {winner.measure:.2g}",
            str(winner.n_compared),
        )
        for winner in result.winners
    ]
    return (
        terminal.verdict_panel(
            words[code],
            kind=kinds[code],
            lines=[*answer_sentences(result), clean_sentence(result)],
        ),
        terminal.table(
            ("Layer", "Unchanged top-1", "G_mah", "its null", f"E_{_rank(result)}", "its null"),
            layers,
            numeric=(0, 1, 2, 3, 4, 5),
            title="Layers before any release",
        ),
        "G_mah: the most that Gaussian noise of any shape gains over isotropic noise, on average. "
        f"E_{_rank(result)}: share of what the model reads in its top directions. Null: the same "
        "of data without structure.\n",
        terminal.table(
            ("Layer", "At equal", "Best, and as good", "At", "Compared"),
            best,
            numeric=(0, 4),
            title="Best mechanisms: least top-1 at equal KL, least KL at equal epsilon",
        ),
        *(text for text in (low_rank_sentence(result), *prediction_sentences(result)) if text),
    )


def _rank(result: SweepResult) -> int:
    """Directions of the subspace."""
    return result.layers[0].geometry.rank


def _some(winner: Winner) -> str:
    """A few names, and how many more; none where nothing tells them apart."""
    names = winner.mechanisms
    if len(names) == winner.n_compared:
        return "no difference"
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return ", ".join(names[:2]) + more
