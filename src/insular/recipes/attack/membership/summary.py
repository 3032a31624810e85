"""The answer of a membership attack for the terminal."""

from typing import TYPE_CHECKING

from insular.audit.membership.results import MembershipResult, OperatingPoint
from insular.recipes.attack.membership._words import (
    KINDS,
    area_text,
    method_sentences,
    rate_text,
    score_name,
    verdict_sentences,
    warning_sentences,
)
from insular.recipes.attack.release._words import confidence

if TYPE_CHECKING:
    from rich.console import RenderableType


def membership_blocks(result: MembershipResult) -> "tuple[RenderableType, ...]":
    """The verdict, the rates, what weakens them, and the areas last.

    Args:
        result: The attack.

    Returns:
        What the console prints, in order.
    """
    from insular.reports import terminal

    names = {one.score: score_name(one.score, result.lowest_percent) for one in result.scores}
    heads = [f"at {100 * point.wanted_fpr:g}% FPR" for point in result.scores[0].points]
    rates = [(names[one.score], *(_rate(point) for point in one.points)) for one in result.scores]
    bounds = [
        (
            names[one.score],
            f"{100 * one.tradeoff.fpr.upper:.2f}",
            f"{100 * one.tradeoff.tpr.lower:.2f}",
            "none" if one.allowed is None else f"{100 * one.allowed:.2f}",
            f"{one.epsilon.epsilon_lower_bound:.2f}",
            f"{one.advantage.value:.3f}",
            "refuted" if one.refutes else "no",
        )
        for one in result.scores
    ]
    areas = [(names[one.score], area_text(one.auc)) for one in result.scores]
    areas.append(("texts alone, no model", area_text(result.shift.auc)))
    few = any(not point.resolved for point in result.scores[0].points)
    return (
        terminal.verdict_panel(
            result.verdict, kind=KINDS[result.verdict], lines=list(verdict_sentences(result))
        ),
        terminal.table(
            ("Score", *heads),
            rates,
            numeric=tuple(range(1, len(heads) + 1)),
            title=f"Members found, in % with {confidence(result.significance)} intervals",
        ),
        *(("* not resolved by so few non-members",) if few else ()),
        terminal.table(
            ("Score", "FPR % <", "TPR % >", "Allowed", "Eps >", "Adv.", "Refuted"),
            bounds,
            numeric=(1, 2, 3, 4, 5),
            title="What held-out records prove",
        ),
        terminal.table(("Score", "Area"), areas, numeric=(1,), title="Areas under the curve, last"),
        *warning_sentences(result),
        "",
        *method_sentences(result),
    )


def _rate(point: OperatingPoint) -> str:
    """A rate, marked where so few non-members cannot show it."""
    return rate_text(point) + ("" if point.resolved else " *")
