"""The answer of a store for the terminal."""

from typing import TYPE_CHECKING

from insular.recipes._numbers import percent, short
from insular.recipes.hidden.store._words import answer_sentences, verdict_of
from insular.recipes.hidden.store.results import HiddenStoreResult, StoreCell

if TYPE_CHECKING:
    from rich.console import RenderableType


def store_blocks(result: HiddenStoreResult) -> "tuple[RenderableType, ...]":
    """The answer, then every index.

    Args:
        result: The run.

    Returns:
        What the console prints, in order.
    """
    from insular.reports import terminal

    words, kind = verdict_of(result)
    targets = dict.fromkeys(cell.target_kl_nats for cell in result.cells if cell.target_kl_nats)
    at = f"; mechanisms at {short(next(iter(targets)))} nats" if len(targets) == 1 else ""
    return (
        terminal.verdict_panel(words, kind=kind, lines=answer_sentences(result)),
        terminal.table(
            ("Layer", "Written", "Kept in", "Neighbours lost", "Rows told", "By"),
            [_row(cell, several=len(targets) > 1) for cell in result.cells],
            numeric=(0, 3, 4),
            title=f"Percent, with {percent(1 - result.significance)} intervals{at}",
        ),
    )


def _row(cell: StoreCell, *, several: bool) -> tuple[str, ...]:
    """One index."""
    layer = "" if cell.layer is None else str(cell.layer)
    kl = f" at {short(cell.target_kl_nats)}" if several and cell.target_kl_nats else ""
    start = (layer, f"{cell.mechanism if cell.released else 'clean'}{kl}", cell.storage)
    found = cell.measured
    if found is None:
        return (*start, "not measured", "", "")
    recall, told = found.recall, found.attack_top1
    return (
        *start,
        _percents(found.recall_lost, 1 - recall.high, 1 - recall.low),
        _percents(told.mean, told.low, told.high),
        found.best_attack.attacker,
    )


def _percents(mean: float, low: float, high: float) -> str:
    """A share with its interval, without units."""
    one, two, three = (f"{100 * max(0.0, share):.1f}" for share in (mean, low, high))
    return f"{one} ({two}-{three})"
