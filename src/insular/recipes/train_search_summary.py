"""What a terminal shows after a private hyperparameter search."""

import math
import shlex
from typing import TYPE_CHECKING

from insular.recipes._numbers import amount, counted, short
from insular.recipes.train_search_results import SearchResult

if TYPE_CHECKING:
    from rich.console import RenderableType

    from insular.reports.page import VerdictKind

LAWS = {math.inf: "Poisson", 1.0: "geometric", 0.0: "logarithmic"}
"""Names of the laws of the number of runs, by shape."""


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

    word, lines = _verdict(result)
    kind: VerdictKind = "good" if result.exit_code == 0 else "bad"
    if result.winner is None and kind == "good":
        kind = "open"
    blocks: list[RenderableType] = [
        terminal.verdict_panel(word, kind=kind, lines=lines),
        "",
        terminal.facts(_facts(result)),
        "",
        f"Next: insular ledger status    Evidence: {shlex.quote(run_folder)}",
    ]
    return tuple(blocks)


def _verdict(result: SearchResult) -> tuple[str, tuple[str, ...]]:
    """One word and the paragraphs."""
    keep = (
        "The other runs are not paid for: their adapters are deleted, and their number, scores"
        " and logs in this folder must not leave."
    )
    if not result.as_planned:
        first = next(run.differences[0] for run in result.runs if run.differences)
        return "no promise", (f"A run was not what was planned, so nothing is kept: {first}", keep)
    if result.cost.standing != "guarantee":
        return "no promise", (f"Nothing is protected: {result.cost.caveat}.", keep)
    if result.winner is None:
        return "nothing kept", (
            "No run gave an adapter to keep: none was drawn, or no loss was a number. The cost is"
            " that of the search all the same.",
            keep,
        )
    return "searched", (
        f"The adapter with the least loss on {result.scored_on}, which is declared public, is kept."
        f" Choosing it cost epsilon {_up(result.epsilon)} at delta {short(result.delta)}, whatever"
        " number of runs was drawn.",
        keep,
    )


def _facts(result: SearchResult) -> tuple[tuple[str, str], ...]:
    """A few rows."""
    event = result.event
    law = LAWS.get(event.shape, f"truncated negative binomial, shape {amount(event.shape)}")
    rows = [
        ("epsilon", f"{_up(result.epsilon)} at delta {short(result.delta)}, Renyi, selection"),
        ("one run alone", f"{_up(result.one_run.epsilon)} (pld): not what this adapter cost"),
        ("number of runs", f"random: {law}, mean {amount(event.mean_runs)}"),
        ("drawn from", f"a public list of {counted(len(result.candidates), 'candidate')}"),
        ("noise", f"multiplier {amount(result.noise_multiplier)} in every run"),
    ]
    if result.winner is not None and result.base_nats is not None:
        best = result.runs[result.winner]
        chosen = best.settings
        rows += [
            ("kept", f"learning rate {amount(chosen.learning_rate)}, clip norm"
                     f" {amount(chosen.clip_norm)}, {chosen.optimiser}, weight decay"
                     f" {amount(chosen.weight_decay)}, rank {chosen.lora_rank}"),
            ("public loss", f"{result.base_nats:.3f} to {best.score_nats:.3f} nats per token"),
        ]  # fmt: skip
    if result.ledger is not None:
        amounts = result.ledger.committed_epsilon or "nothing"
        rows.append(("ledger", f"{result.ledger.population}: epsilon {amounts} committed"))
    rows += [("may leave", artifact.file) for artifact in result.artifacts]
    return tuple(rows)


def _up(epsilon: float) -> str:
    """Rounded up to three decimals."""
    return f"{math.ceil(epsilon * 1000 - 1e-9) / 1000:.3f}" if math.isfinite(epsilon) else "inf"
