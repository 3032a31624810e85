"""The answer on attribute inference for the terminal."""

from typing import TYPE_CHECKING

from insular.audit.attribute.results import AttributeResult
from insular.recipes.attack.attribute._words import (
    KINDS,
    answer_sentences,
    difference_text,
    method_sentences,
    rate_text,
)

if TYPE_CHECKING:
    from rich.console import RenderableType


def attribute_blocks(result: AttributeResult) -> "tuple[RenderableType, ...]":
    """Accuracies and differences.

    Args:
        result: The attack.

    Returns:
        What the console prints, in order.
    """
    from insular.reports import terminal

    rows = [("attack", rate_text(result.accuracy), "", "")]
    rows += [
        (row.baseline, rate_text(row.accuracy), difference_text(row), f"{row.p_value:.2g}")
        for row in result.comparisons
    ]
    return (
        terminal.verdict_panel(
            result.verdict, kind=KINDS[result.verdict], lines=answer_sentences(result)
        ),
        terminal.table(
            ("Who guesses", "Accuracy (95%)", "Attack is better by, points", "p"),
            rows,
            numeric=(1, 2, 3),
            title=f"{result.attribute}, of {result.n_values} values",
        ),
        *method_sentences(result),
    )
