"""Planted secrets as a page: the answer first, exposure by repetitions, ranks, how to repeat."""

import math

from insular.audit.secrets.exposure import chance_band
from insular.audit.secrets.results import ExtractionResult, SecretGroup
from insular.evidence import RunManifest
from insular.recipes._numbers import cited, percent, place
from insular.recipes._page_parts import framed_page
from insular.recipes.attack.extraction._words import (
    KINDS,
    answer_sentences,
    bits_interval,
    method_sentences,
    p_text,
    planted_words,
    samples_text,
)
from insular.reports import (
    Cell,
    ExposureBound,
    ExposurePoint,
    Figure,
    Page,
    Section,
    Table,
    exposure_figure,
    exposure_histogram_figure,
)

_WORDS = {
    "refuted": "Refuted: the model tells more of planted secrets than is promised",
    "not refuted": "Not refuted",
    "undecided": "Undecided",
    "nothing promised": "Measured; nothing is promised",
}


def extraction_page(result: ExtractionResult, manifest: RunManifest) -> Page:
    """Turn the ranks of planted secrets into the content of a page.

    Guarantees:
        * The first paragraphs say what it shows, what became of the promise, and what it does not
          show.
        * Secrets appear by id only.

    Args:
        result: What was found; written beside the page as ``results.json``.
        manifest: The run that found it.

    Returns:
        The page, for :func:`insular.reports.render`.
    """
    return framed_page(
        manifest,
        title=f"Planted secrets in {result.attacked}",
        verdict=_WORDS[result.verdict],
        verdict_kind=KINDS[result.verdict],
        lead=answer_sentences(result),
        sections=(
            _by_repetitions(result),
            *((_tests(result),) if result.tests else ()),
            _each(result),
        ),
        method=("What the numbers rest on", method_sentences(result)),
        private="Secrets are named by id; none of them is on this page.",
    )


def _by_repetitions(result: ExtractionResult) -> Section:
    """Groups as a table and as figures."""
    rows = [_group_row(result.controls, "controls")]
    rows += [_group_row(group, "planted", i) for i, group in enumerate(result.planted)]
    table = Table(
        caption="Exposure by how often a secret was planted, against what the promise allows.",
        columns=("Secrets", "n", "Mean, bits", "Median (95%)", "Allowed mean", "Epsilon of rows",
                 "Spelled greedily (95%)", "By chance"),
        rows=tuple(rows),
        numeric=(1, 2, 3, 4, 5, 6, 7),
        source=place("planted"),
    )  # fmt: skip
    points = [
        ExposurePoint(repeats=rank.repeats, bits=rank.exposure_bits, extracted=rank.greedy)
        for rank in result.secrets
    ]
    bounds = [
        ExposureBound(repeats=group.repeats, bits=group.allowed.mean_bits)
        for group in result.planted
        if group.allowed is not None
    ]
    smallest = min(group.n for group in (result.controls, *result.planted))
    words = "; ".join(
        f"{planted_words(group)}: mean {group.mean_bits:.2f} bits"
        for group in (result.controls, *result.planted)
    )
    figure = Figure(
        svg=exposure_figure(
            points,
            band=chance_band(smallest),
            bounds=bounds,
            most_bits=math.log2(result.space_size),
        ),
        caption=(
            "Each mark is a secret. Above the band, more shows than chance gives a mean of the"
            " smallest group; a mean above its dashed line is more than the promise allows on"
            " average, and only the tests below decide whether that refutes it."
        ),
        alt=words,
        source=place("secrets"),
    )
    histogram = Figure(
        svg=exposure_histogram_figure(points),
        caption="Secrets that were planted against those that were not: what lies to the right of"
        " the controls was learnt.",
        alt=words,
        source=place("secrets"),
    )
    return Section(heading="Exposure by repetitions", blocks=(table, figure, histogram))


def _group_row(group: SecretGroup, *at: str | int) -> tuple[Cell, ...]:
    """One group of the table."""
    allowed = group.allowed
    rate = group.greedy
    return (
        planted_words(group),
        str(group.n),
        cited(f"{group.mean_bits:.2f}", *at, "mean_bits"),
        cited(bits_interval(group), *at, "median_bits"),
        "" if allowed is None else cited(f"{allowed.mean_bits:.2f}", *at, "allowed/mean_bits"),
        "" if allowed is None else cited(f"{allowed.epsilon:.3g}", *at, "allowed/epsilon"),
        cited(f"{rate.count} ({percent(rate.lower)}-{percent(rate.upper)})", *at, "greedy"),
        cited(p_text(group.chance_p), *at, "chance_p"),
    )


def _tests(result: ExtractionResult) -> Section:
    """Every test of the promise."""
    rows = tuple(
        (
            f"{test.repeats}",
            cited(f"{test.share:g}", "tests", i, "share"),
            cited(f"{test.count} of {test.n}", "tests", i, "count"),
            cited(f"{test.probability:.2g}", "tests", i, "probability"),
            cited(p_text(test.p_value), "tests", i, "p_value"),
            cited(p_text(test.smallest_p), "tests", i, "smallest_p"),
            "refuted" if test in result.refuting else "not refuted",
        )
        for i, test in enumerate(result.tests)
    )
    table = Table(
        caption=f"A test refutes the promise where its probability is {result.level:.2g} or less.",
        columns=("Planted", "Front share", "Secrets there", "Allowed for one", "Probability of so"
                 " many", "If all were there", "Verdict"),
        rows=rows,
        numeric=(0, 1, 2, 3, 4, 5),
        source=place("tests"),
    )  # fmt: skip
    return Section(heading="What the promise allows", blocks=(table,))


def _each(result: ExtractionResult) -> Section:
    """Every secret by id."""
    rows = []
    for i, rank in enumerate(result.secrets):
        low, high = rank.exposure_interval
        rows.append(
            (
                rank.id,
                str(rank.repeats),
                cited(_rank_text(rank.rank_lowest, rank.rank_highest), "secrets", i, "rank_lowest"),
                f"{rank.n_candidates:,}",
                f"{rank.exposure_bits:.2f} ({low:.1f}-{high:.1f})",
                "yes" if rank.greedy else "no",
                samples_text(rank.samples_needed),
            )
        )
    table = Table(
        caption="Every secret: its rank among candidates, ties as an interval.",
        columns=("Id", "Planted", "Rank", "Of", "Exposure, bits", "Greedy", "Samples needed"),
        rows=tuple(rows),
        numeric=(1, 2, 3, 4, 6),
        folded=True,
        source=place("secrets"),
    )
    return Section(heading="Every secret", blocks=(table,))


def _rank_text(lowest: int, highest: int) -> str:
    """A rank, or the interval that ties leave."""
    return f"{lowest:,}" if lowest == highest else f"{lowest:,} to {highest:,}"
