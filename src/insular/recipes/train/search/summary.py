"""What a terminal shows after a private hyperparameter search."""

import shlex
from typing import TYPE_CHECKING

from insular.recipes._numbers import amount, short
from insular.recipes.run_folder import PAGE
from insular.recipes.train.search._words import (
    LOSERS,
    law_words,
    listed_from,
    search_answer,
    settings_words,
    thousandths,
)
from insular.recipes.train.search.results import SearchResult

if TYPE_CHECKING:
    from rich.console import RenderableType


def search_blocks(result: SearchResult, *, run_folder: str) -> "tuple[RenderableType, ...]":
    """Lay a search out for :func:`insular.reports.terminal.results_console`.

    Guarantees:
        * Neither the number of runs nor a loser's score is shown: what a terminal prints ends up
          in logs, and only the winner is paid for.

    Args:
        result: What was searched.
        run_folder: Folder of the evidence.

    Returns:
        What the console prints, in order.
    """
    from insular.reports import terminal

    answer = search_answer(result)
    lines = (answer.sentence.plain, LOSERS)
    blocks: list[RenderableType] = [
        terminal.verdict_panel(answer.word, kind=answer.kind, lines=lines),
        "",
        terminal.facts(_facts(result, protects=answer.protects)),
        "",
        _next(result, shlex.quote(run_folder)),
        f"Page, private: {shlex.quote(f'{run_folder}/{PAGE}')}",
    ]
    return tuple(blocks)


def _next(result: SearchResult, folder: str) -> str:
    """The command that a reader needs now, which names the evidence."""
    if result.winner is not None:
        return f"Next: insular card {folder}"
    return f"Next: insular ledger status    Evidence: {folder}"


def _facts(result: SearchResult, *, protects: bool) -> tuple[tuple[str, str], ...]:
    """A few rows."""
    event, cost = result.event, thousandths(result.epsilon)
    rows = [
        ("epsilon", f"{cost} at delta {short(result.delta)}, Renyi, selection"),
        ("one run alone", f"{thousandths(result.one_run.epsilon)} (pld): not what this adapter"
                          " cost"),
        ("number of runs", f"random: {law_words(event.shape)}, mean {amount(event.mean_runs)}"),
        ("drawn from", listed_from(result)),
        ("noise", f"multiplier {amount(result.noise_multiplier)} in every run"),
    ]  # fmt: skip
    if result.winner is not None and result.base_nats is not None:
        best = result.runs[result.winner]
        rows += [
            ("kept", settings_words(best.settings)),
            ("public loss", f"{result.base_nats:.3f} to {best.score_nats:.3f} nats per token"),
        ]
    if result.ledger is not None:
        amounts = result.ledger.committed_epsilon or "nothing"
        rows.append(("ledger", f"{result.ledger.population}: epsilon {amounts} committed"))
    name = "may leave" if protects else "not cleared"
    rows += [(name, artifact.file) for artifact in result.artifacts]
    return tuple(rows)
