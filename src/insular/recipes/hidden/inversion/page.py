"""An inversion as a page: the answer, every cell, along the prompt, every prompt, how to repeat."""

import statistics

from insular.evidence import RunManifest
from insular.hidden.inversion.results import InversionCell, InversionResult
from insular.recipes._numbers import cited, counted, percent, place
from insular.recipes._page_parts import evidence_files, repeat_attack, run_sentence
from insular.recipes.hidden.inversion._cells_section import cells_section, which_cell
from insular.recipes.hidden.inversion._words import (
    KINDS,
    METHOD,
    answer_sentences,
    place_words,
    verdict_words,
)
from insular.reports import (
    Block,
    Cell,
    Figure,
    Page,
    Points,
    PositionPoint,
    Section,
    Table,
    inversion_figure,
    paragraph,
)

_DRAWN = 4
"""Cells that are drawn along the prompt; of more, those whose prompts were partly read."""
_LISTED = 2000
"""Prompts that are listed one by one."""


def inversion_page(result: InversionResult, manifest: RunManifest) -> Page:
    """Turn an inversion into the content of a page.

    Guarantees:
        * The first paragraph says how many prompts were read in the worst cell, under which
          release and storage.
        * Text stands on the page only if the run was asked to show it.

    Args:
        result: What was read; written beside the page as ``results.json``.
        manifest: The run that read it.

    Returns:
        The page, for :func:`insular.reports.render`.
    """
    shown = any(one.recovered_text is not None for cell in result.cells for one in cell.prompts)
    words = "It holds text, as asked for." if shown else "No record text is on this page."
    layers = tuple(dict.fromkeys(cell.layer for cell in result.cells))
    return Page(
        title=f"Inversion of {'layer' if len(layers) == 1 else 'layers'}"
        f" {', '.join(map(str, layers))} of {result.model}",
        verdict=verdict_words(result),
        verdict_kind=KINDS[result.exit_code],
        lead=tuple(paragraph(sentence) for sentence in answer_sentences(result)),
        sections=(
            cells_section(result),
            *_positions(result),
            *_prompts(result),
            *((_texts(result),) if shown else ()),
            Section(heading="What was done", blocks=(Points(items=METHOD),)),
            repeat_attack(manifest, speeds=_speeds(result)),
        ),
        evidence=evidence_files(manifest),
        footer=f"{run_sentence(manifest)} {words}",
    )


def _positions(result: InversionResult) -> tuple[Section, ...]:
    """Share of right tokens along the prompt, cell by cell."""
    known = [(i, cell) for i, cell in enumerate(result.cells) if cell.n_exact is not None]
    if not known:
        return ()
    drawn = known
    if len(known) > _DRAWN:
        # where all or nothing is read there is nothing to see along the prompt
        partly = sorted(known, key=lambda one: abs((one[1].tokens_right or 0.0) - 0.5))
        seen = [one for one in partly if 0.0 < (one[1].tokens_right or 0.0) < 1.0]
        drawn = sorted((seen or partly[:1])[:_DRAWN], key=lambda one: one[0])
    blocks: list[Block] = []
    for i, cell in drawn:
        points = _points(cell)
        if points:
            which = f"{place_words(cell).capitalize()}: s" if len(known) > 1 else "S"
            blocks.append(
                Figure(
                    svg=inversion_figure(points),
                    caption=f"{which}hare of tokens read right, and of true tokens that the ranking"
                    " alone puts first, by position. What lies between was won by trying several"
                    " tokens, by the language model, or by going back.",
                    alt=f"Right at the last position: {percent(points[-1].right)}.",
                    source=place("cells", i, "prompts"),
                )
            )
    if len(drawn) < len(known):
        blocks.append(
            paragraph(f"Drawn: {len(drawn)} of {len(known)} cells, those most nearly half read.")
        )
    return (Section(heading="Along the prompt", blocks=tuple(blocks)),) if blocks else ()


def _points(cell: InversionCell) -> list[PositionPoint]:
    """Position by position."""
    points = []
    for position in range(max(one.n_tokens for one in cell.prompts)):
        long = [one for one in cell.prompts if position < one.n_tokens]
        right = [one.correct[position] for one in long if one.correct]
        ranks = [n for one in long if (n := one.true_ranks[position]) is not None]
        if right:
            points.append(
                PositionPoint(
                    position=position,
                    right=sum(right) / len(right),
                    first=sum(rank == 1 for rank in ranks) / len(ranks) if ranks else None,
                )
            )
    return points


def _prompts(result: InversionResult) -> tuple[Section, ...]:
    """Every prompt by id."""
    rows: list[tuple[Cell, ...]] = [
        (
            *which_cell(cell),
            one.record_id,
            str(one.n_tokens),
            ""
            if one.correct is None
            else cited(str(sum(one.correct)), "cells", i, "prompts", k, "correct"),
            str(sum(status == "accepted" for status in one.statuses)),
            str(max(one.tried, default=0)),
            str(one.opened),
        )
        for i, cell in enumerate(result.cells)
        for k, one in enumerate(cell.prompts)
    ]
    if not rows:
        return ()
    left = len(rows) - _LISTED
    more = f" {counted(left, 'more row')} are in results.json." if left > 0 else ""
    table = Table(
        caption=f"Every prompt: tokens, how many are right, and how hard it was.{more}",
        columns=("Layer", "Release", "Storage", "Id", "Tokens", "Right", "Accepted",
                 "Most tried at a position", "Reopened"),
        rows=tuple(rows[:_LISTED]),
        numeric=(0, 4, 5, 6, 7, 8),
        folded=True,
        source=place("cells"),
    )  # fmt: skip
    return (Section(heading="Every prompt", blocks=(table,)),)


def _texts(result: InversionResult) -> Section:
    """Recovered against true text."""
    rows = tuple(
        (*which_cell(cell), one.record_id, one.recovered_text or "", one.true_text or "unknown")
        for cell in result.cells
        for one in cell.prompts
    )
    table = Table(
        caption="What was read out of the states, beside what the prompt said.",
        columns=("Layer", "Release", "Storage", "Id", "Recovered", "True"),
        rows=rows[:_LISTED],
        numeric=(0,),
        folded=len(result.attacked) > 1,
        source=place("cells"),
    )
    return Section(heading="Recovered text", blocks=(table,))


def _speeds(result: InversionResult) -> tuple[tuple[str, str], ...]:
    """How long a token took."""
    seconds = [cell.seconds_per_token for cell in result.attacked]
    return (("a token", f"{statistics.median(seconds):.3f} s, median"),) if seconds else ()
