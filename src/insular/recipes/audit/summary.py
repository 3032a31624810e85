"""An isolation audit for the terminal: the verdict, its path, the counter-example, the repairs."""

import math
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from insular.audit.audit_results import AuditResult
from insular.recipes._numbers import amount
from insular.recipes.audit._advice import repair_sentence
from insular.recipes.audit._localisation_section import first_sentence
from insular.recipes.audit._price_section import lead_price, price_sentence
from insular.recipes.audit._words import (
    KINDS,
    Arm,
    arms_of,
    headline,
    ids,
    path_sentence,
    rounding_sentence,
    seconds,
)
from insular.reports import Paragraph, VerdictKind

if TYPE_CHECKING:
    from rich.console import RenderableType


@final
@dataclass(frozen=True, kw_only=True)
class IsolationSummary:
    """What a terminal shows of an isolation audit, as plain text."""

    word: str
    """The verdict."""
    kind: VerdictKind
    """What it means for the claim of isolation."""
    paragraphs: tuple[str, ...]
    """The answer in a sentence, then the path that it holds for, then what follows."""
    worst: tuple[tuple[str, str], ...]
    """The counter-example as names and values; empty unless the verdict is ``coupled``."""
    arms: tuple[tuple[str, ...], ...]
    """One row for each stack: name, verdict, the change that moves it furthest, by how much
    in units of C, time of a step, the same over that of the stack under test."""
    failed_checks: tuple[str, ...]
    """Checks that failed, of any stack, one line each."""
    replay: str
    """Command that replays the run."""


def isolation_summary(result: AuditResult, *, run_folder: str) -> IsolationSummary:
    """Sum an isolation audit up.

    Guarantees:
        * The first paragraph is the answer in one sentence.
        * Records appear by id only.

    Args:
        result: What was found.
        run_folder: Folder of the evidence.

    Returns:
        The summary.
    """
    arms = arms_of(result)
    paragraphs = [headline(result), path_sentence(arms[0])]
    if result.verdict == "isolated" and (rounding := rounding_sentence(arms[0])):
        paragraphs.append(rounding)
    if result.verdict == "coupled":
        paragraphs += [lead_price(result), *_where(result)]
    elif sentence := price_sentence(result):
        paragraphs.append(sentence)
    if result.verdict != "isolated" and result.repairs:
        paragraphs.append(repair_sentence(result))
    return IsolationSummary(
        word=result.verdict,
        kind=KINDS[result.verdict],
        paragraphs=tuple(part.plain.strip() for part in paragraphs),
        worst=_worst(arms[0]),
        arms=tuple(_row(arm, reference=result.subject.seconds_per_step) for arm in arms),
        failed_checks=_failed(result),
        replay=f"insular replay {shlex.quote(run_folder)}",
    )


def summary_blocks(summary: IsolationSummary) -> "tuple[RenderableType, ...]":
    """Lay a summary out for :func:`insular.reports.terminal.results_console`.

    Args:
        summary: What to show.

    Returns:
        What the console prints, in order.
    """
    from insular.reports import terminal

    blocks = [terminal.verdict_panel(summary.word, kind=summary.kind, lines=summary.paragraphs)]
    if summary.worst:
        blocks += ["", "Counter-example", terminal.facts(summary.worst)]
    if summary.failed_checks:
        failed = [(line,) for line in summary.failed_checks]
        blocks.append(terminal.table(("Failed checks",), failed))
    blocks.append(
        terminal.table(
            ("Stack", "Verdict", "What moves it", "By, in C", "Step", "Rel."),
            summary.arms,
            numeric=(3, 4, 5),
        )
    )
    return (*blocks, f"Replay: {summary.replay}")


def _failed(result: AuditResult) -> tuple[str, ...]:
    """Checks that failed, of the stacks and of the pair in them."""
    pairs = () if result.sensitivity is None else result.sensitivity.arms
    checks = [
        *((arm.arm, check) for arm in (result.subject, *result.repairs) for check in arm.checks),
        *((f"pair in {arm.stack}", check) for arm in pairs for check in arm.checks),
    ]
    return tuple(
        f"{name}: {check.name}: {check.detail}" for name, check in checks if not check.passed
    )


def _where(result: AuditResult) -> tuple[Paragraph, ...]:
    """The first module from which the selected pair's influence comes."""
    found = result.localisation
    return () if found is None or found.origins is None else (first_sentence(found.origins),)


def _worst(arm: Arm) -> tuple[tuple[str, str], ...]:
    """The counter-example of the stack under test."""
    finding = arm.result.worst
    if arm.result.verdict != "coupled" or finding is None or finding.worst is None:
        return ()
    _, case = arm.case(finding.worst_case)
    worst = finding.worst
    pairs = [
        ("case", case.name),
        ("changed", ids(case.changed)),
        ("brought in", ids(case.brought_in)),
        ("stayed", worst.record),
        ("clipped gradient", f"{amount(worst.clipped_distance)} C"),
        ("gradient", f"{amount(worst.gradient_relative)} of its norm"),
        ("logits", amount(worst.forward_max_abs)),
        ("moved", f"{finding.n_moved} of {finding.n_comparisons} comparisons"),
    ]
    if (first := finding.first_difference) is not None:
        pairs.append(("first parts at", f"{first.module} ({first.phase})"))
    return tuple((name, value) for name, value in pairs if value)


def _row(arm: Arm, *, reference: float) -> tuple[str, ...]:
    """One stack in the table of repairs."""
    moved = [finding for finding in arm.result.axes if finding.worst is not None]
    furthest = arm.result.worst or max(
        moved, key=lambda f: f.worst.clipped_distance if f.worst else 0.0, default=None
    )
    distance = furthest.worst.clipped_distance if furthest and furthest.worst else 0.0
    word = furthest.axis if furthest else "nothing"
    if furthest and furthest.verdict == "rounding":
        word = f"{word} (rounding)"
    ratio = arm.result.seconds_per_step / reference if reference else math.nan
    return (
        arm.result.arm,
        arm.result.verdict,
        word,
        amount(distance),
        seconds(arm.result.seconds_per_step),
        f"{ratio:.2f}",
    )
