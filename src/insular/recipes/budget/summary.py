"""Answers about a budget for the terminal, and the trade-off curve as a file of its own."""

import math
from typing import TYPE_CHECKING

from insular.accounting import PrivacyCost, Refusal, TradeoffCurve
from insular.recipes._numbers import short
from insular.recipes.budget._words import (
    ACCOUNTANT_WORDS,
    SHUFFLED,
    assumptions,
    attacker_words,
    cost_row,
    likelihood,
    neighbours,
    owner_words,
    rate,
    upper,
)
from insular.recipes.budget.pair import FEW
from insular.recipes.budget.questions import drawn_curve
from insular.recipes.budget.results import (
    CalibrationResult,
    CalibrationRow,
    CurveResult,
    EpsilonResult,
    GroupResult,
    PairResult,
    PlannedRun,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

_TARGETS = {
    "epsilon": "epsilon",
    "advantage": "advantage",
    "true_positive_rate": "true positive rate",
}


def epsilon_blocks(result: EpsilonResult) -> "tuple[RenderableType, ...]":
    """What a run spends.

    Args:
        result: The answer.

    Returns:
        What the console prints, in order.
    """
    from insular.reports import terminal

    best, unit = result.headline, result.run.unit
    blocks: list[RenderableType] = [
        f"epsilon {upper(best.epsilon)} at delta {short(result.delta)}, by"
        f" {ACCOUNTANT_WORDS[best.accountant]}: "
        + ("nothing is promised." if math.isinf(best.epsilon) else "a guarantee."),
        "",
        terminal.table(
            ("Accountant", "Epsilon", "Standing", "How"),
            [cost_row(row) for row in result.rows],
            numeric=(1,),
        ),
        assumptions(result.run, best),
        "",
        likelihood(best.epsilon, best.delta, relation=result.run.relation, unit=unit),
        attacker_words(result.attacker, relation=result.run.relation, unit=unit),
    ]
    if result.owner is not None:
        blocks.append(owner_words(result.owner, result.delta))
    return tuple(blocks)


def calibration_blocks(result: CalibrationResult) -> "tuple[RenderableType, ...]":
    """The noise that keeps a promise.

    Args:
        result: The answer.

    Returns:
        What the console prints, in order.
    """
    from insular.reports import terminal

    spec, found = result.spec, result.found
    printed = upper(found.noise_multiplier, 6)
    run = PlannedRun(
        noise_multiplier=float(printed),
        sampling_prob=spec.sampling_prob,
        steps=spec.steps,
        relation=spec.relation,
        unit=spec.unit,
    )
    cost = next((c for c in found.costs if isinstance(c, PrivacyCost)), None)
    head = (
        f"noise multiplier {printed} keeps"
        f" {_TARGETS[spec.target]} at or below {spec.value:g}"
        + (f" at false positive rate {spec.false_positive_rate:g}"
           if spec.false_positive_rate is not None else "")
        + f": it gives {upper(found.achieved, 6)}."
    )  # fmt: skip
    rows = [_calibration_row(row) for row in result.rows]
    return (
        head,
        "",
        terminal.table(
            ("Searched by", "Noise multiplier", "Epsilon by PLD", "Epsilon by RDP"),
            rows,
            numeric=(1, 2, 3),
            title=f"Checked by two accountants, at delta {short(spec.delta)}",
        ),
        "Noise is rounded up, so the promise holds as printed. RDP bounds more loosely: whoever"
        " must show its epsilon needs its noise.",
        *(
            f"{ACCOUNTANT_WORDS[row.accountant]} has no answer: {row.reason}"
            for row in result.rows
            if isinstance(row, Refusal)
        ),
        "",
        *(() if cost is None else (assumptions(run, cost),)),
    )


def curve_blocks(result: CurveResult) -> "tuple[RenderableType, ...]":
    """Epsilon at each delta, and rates.

    Args:
        result: The answer.

    Returns:
        What the console prints, in order.
    """
    from insular.reports import terminal

    costs = [
        (short(delta), *cost_row(cost)[1:])
        for delta, cost in zip(result.deltas, result.costs, strict=True)
    ]
    first = next((c for c in result.costs if isinstance(c, PrivacyCost)), None)
    return (
        terminal.table(
            ("Delta", "Epsilon", "Standing", "How"), costs, numeric=(1,), title="Epsilon, by PLD"
        ),
        *_rates(result.curve),
        "",
        *(() if first is None else (assumptions(result.run, first),)),
    )


def pair_blocks(result: PairResult) -> "tuple[RenderableType, ...]":
    """What a measured sensitivity means.

    Args:
        result: The answer.

    Returns:
        What the console prints, in order.
    """
    from insular.reports import terminal

    spec = result.spec
    claimed, measured = result.rows
    relation = neighbours(spec.relation, "record")
    if result.exceeds:
        word, kind = "bound exceeded", "bad"
        lead = (
            f"Two clipped sums {spec.distance:.6g} C apart, with {relation}: more than the"
            f" {result.bound:g} C that an accountant assumes. At noise multiplier"
            f" {spec.noise_multiplier:g} one step of this pair costs epsilon"
            f" {upper(measured.step_epsilon)} at delta {short(spec.delta)}, not"
            f" {upper(claimed.step_epsilon)}."
        )
    else:
        word, kind = "bound kept", "good"
        lead = (
            f"Two clipped sums {spec.distance:.6g} C apart, with {relation}: not above the"
            f" {result.bound:g} C that an accountant assumes. One pair says nothing of the others:"
            " the claim is not refuted, and not shown."
        )
    run = spec.steps is not None and spec.sampling_prob is not None
    heads = ("", "Distance", "Ratio", "Epsilon", "Advantage", "TPR at 1%")
    rows = [
        (
            row.meaning,
            f"{row.distance:.6g} C",
            f"{row.ratio:.6g}",
            upper(row.step_epsilon),
            rate(row.step_advantage),
            rate(row.step_true_positive_rate),
            *(() if row.run_epsilon is None else (upper(row.run_epsilon),)),
        )
        for row in result.rows
    ]
    notes = [
        f"One step: exact for the pair. A ratio exceeds the bound above {1 + result.margin:.6g}."
    ]
    if run:
        heads = (*heads, "Run")
        notes.append(
            f"Run: epsilon of {spec.steps} steps at sampling probability {spec.sampling_prob:g},"
            f" by PLD, if every step had this sensitivity. It assumes Poisson sampling. {SHUFFLED}"
        )
    return (
        terminal.verdict_panel(word, kind=kind, lines=[lead]),
        terminal.table(heads, rows, numeric=tuple(range(1, len(heads)))),
        *notes,
    )


def group_blocks(result: GroupResult) -> "tuple[RenderableType, ...]":
    """What a record's guarantee means for an owner.

    Args:
        result: The answer.

    Returns:
        What the console prints, in order.
    """
    record = f"One record: epsilon {upper(result.epsilon)} at delta {short(result.delta)}"
    return record, owner_words(result.owner, result.delta)


def curve_svg(run: PlannedRun) -> str:
    """The trade-off curve as a drawing that stands alone, in light and dark.

    Args:
        run: The run.

    Returns:
        The content of an SVG file.
    """
    from insular.reports import TradeoffPoint, tradeoff_figure
    from insular.reports.figures.alone import stand_alone

    name = f"noise {run.noise_multiplier:g}, q {run.sampling_prob:g}, {run.steps} steps"
    curve = drawn_curve(run)
    points = [
        TradeoffPoint(curve=name, false_positive_rate=x, true_positive_rate=y)
        for x, y in zip(curve.false_positive_rates, curve.true_positive_rates, strict=True)
    ]
    svg = tradeoff_figure(points, marked=FEW)
    return stand_alone(svg)


def _rates(curve: TradeoffCurve | Refusal) -> "tuple[RenderableType, ...]":
    """The trade-off curve at the rates that were asked for."""
    from insular.reports import terminal

    if isinstance(curve, Refusal):
        return (f"There is no trade-off curve: {curve.reason}",)
    rows = [
        (f"{100 * x:.6g}%", rate(y))
        for x, y in zip(curve.false_positive_rates, curve.true_positive_rates, strict=True)
    ]
    return (
        terminal.table(
            ("False positive rate", "Highest true positive rate"),
            rows,
            numeric=(0, 1),
            title="What the best attacker can do",
        ),
        f"Advantage, true minus false positive rate, at most {rate(curve.advantage)}."
        + (" All closed forms." if curve.exact else " None of these is below the truth."),
    )


def _calibration_row(row: CalibrationRow | Refusal) -> tuple[str, str, str, str]:
    """One search with its checks."""
    name = ACCOUNTANT_WORDS[row.accountant]
    if isinstance(row, Refusal):
        return name, "none", "none", "none"
    pld, rdp = (cost_row(cost)[1] for cost in row.costs)
    return name, upper(row.noise_multiplier, 6), pld, rdp
