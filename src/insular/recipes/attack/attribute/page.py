"""Attribute inference as a page: the answer first, accuracies, ranks, how to repeat."""

from insular.audit.attribute.results import AttributeResult
from insular.evidence import RunManifest
from insular.recipes._numbers import cited, place
from insular.recipes._page_parts import RECORD_IDS_ONLY, framed_page
from insular.recipes.attack.attribute._words import (
    KINDS,
    answer_sentences,
    difference_text,
    method_sentences,
    rate_text,
)
from insular.reports import Cell, Page, Section, Table

_WORDS = {
    "tells more": "The model tells more than its population does",
    "not shown": "Not shown to tell more than its population does",
    "undecided": "Undecided: too few records",
}


def attribute_page(result: AttributeResult, manifest: RunManifest) -> Page:
    """Turn guesses of an attribute into the content of a page.

    Guarantees:
        * The first paragraphs say what it shows and what it does not.
        * Records appear by id, values not at all.

    Args:
        result: What was found; written beside the page as ``results.json``.
        manifest: The run that found it.

    Returns:
        The page, for :func:`insular.reports.render`.
    """
    return framed_page(
        manifest,
        title=f"Attribute inference on {result.attacked}",
        verdict=_WORDS[result.verdict],
        verdict_kind=KINDS[result.verdict],
        lead=answer_sentences(result),
        sections=(
            _accuracies(result),
            _each(result),
        ),
        method=("What the numbers rest on", method_sentences(result)),
        private=RECORD_IDS_ONLY,
    )


def _accuracies(result: AttributeResult) -> Section:
    """Who guesses how many."""
    rows: list[tuple[Cell, ...]] = [
        ("attack", cited(rate_text(result.accuracy), "accuracy"), "", "", "", "")
    ]
    rows += [
        (
            row.baseline,
            cited(rate_text(row.accuracy), "comparisons", i, "accuracy"),
            cited(f"{row.only_attack}", "comparisons", i, "only_attack"),
            cited(f"{row.only_baseline}", "comparisons", i, "only_baseline"),
            cited(difference_text(row), "comparisons", i, "difference"),
            cited(f"{row.p_value:.2g}", "comparisons", i, "p_value"),
        )
        for i, row in enumerate(result.comparisons)
    ]
    table = Table(
        caption="The attack has learnt something only if it beats every baseline.",
        columns=("Who guesses", "Accuracy (95%)", "Only attack", "Only baseline",
                 "Attack is better by, points", "p"),
        rows=tuple(rows),
        numeric=(1, 2, 3, 4, 5),
        source=place("comparisons"),
    )  # fmt: skip
    return Section(heading=f"Guesses of {result.attribute}", blocks=(table,))


def _each(result: AttributeResult) -> Section:
    """Ranks of the true value, by id."""
    rows = tuple(
        (
            rank.id,
            cited(_interval(rank.lowest, rank.highest), "records", i, "lowest"),
            "" if rank.base_lowest is None or rank.base_highest is None
            else cited(_interval(rank.base_lowest, rank.base_highest), "records", i, "base_lowest"),
        )
        for i, rank in enumerate(result.records)
    )  # fmt: skip
    table = Table(
        caption=f"Rank of the true value among {result.n_values}, ties as an interval.",
        columns=("Record", "Model", "Base model"),
        rows=rows,
        numeric=(1, 2),
        folded=True,
        source=place("records"),
    )
    return Section(heading="Every record", blocks=(table,))


def _interval(lowest: int, highest: int) -> str:
    """A rank, or the interval that ties leave."""
    return f"{lowest}" if lowest == highest else f"{lowest} to {highest}"
