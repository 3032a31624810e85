"""The answer on planted secrets for the terminal."""

import math
from typing import TYPE_CHECKING

from insular.audit.secrets.results import ExtractionResult, SecretGroup
from insular.recipes._numbers import counted
from insular.recipes.attack.extraction._words import (
    KINDS,
    answer_sentences,
    bits_interval,
    method_sentences,
    p_text,
    planted_words,
    samples_text,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from insular.recipes.attack.extraction.canaries_spec import CanaryCounts


def extraction_blocks(result: ExtractionResult) -> "tuple[RenderableType, ...]":
    """Exposure by repetitions, with what the promise allows.

    Args:
        result: The attack.

    Returns:
        What the console prints, in order.
    """
    from insular.reports import terminal

    groups = (result.controls, *result.planted)
    return (
        terminal.verdict_panel(
            result.verdict, kind=KINDS[result.verdict], lines=answer_sentences(result)
        ),
        terminal.table(
            ("Secrets", "n", "Mean", "Median (95%)", "Allowed", "Spelled", "Chance"),
            [_row(group) for group in groups],
            numeric=(1, 2, 3, 4, 5, 6),
            title=f"Exposure in bits, of {math.log2(result.space_size):.2f}",
        ),
        terminal.table(
            ("Secrets", "Median samples until the secret is drawn"),
            [(planted_words(group), _samples(result, group)) for group in groups],
            numeric=(1,),
        ),
        *method_sentences(result),
    )


def canaries_blocks(plan: "CanaryCounts", folder: str) -> "tuple[RenderableType, ...]":
    """What was planted, without any secret.

    Args:
        plan: The plan's counts.
        folder: Where it stands.

    Returns:
        What the console prints, in order.
    """
    planted = [count for count in plan.counts if count.repeats]
    each = ", ".join(f"{len(c.ids)} of them in {counted(c.repeats, 'row')}" for c in planted)
    n_planted = sum(len(count.ids) for count in planted)
    controls = sum(len(count.ids) for count in plan.counts) - n_planted
    return (
        f"Training file: {folder}/{plan.training_file}, {plan.n_rows:,} rows,"
        f" {plan.n_planted_rows:,} of them planted.",
        f"Planted: {n_planted} secrets, {each}; {controls} controls in none.",
        "It shows, after training on this file, how much of a secret of known randomness a model"
        f" keeps: insular attack extraction RUN --canaries {folder}.",
        "It does not show or change anything about the real records, which are in the file as"
        f" before. The secrets stand in {folder}/canaries.json: keep it from whoever trains.",
    )


def _row(group: SecretGroup) -> tuple[str, ...]:
    """One group of the table."""
    return (
        planted_words(group),
        str(group.n),
        f"{group.mean_bits:.2f}",
        bits_interval(group),
        "" if group.allowed is None else f"{group.allowed.mean_bits:.2f}",
        f"{group.greedy.count} of {group.n}",
        p_text(group.chance_p),
    )


def _samples(result: ExtractionResult, group: SecretGroup) -> str:
    """Median of the expected numbers of samples."""
    found = sorted(r.samples_needed for r in result.secrets if r.repeats == group.repeats)
    return samples_text(found[len(found) // 2])
