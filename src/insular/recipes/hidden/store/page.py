"""Indexes of released states as a page: answer, what is found against what is told, every index."""

from insular.evidence import RunManifest
from insular.hidden.store.results import StoreAttacker
from insular.recipes._numbers import cited, percent, place, short
from insular.recipes._page_parts import framed_page
from insular.recipes.hidden.store._words import (
    METHOD,
    answer_sentences,
    lost_words,
    range_words,
    verdict_of,
)
from insular.recipes.hidden.store.results import HiddenStoreResult, StoreCell
from insular.recipes.hidden.sweep._words import FAMILIES
from insular.reports import (
    Block,
    Cell,
    Figure,
    IndexPoint,
    Page,
    Section,
    Table,
    index_figure,
)

_ATTACKERS: tuple[StoreAttacker, ...] = ("plain", "aware", "cells")
_MARKS = 8
"""Shapes of marks that a figure has; more mechanisms share those of their family."""


def store_page(result: HiddenStoreResult, manifest: RunManifest) -> Page:
    """Turn the indexes of a run into the content of a page.

    Guarantees:
        * The first paragraphs say what a clean index tells, and what the best release loses and
          tells.
        * What is told never stands without the number of candidates.

    Args:
        result: What was found; written beside the page as ``results.json``.
        manifest: The run that found it.

    Returns:
        The page, for :func:`insular.reports.render`.
    """
    words, kind = verdict_of(result)
    of = f"states of {result.model}" if result.model else "states of a file"
    return framed_page(
        manifest,
        title=f"A vector index of {of}",
        verdict=words,
        verdict_kind=kind,
        lead=answer_sentences(result),
        sections=(*_figures(result), _table(result)),
        method=("What was done", METHOD),
        speeds=_speeds(result),
        private="No record text is on this page.",
    )


def _figures(result: HiddenStoreResult) -> tuple[Section, ...]:
    """Found against told, layer by layer; nothing for a single index."""
    blocks: list[Block] = []
    names = {cell.mechanism for cell in result.cells}

    def family(cell: StoreCell) -> str:
        if not cell.released:
            return "clean"
        return cell.mechanism if len(names) <= _MARKS else FAMILIES[cell.mechanism]

    for layer in dict.fromkeys(cell.layer for cell in result.cells):
        here = [(cell, found) for cell, found in result.measured if cell.layer == layer]
        if len(here) < 2:
            continue
        n = here[0][1].n_candidates
        points = [
            IndexPoint(
                family=family(cell),
                recall=found.recall.mean,
                told=found.attack_top1.mean,
            )
            for cell, found in here
        ]
        where = "" if layer is None else f"Layer {layer}: "
        blocks.append(
            Figure(
                svg=index_figure(points, chance=1 / n),
                caption=f"{where}neighbours that each index still finds, and rows that the best"
                f" attacker names among {n:,} candidates. Each storage format has a mark."
                " Right and low is what one would like.",
                alt=f"{len(points)} indexes: neighbours found against rows named.",
                source=place("cells"),
            )
        )
    return (Section(heading="Found against told", blocks=tuple(blocks)),) if blocks else ()


def _table(result: HiddenStoreResult) -> Section:
    """Every index."""
    candidates = dict.fromkeys(found.n_candidates for _, found in result.measured)
    among = " or ".join(f"{n:,}" for n in candidates)
    table = Table(
        caption=(
            f"Neighbours lost, and rows told by the best attacker among {among} candidates, with"
            f" {percent(1 - result.significance)} intervals; then by each attacker. Tied: rows of"
            " the best one whose prompt is nearest, but not alone."
        ),
        columns=("Layer", "Written", "KL", "Kept in", "Bytes", "Neighbours lost", "Rows told",
                 "Plain", "Aware", "Cells", "Tied"),
        rows=tuple(_row(i, cell) for i, cell in enumerate(result.cells)),
        numeric=(0, 2, 4, 5, 6, 7, 8, 9, 10),
        source=place("cells"),
    )  # fmt: skip
    return Section(heading="Every index", blocks=(table,))


def _row(i: int, cell: StoreCell) -> tuple[Cell, ...]:
    """One index."""
    layer = "" if cell.layer is None else str(cell.layer)
    kl = "" if cell.target_kl_nats is None else short(cell.target_kl_nats)
    start: tuple[Cell, ...] = (
        layer, cell.mechanism if cell.released else "clean", kl, cell.storage
    )  # fmt: skip
    found, here = cell.measured, ("cells", i, "measured")
    if found is None:
        return (*start, "", "not measured", "", "", "", "", "")
    attacks, best = found.attacks, found.attacks.index(found.best_attack)
    at = {attack.attacker: place for place, attack in enumerate(attacks)}
    return (
        *start,
        cited(f"{found.state_bytes:,}", *here, "state_bytes"),
        cited(lost_words(found), *here, "recall"),
        cited(range_words(found.attack_top1), *here, "attacks", best, "top1"),
        *(
            cited(percent(attacks[at[name]].top1.mean), *here, "attacks", at[name], "top1")
            if name in at
            else ""
            for name in _ATTACKERS
        ),
        cited(f"{attacks[best].n_tied:,}", *here, "attacks", best, "n_tied"),
    )


def _speeds(result: HiddenStoreResult) -> tuple[tuple[str, str], ...]:
    """How long indexes took."""
    seconds = sorted(cell.seconds for cell in result.cells if cell.measured is not None)
    if not seconds:
        return ()
    return (("index", f"{seconds[len(seconds) // 2]:.1f} s, median of {len(seconds)}"),)
