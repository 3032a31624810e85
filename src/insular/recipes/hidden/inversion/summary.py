"""The answer of an inversion for the terminal."""

from typing import TYPE_CHECKING

from insular.hidden.inversion.results import InversionCell, InversionResult
from insular.hidden.utility.intervals import MeanInterval
from insular.recipes._numbers import amount
from insular.recipes.hidden.inversion._words import KINDS, answer_sentences, verdict_words

if TYPE_CHECKING:
    from rich.console import RenderableType

_WHY = {
    "too_weak": "too weak",
    "too_strong": "too strong",
    "jumps": "jumps",
    "not fitted": "not fitted",
    "given": "given",
    "clean": "0",
}
"""What stands in place of a measured KL."""
_LEGEND = (
    "KL: measured, in nats. Exact: prompts read exactly, with the interval. Tokens: tokens right."
    " Time: a token, median.\n"
)


def inversion_blocks(result: InversionResult) -> "tuple[RenderableType, ...]":
    """The answer, every cell where there are several, and text where it was asked for.

    Args:
        result: The inversion.

    Returns:
        What the console prints, in order.
    """
    from insular.reports import terminal

    shown = [
        (one.record_id, one.recovered_text, one.true_text or "")
        for cell in result.cells
        for one in cell.prompts
        if one.recovered_text is not None
    ]
    told = _told(result)
    cells = terminal.table(
        told,
        [tuple(_row(cell)[column] for column in told) for cell in result.cells],
        numeric=[i for i, column in enumerate(told) if column not in ("Release", "Storage")],
    )
    return (
        terminal.verdict_panel(
            verdict_words(result), kind=KINDS[result.exit_code], lines=answer_sentences(result)
        ),
        *((cells, _LEGEND) if len(result.cells) > 1 else ()),
        *((terminal.table(("Prompt", "Recovered", "True"), shown),) if shown else ()),
    )


def _told(result: InversionResult) -> tuple[str, ...]:
    """Columns that fit: layer and storage only where cells differ in them."""
    found = ["Release", "KL", "Exact, %", "Tokens", "Time"]
    if len({cell.storage for cell in result.cells}) > 1:
        found.insert(1, "Storage")
    if len({cell.layer for cell in result.cells}) > 1:
        found.insert(0, "Layer")
    return tuple(found)


def _row(cell: InversionCell) -> dict[str, str]:
    """One cell."""
    read, right = cell.exact_match, cell.token_accuracy
    return {
        "Layer": str(cell.layer),
        "Release": "clean" if cell.status == "clean" else cell.mechanism,
        "Storage": cell.storage,
        "KL": amount(cell.kl.mean) if cell.kl is not None else _WHY.get(cell.status, ""),
        "Exact, %": "" if read is None else _share(read),
        "Tokens": "" if right is None else f"{100 * right.mean:.0f}%",
        "Time": f"{cell.seconds_per_token:.2f} s" if cell.prompts else "",
    }


def _share(interval: MeanInterval) -> str:
    """Per cent, with the ends of the interval."""
    mean, low, high = (f"{100 * x:.0f}" for x in (interval.mean, interval.low, interval.high))
    return f"{mean} ({low}-{high})"
