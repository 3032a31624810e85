"""The answer of an inversion for the terminal."""

from typing import TYPE_CHECKING

from insular.hidden.inversion_results import InversionResult, StoreResult
from insular.recipes._inversion_words import (
    KINDS,
    answer_sentences,
    interval_words,
    verdict_words,
)

if TYPE_CHECKING:
    from rich.console import RenderableType


def inversion_blocks(result: InversionResult) -> "tuple[RenderableType, ...]":
    """The answer, and text where it was asked for.

    Args:
        result: The inversion.

    Returns:
        What the console prints, in order.
    """
    from insular.reports import terminal

    shown = [
        (one.record_id, one.recovered_text, one.true_text or "")
        for one in result.prompts
        if one.recovered_text is not None
    ]
    return (
        terminal.verdict_panel(
            verdict_words(result), kind=KINDS[result.exit_code], lines=answer_sentences(result)
        ),
        *((terminal.table(("Prompt", "Recovered", "True"), shown),) if shown else ()),
    )


def store_blocks(result: StoreResult) -> "tuple[RenderableType, ...]":
    """What a store loses and still tells.

    Args:
        result: The measurement.

    Returns:
        What the console prints, in order.
    """
    release = (
        "clean"
        if result.budget_nats is None
        else f"{result.mechanism}, {result.budget_nats:.3g} nats to first order"
    )
    return (
        f"{result.n_states:,} states, {release}, kept in {result.storage}.",
        f"Of the clean index's {result.k} neighbours {interval_words(result.recall)} are found.",
        f"The attacker names {interval_words(result.attack_top1)} of the kept rows among"
        f" {result.n_states:,} candidates.",
    )
