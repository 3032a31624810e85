"""The cells of an inversion as one section of a page: drawn, in numbers, and why some are empty."""

from collections import Counter
from collections.abc import Iterator

from insular.hidden.inversion.results import InversionCell, InversionResult
from insular.hidden.utility.intervals import MeanInterval
from insular.recipes._numbers import amount, cited, percent, place
from insular.recipes.hidden.inversion._words import missing_sentences
from insular.recipes.hidden.sweep._words import STATUS
from insular.reports import (
    Block,
    Cell,
    Figure,
    Points,
    RecoveryPoint,
    Section,
    Table,
    recovery_figure,
)


def cells_section(result: InversionResult) -> Section:
    """Every cell, drawn where there are several.

    Args:
        result: The inversion; its cells are ``cells`` in ``results.json``.

    Returns:
        A section.
    """
    blocks: list[Block] = []
    if len(result.attacked) > 1:
        blocks += _drawn(result)
    blocks.append(
        Table(
            caption="What was read, by layer, release and storage, over the same prompts. Measured"
            " KL is that of the release on calibration prompts; first is the share of true tokens"
            " that the ranking alone puts first; tried is the mean number of tokens run at a"
            " position. Intervals in brackets.",
            columns=(
                "Layer",
                "Release",
                "Storage",
                "KL, nats",
                "Exact match, %",
                "Tokens right, %",
                "First",
                "Tried",
                "s/token",
            ),
            rows=tuple(_row(i, cell) for i, cell in enumerate(result.cells)),
            numeric=(0, 3, 4, 5, 6, 7, 8),
            source=place("cells"),
        )  # fmt: skip
    )
    blocks.append(
        Table(
            caption="How sure the attacker is of the tokens, how many accepted ones are wrong, and"
            " the relative rounding of the model's own arithmetic.",
            columns=(
                "Layer",
                "Release",
                "Storage",
                "Accepted",
                "Ambiguous",
                "Doubtful",
                "Unobserved",
                "Accepted, but wrong",
                "Rounding",
            ),
            rows=tuple(_sureness(i, cell) for i, cell in enumerate(result.cells) if cell.prompts),
            numeric=(0, 3, 4, 5, 6, 7, 8),
            folded=len(result.attacked) > 1,
            source=place("cells"),
        )  # fmt: skip
    )
    missing = missing_sentences(result)
    if missing:
        blocks.append(Points(items=missing))
    return Section(heading="What was read", blocks=tuple(blocks))


def _drawn(result: InversionResult) -> Iterator[Block]:
    """Exact match and tokens right by release, a drawing for each layer."""
    for layer in dict.fromkeys(cell.layer for cell in result.attacked):
        points = [
            RecoveryPoint(
                release=_name(cell),
                storage=cell.storage,
                exact=cell.exact_match.mean,
                low=cell.exact_match.low,
                high=cell.exact_match.high,
                tokens=cell.token_accuracy.mean,
            )
            for cell in result.attacked
            if cell.layer == layer and cell.exact_match and cell.token_accuracy
        ]
        if points:
            best = max(points, key=lambda one: one.exact)
            yield Figure(
                svg=recovery_figure(points),
                caption=f"Layer {layer}: prompts read exactly, with their interval, and tokens read"
                " right. A release protects its prompts from this attacker only as far to the left"
                " as it stands.",
                alt=f"{len(points)} cells of layer {layer}: at most {percent(best.exact)} of"
                f" prompts read exactly, behind {best.release}.",
                source=place("cells"),
            )


def which_cell(cell: InversionCell) -> tuple[Cell, ...]:
    """A cell's layer, release and storage, as columns.

    Args:
        cell: It.

    Returns:
        Three columns.
    """
    every = "" if cell.every == 1 else f", every {cell.every}"
    return (str(cell.layer), _name(cell), f"{cell.storage}{every}")


def _name(cell: InversionCell) -> str:
    """Its release."""
    return "clean" if cell.status == "clean" else cell.mechanism


def _row(i: int, cell: InversionCell) -> tuple[Cell, ...]:
    """One cell."""
    if not cell.prompts:
        return (*which_cell(cell), STATUS.get(cell.status, cell.status), *[""] * 5)
    kl: Cell = {"clean": "0", "given": "not measured"}.get(cell.status, "")
    if cell.kl is not None:
        kl = cited(
            f"{amount(cell.kl.mean)} ({cell.kl.low:.2g} to {cell.kl.high:.2g})", "cells", i, "kl"
        )
    shares: list[Cell] = [
        "" if share is None else cited(_share(share), "cells", i, name)
        for name, share in (
            ("exact_match", cell.exact_match),
            ("token_accuracy", cell.token_accuracy),
        )
    ]
    first = cell.ranked_first
    return (
        *which_cell(cell),
        kl,
        *shares,
        "" if first is None else cited(percent(first), "cells", i, "ranked_first"),
        cited(f"{cell.candidates_per_token:.1f}", "cells", i, "candidates_per_token"),
        cited(f"{cell.seconds_per_token:.3f}", "cells", i, "seconds_per_token"),
    )


def _share(interval: MeanInterval) -> str:
    """A share and the ends of its interval, narrow enough for a column."""
    mean, low, high = (f"{100 * x:.1f}" for x in (interval.mean, interval.low, interval.high))
    return f"{mean} ({low} to {high})"


def _sureness(i: int, cell: InversionCell) -> tuple[Cell, ...]:
    """Tokens of one cell by status."""
    counts = Counter(status for one in cell.prompts for status in one.statuses)
    wrong = cell.silent_errors
    return (
        *which_cell(cell),
        *(str(counts[name]) for name in ("accepted", "ambiguous", "doubtful", "unobserved")),
        "unknown" if wrong is None else str(wrong),
        cited(f"{cell.rounding:.2g}", "cells", i, "rounding"),
    )
