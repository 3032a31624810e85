"""A sweep over release mechanisms as a page: answer, frontier, layers, what was foretold, cells."""

from insular.evidence import RunManifest
from insular.recipes._numbers import amount, cited, place, short
from insular.recipes._page_parts import framed_page
from insular.recipes.hidden.sweep._layers_section import layers_section
from insular.recipes.hidden.sweep._words import (
    FAMILIES,
    METHOD,
    STATUS,
    answer_sentences,
    clean_sentence,
    low_rank_sentence,
    prediction_sentences,
)
from insular.recipes.hidden.sweep.results import SweepCell, SweepResult
from insular.reports import (
    Block,
    Cell,
    Figure,
    FrontierPoint,
    Page,
    Points,
    PredictedPoint,
    Section,
    Table,
    VerdictKind,
    frontier_figure,
    paragraph,
    predicted_figure,
)

SHOWN_ROWS = 12
"""A longer table of winners is folded."""
_KINDS: dict[int, VerdictKind] = {0: "good", 1: "bad", 2: "open"}


def sweep_page(result: SweepResult, manifest: RunManifest) -> Page:
    """Turn a sweep into the content of a page.

    Guarantees:
        * The first paragraphs say for each layer which release to take, or that there is none.
        * Every statistic of a layer stands beside its null and its split halves.
        * Top-1 never stands without the size of the bank.

    Args:
        result: What was found; written beside the page as ``results.json``.
        manifest: The run that found it.

    Returns:
        The page, for :func:`insular.reports.render`.
    """
    code = result.exit_code
    verdict = {
        0: "Each layer has a useful and private release",
        1: "No release is both useful and private"
        if not result.in_the_middle
        else "Not every layer has a useful and private release",
        2: "Nothing was measured",
    }[code]
    return framed_page(
        manifest,
        title=f"Hidden states of {result.model}",
        verdict=verdict,
        verdict_kind=_KINDS[code],
        lead=(*answer_sentences(result), clean_sentence(result)),
        sections=(
            _frontier(result),
            layers_section(result.layers),
            _winners(result),
            _foretold(result),
            _cells(result),
        ),
        method=("What was done", METHOD),
        speeds=_speeds(result),
        private="No record text is on this page.",
    )


def _frontier(result: SweepResult) -> Section:
    """Use against risk, layer by layer."""
    blocks: list[Block] = []
    for layer in result.layers:
        points = [
            FrontierPoint(family=FAMILIES[cell.mechanism], agreement=cell.agreement, top1=cell.top1)
            for cell in result.attacked
            if cell.layer == layer.layer and cell.agreement is not None and cell.top1 is not None
        ]
        if points:
            blocks.append(
                Figure(
                    svg=frontier_figure(points, agreement=result.agreement, top1=result.top1),
                    caption=(
                        f"Layer {layer.layer}, {result.n_candidates:,} candidates. A release that "
                        "is useful and private lies in the shaded corner."
                    ),
                    alt=(
                        f"{len(points)} releases of layer {layer.layer}: share of next tokens kept "
                        "against share of prompts found."
                    ),
                    source=place("cells"),
                )
            )
    text = low_rank_sentence(result)
    if text:
        blocks.append(paragraph(text))
    return Section(heading="Use against risk", blocks=tuple(blocks))


def _winners(result: SweepResult) -> Section:
    """The best mechanisms."""
    rows = tuple(
        (
            str(winner.layer),
            "measured KL" if winner.matched == "kl" else "epsilon",
            f"{winner.value:g}",
            "no difference"
            if len(winner.mechanisms) == winner.n_compared
            else ", ".join(winner.mechanisms),
            cited(f"{winner.measure:.3g}", "winners", i, "measure"),
            str(winner.n_compared),
        )
        for i, winner in enumerate(result.winners)
    )
    table = Table(
        caption=(
            f"At equal KL: least top-1 of the best attacker among {result.n_candidates:,} "
            "candidates, and every mechanism whose interval reaches that of the best. At equal "
            f"epsilon (of a typical pair of prompts, delta {short(result.delta)}): least KL, and "
            "every mechanism within a tenth of it."
        ),
        columns=("Layer", "Equal", "Value", "Best, and as good", "Top-1 or KL", "Compared"),
        rows=rows,
        numeric=(0, 2, 4, 5),
        folded=len(rows) > SHOWN_ROWS,
        source=place("winners"),
    )
    return Section(heading="Best mechanisms", blocks=(table,))


def _foretold(result: SweepResult) -> Section:
    """Predicted against measured retrieval."""
    points = [
        PredictedPoint(
            family=FAMILIES[cell.mechanism],
            predicted=cell.predicted_top1,
            measured=cell.attacks[-1].top_1.value,
        )
        for cell in result.attacked
        if cell.predicted_top1 is not None
    ]
    blocks: list[Block] = [Points(items=prediction_sentences(result))]
    if points:
        blocks.append(
            Figure(
                svg=predicted_figure(points),
                caption=(
                    "Top-1 of the aware attacker among "
                    f"{result.n_candidates:,} candidates: predicted from distances between clean "
                    "states, and measured."
                ),
                alt=f"{len(points)} releases: predicted against measured top-1.",
                source=place("cells"),
            )
        )
    return Section(heading="What was predicted before any attack", blocks=tuple(blocks))


def _cells(result: SweepResult) -> Section:
    """Every cell."""
    table = Table(
        caption=(
            "Every cell: use, top-1 of the plain, subspace and aware attackers among "
            f"{result.n_candidates:,} candidates, the aware one's as predicted, and epsilon of a "
            f"typical pair at delta {short(result.delta)}. {result.cells_file} has the same, one "
            "row for each attacker."
        ),
        columns=("Layer", "Mechanism", "KL target", "KL held out", "Agreement", "Plain", "Subspace",
                 "Aware", "Predicted", "Epsilon"),
        rows=tuple(_row(i, cell) for i, cell in enumerate(result.cells)),
        numeric=(0, 2, 3, 4, 5, 6, 7, 8, 9),
        folded=True,
        source=place("cells"),
    )  # fmt: skip
    missing = dict.fromkeys(
        f"{cell.mechanism} at layer {cell.layer} was not fitted: {cell.reason}"
        for cell in result.cells
        if cell.status == "not fitted"
    )
    return Section(
        heading="Every cell", blocks=(table, *([Points(items=tuple(missing))] if missing else ()))
    )


def _row(i: int, cell: SweepCell) -> tuple[Cell, ...]:
    """One cell."""
    start: tuple[Cell, ...] = (str(cell.layer), cell.mechanism, f"{cell.target_kl_nats:g}")
    if cell.utility is None:
        return (*start, STATUS[cell.status], *[""] * 6)
    kl = cell.utility.kl_nats
    return (
        *start,
        cited(f"{kl.mean:.3g} ({kl.low:.2g} to {kl.high:.2g})", "cells", i, "utility/kl_nats"),
        cited(f"{cell.agreement:.3f}", "cells", i, "utility/agreement"),
        *(
            cited(f"{attack.top_1.value:.3f}", "cells", i, "attacks", j, "top_1")
            for j, attack in enumerate(cell.attacks)
        ),
        amount(cell.predicted_top1) if cell.predicted_top1 is not None else "",
        _epsilon(cell),
    )


def _epsilon(cell: SweepCell) -> str:
    """Epsilon; noise that leaves directions out has an infinite one, no noise has none."""
    if cell.epsilon is None:
        return "infinite" if cell.gaussian else "none"
    return amount(cell.epsilon)


def _speeds(result: SweepResult) -> tuple[tuple[str, str], ...]:
    """How long cells took."""
    seconds = sorted(cell.seconds for cell in result.cells)
    if not seconds:
        return ()
    return (("cell", f"{seconds[len(seconds) // 2]:.1f} s, median of {len(seconds)}"),)
