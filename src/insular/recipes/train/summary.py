"""A private training run for the terminal: the answer, what ran, what may leave, what is next."""

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from insular.recipes._numbers import amount, counted, percent, short
from insular.recipes.budget._words import ACCOUNTANT_WORDS, upper
from insular.recipes.train._answers import answers
from insular.recipes.train._promise import resumed_sentence
from insular.recipes.train._words import neighbours, sampler_parts, shared_by
from insular.recipes.train.results import TrainResult
from insular.reports import VerdictKind, paragraph

if TYPE_CHECKING:
    from rich.console import RenderableType

_MOST = 5


@final
@dataclass(frozen=True, kw_only=True)
class TrainSummary:
    """What a terminal shows of a training run, as plain text."""

    word: str
    """The answer in a few words."""
    kind: VerdictKind
    """What it means for the guarantee."""
    paragraphs: tuple[str, ...]
    """The answer in a sentence; then whatever else speaks against the planned guarantee."""
    facts: tuple[tuple[str, str], ...]
    """Names and values."""
    warnings: tuple[str, ...]
    """What to know before the adapter leaves, one line each."""
    next_steps: tuple[str, ...]
    """Commands."""


def train_summary(result: TrainResult, *, run_folder: str) -> TrainSummary:
    """Sum a training run up.

    Guarantees:
        * The first paragraph is that of the page.
        * No telemetry is shown: what a terminal prints ends up in logs.

    Args:
        result: What ran.
        run_folder: Folder of the evidence.

    Returns:
        The summary.
    """
    found, folder = answers(result), shlex.quote(run_folder)
    return TrainSummary(
        word=found[0].word,
        kind=found[0].kind,
        paragraphs=tuple(answer.sentence.plain for answer in found),
        facts=_facts(result),
        warnings=_warnings(result),
        next_steps=(f"insular card {folder}", f"insular report {folder}"),
    )


def summary_blocks(summary: TrainSummary) -> "tuple[RenderableType, ...]":
    """Lay a summary out for :func:`insular.reports.terminal.results_console`.

    Args:
        summary: What to show.

    Returns:
        What the console prints, in order.
    """
    from insular.reports import terminal

    blocks: list[RenderableType] = [
        terminal.verdict_panel(summary.word, kind=summary.kind, lines=summary.paragraphs),
        "",
        terminal.facts(summary.facts),
    ]
    if summary.warnings:
        rows = [(line,) for line in summary.warnings]
        blocks.append(terminal.table(("Before the adapter leaves",), rows))
    else:
        blocks.append("")
    return (*blocks, *(f"Next: {step}" for step in summary.next_steps))


def _facts(result: TrainResult) -> tuple[tuple[str, str], ...]:
    """A few rows."""
    planned, ran, utility = result.planned, result.executed, result.utility
    spent = "; ".join(
        f"{upper(cost.epsilon, 3)} ({ACCOUNTANT_WORDS[cost.accountant]})" for cost in result.costs
    )
    rows = [
        (
            "epsilon" if _cleared(result) else "no promise",
            f"{spent or 'not computed'} at delta {short(result.delta)}",
        ),
        ("unit", f"{result.unit}: {neighbours(result.relation, result.unit)}"),
        ("sampler", paragraph(*sampler_parts(planned.sampler, result.unit)).plain),
        (
            "releases",
            f"{ran.n_releases}, planned {planned.steps};"
            f" {counted(len(ran.differences), 'difference')}",
        ),
        ("noise", f"multiplier {amount(planned.noise_multiplier)}, {result.noise}"),
        ("isolation", f"{result.isolation.verdict}, {result.isolation.path.partition(';')[0]}"),
        ("trained", f"{counted(result.liveness.n_tensors, 'tensor')}, "
                    + ("all alive" if result.liveness.alive else "NOT all alive")),
    ]  # fmt: skip
    if utility is not None:
        rows.append(
            ("public loss", f"{utility.before_nats:.3f} to {utility.after_nats:.3f} nats per token")
        )
    if result.ledger is not None:
        amounts = result.ledger.committed_epsilon or "nothing"
        rows.append(("ledger", f"{result.ledger.population}: epsilon {amounts} committed"))
    rows += [("may leave" if _cleared(result) else "not cleared", a.file) for a in result.artifacts]
    return tuple(rows)


def _cleared(result: TrainResult) -> bool:
    """Whether the guarantee holds for the files."""
    return all(answer.protects for answer in answers(result))


def _warnings(result: TrainResult) -> tuple[str, ...]:
    """What to know, one line each."""
    data, target, lines = result.data, result.target_epsilon, []
    differences = result.executed.differences
    lines += differences[1:_MOST]  # the first is in the frame
    if len(differences) > _MOST:
        lines.append(f"{len(differences) - _MOST} more differences are on the page.")
    if target is not None and result.costs and result.epsilon > target:
        lines.append(f"Epsilon is {upper(result.epsilon)}, above the target of {short(target)}.")
    if sentence := resumed_sentence(result):
        lines.append(sentence.plain)
    if data.duplicates_across_owners:
        n, where = counted(data.duplicates_across_owners, "text"), shared_by(result.unit)
        lines.append(f"{n} {where}: what such a text says is not hidden.")
    if result.unit == "owner" and data.largest_share > 0.1:
        lines.append(f"One owner has {percent(data.largest_share)} of the records.")
    if result.ledger is None:
        lines.append("No ledger keeps this run and others on the same text within one budget.")
    return tuple(lines)
