"""Answers about attacks for the terminal, and the power figure as a file of its own."""

from typing import TYPE_CHECKING

from insular.audit.release.power_results import PowerResult, ProcedurePower
from insular.recipes._numbers import short
from insular.recipes.attack.release._words import (
    KINDS,
    count,
    method_sentences,
    needed_sentence,
    points_sentences,
    stack_sentence,
)
from insular.recipes.attack.release.results import ReleaseResult

if TYPE_CHECKING:
    from rich.console import RenderableType

PROCEDURES = {
    "trade-off": "trade-off curve",
    "epsilon-delta": "one (epsilon, delta) point",
}
"""What each procedure tests."""


def power_blocks(result: PowerResult) -> "tuple[RenderableType, ...]":
    """What each procedure can be expected to say.

    Args:
        result: The answer.

    Returns:
        What the console prints, in order.
    """
    from insular.reports import terminal

    excess = result.ratio > 1
    return (
        f"Promised: one Gaussian step of mu {result.claimed_mu:.6g}, epsilon"
        f" {result.claimed_epsilon:.4f} at delta {short(result.delta)}.",
        f"Runs:     ratio {result.ratio:.6g}, so mu {result.true_mu:.6g}, epsilon"
        f" {result.true_epsilon:.4f}.",
        "",
        terminal.table(
            ("What is tested", "Promised", "Expected bound", "Chance to refute"),
            [_power_row(row) for row in result.procedures],
            numeric=(1, 2, 3),
            title=f"With {count(result.draws)} draws of each neighbour, at {result.significance:g}",
        ),
        terminal.table(
            ("What is tested", f"With probability {result.wanted:g}", "Expected bound above"),
            [
                (
                    PROCEDURES[row.procedure],
                    _needed(row.draws_needed, excess),
                    _needed(row.draws_until_expected, excess),
                )
                for row in result.procedures
            ],
            numeric=(1, 2),
            title="Draws of each neighbour that refute",
        ),
        "Half of the draws choose the threshold, half are judged. The curve is the whole promise;"
        " refuting one point of it says more, and takes far more draws.",
    )


def power_svg(result: PowerResult) -> str:
    """The expected bounds as the draws grow, as a file of its own.

    Args:
        result: The answer.

    Returns:
        The content of an SVG file.
    """
    from insular.reports.figures.alone import stand_alone
    from insular.reports.figures.power import PowerPoint, power_figure

    rows = []
    for point in result.curve:
        for name, value in (
            ("trade-off", point.tradeoff_epsilon),
            ("epsilon-delta", point.epsilon),
        ):
            rows.append(PowerPoint(procedure=PROCEDURES[name], draws=point.draws, epsilon=value))
    drawn = power_figure(rows, claimed=result.claimed_epsilon, true=result.true_epsilon)
    return stand_alone(drawn)


def release_blocks(result: ReleaseResult) -> "tuple[RenderableType, ...]":
    """The verdict on every stack, with what it rests on.

    Args:
        result: The attack.

    Returns:
        What the console prints, in order.
    """
    from insular.reports import terminal

    curves = [
        (
            stack.stack,
            f"{stack.ratio:.6f}",
            f"{stack.claimed_mu:.4g}",
            f"{stack.tradeoff.mu_lower_bound:.4f}",
            f"{stack.tradeoff.fpr.upper:.4f}",
            f"{stack.tradeoff.tpr.lower:.4f}",
            stack.verdict,
        )
        for stack in result.stacks
    ]
    points = [
        (stack.stack, short(bound.delta), f"{claimed:.3f}", f"{bound.epsilon_lower_bound:.3f}",
         "refuted" if no else "not refuted")
        for stack in result.stacks
        for bound, claimed, no in zip(
            stack.points, stack.claimed_epsilons, stack.points_refuted, strict=True
        )
    ]  # fmt: skip
    return (
        terminal.verdict_panel(
            result.verdict,
            kind=KINDS[result.verdict],
            lines=[stack_sentence(stack) for stack in result.stacks],
        ),
        terminal.table(
            ("Stack", "Ratio", "Promised", "Proven", "FPR <", "TPR >", "Verdict"),
            curves,
            numeric=(1, 2, 3, 4, 5),
            title="The whole trade-off curve, in mu",
        ),
        terminal.table(
            ("Stack", "Delta", "Promised", "Proven", "Verdict"),
            points,
            numeric=(1, 2, 3),
            title="One point at a time, in epsilon",
        ),
        *points_sentences(result),
        *(needed_sentence(stack) for stack in result.stacks),
        "",
        *method_sentences(result),
    )


def _power_row(row: ProcedurePower) -> tuple[str, str, str, str]:
    """One procedure at this number of draws."""
    unit = "mu" if row.procedure == "trade-off" else "epsilon"
    return (
        PROCEDURES[row.procedure],
        f"{unit} {row.claimed:.4f}",
        f"{row.expected_bound:.4f}",
        f"{row.refutes:.4f}" if row.refutes >= 5e-5 else "< 0.0001",
    )


def _needed(draws: int | None, excess: bool) -> str:
    """A number of draws, or why there is none."""
    if draws is None:
        return "more than 1e12" if excess else "no excess"
    return count(draws)
