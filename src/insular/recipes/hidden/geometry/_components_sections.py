"""What the states are made of and how far rounding moves them, as two sections of a page."""

from collections.abc import Sequence

from insular.hidden.states.numerics_results import NumericsResult
from insular.hidden.utility.intervals import MeanInterval
from insular.hidden.utility.results import ReplacementEntry, TransplantEntry
from insular.recipes._numbers import amount, cited, counted, place
from insular.recipes.hidden.geometry._components_words import (
    WAYS,
    carrier_sentence,
    rounding_sentence,
)
from insular.recipes.hidden.geometry.components_results import ComponentsResult
from insular.recipes.hidden.sweep._words import share
from insular.reports import Cell, Points, Section, Table

SHOWN_ROWS = 24
"""A longer table is folded."""
_PROTOCOLS = {"injection": "remaining layers", "readout": "final norm and head"}
_CENTRES = {"uncentred": "zero", "centred": "mean"}


def components_section(layers: Sequence[ComponentsResult]) -> Section:
    """Parts of the states beside random ones, and parts of other prompts' states.

    Args:
        layers: What was measured; ``components`` in ``results.json``.

    Returns:
        A section.
    """
    return Section(
        heading="Which part of the state the prediction lives in",
        blocks=(
            _projections(layers),
            Points(items=tuple(map(carrier_sentence, layers))),
            _transplants(layers),
        ),
    )


def numerics_section(numerics: NumericsResult, layers: Sequence[ComponentsResult]) -> Section:
    """How far the same state moves, beside the nearest other prompt.

    Args:
        numerics: The certificate; ``numerics`` in ``results.json``.
        layers: How near prompts come, layer by layer.

    Returns:
        A section.
    """
    rows: list[tuple[Cell, ...]] = []
    for i, found in enumerate(layers):
        for j, shift in enumerate(numerics.shifts):
            if shift.layer != found.layer:
                continue
            rows.append(
                (
                    str(found.layer),
                    WAYS[shift.way],
                    cited(amount(shift.max_abs), "numerics", "shifts", j, "max_abs"),
                    cited(amount(shift.max_relative), "numerics", "shifts", j, "max_relative"),
                    f"{shift.n_bitwise_equal} of {numerics.n_records}",
                    cited(amount(found.nearest_relative), "components", i, "nearest_relative"),
                    "yes" if found.keeps_apart(shift) else "no",
                )
            )
    table = Table(
        caption=(
            f"How far rounding moves a state: {numerics.n_records} calibration prompts, each alone "
            "in one pass and then computed in another way; the largest move over all tokens, as a "
            "share of the state's length. Beside it, the least distance of a query's state to "
            "another candidate's (last tokens, over the longer one's length). A prompt stays "
            "nearest to itself where twice the largest move seen is below it. It holds for "
            f"{numerics.device}, {numerics.dtype}, {numerics.attention} attention and "
            f"{counted(numerics.threads, 'thread')} alone."
        ),
        columns=(
            "Layer",
            "Computed",
            "Largest change of a number",
            "Largest move",
            "Equal to the last bit",
            "Nearest other prompt",
            "Stay apart",
        ),
        rows=tuple(rows),
        numeric=(0, 2, 3, 5),
        folded=len(rows) > SHOWN_ROWS,
        source=place("numerics"),
    )
    points = [rounding_sentence(numerics, found) for found in layers]
    points.append(
        "Going on from a state at its layer, instead of running the whole model, changes no score "
        f"of a next token by more than {amount(numerics.tail_max_abs_logit)}."
    )
    return Section(
        heading="How far rounding moves a state", blocks=(table, Points(items=tuple(points)))
    )


def _projections(layers: Sequence[ComponentsResult]) -> Table:
    """Each part beside the same part of random directions."""
    rows: list[tuple[Cell, ...]] = []
    for i, layer in enumerate(layers):
        for centring, centre in _CENTRES.items():
            found = getattr(layer, centring)
            for j, entry in enumerate(found.entries):
                if entry.basis != "given":
                    continue
                random = found.entry(entry.protocol, entry.part, "random")
                here = ("components", i, centring, "entries", j)
                rows.append(
                    (
                        str(layer.layer),
                        _PROTOCOLS[entry.protocol],
                        centre,
                        _part(entry, found.rank),
                        cited(_nats(entry.kl_nats), *here, "kl_nats"),
                        _nats(random.kl_nats),
                        cited(_share(entry.agreement), *here, "agreement"),
                        _share(random.agreement),
                    )
                )
    n = layers[0].centred.entries[0].kl_nats.n
    return Table(
        caption=(
            "What the model still predicts when a state keeps only its part in the directions that "
            f"the model reads most, or only the rest; {n} calibration prompts, with intervals. "
            "Compare with random directions: a large rest keeps most of a prediction whatever was "
            "left out, so directions matter where keeping them costs less KL, and leaving them out "
            "more, than with as many random ones. Centring is a choice: about zero, a part also "
            "loses what all states have in common, such as the mean of massive coordinates; about "
            "the mean it keeps that. Where such coordinates dominate, the two can give opposite "
            "answers. Remaining layers: what a release does. Final norm and head: the state and "
            "its part, both read at that layer."
        ),
        columns=(
            "Layer",
            "Read by",
            "About",
            "Kept",
            "KL, nats",
            "KL, random directions",
            "Next token stays",
            "Stays, random directions",
        ),
        rows=tuple(rows),
        numeric=(0,),
        folded=len(rows) > SHOWN_ROWS,
        source=place("components"),
    )


def _transplants(layers: Sequence[ComponentsResult]) -> Table:
    """Whose prediction follows a part."""
    rows: list[tuple[Cell, ...]] = []
    for i, layer in enumerate(layers):
        for j, entry in enumerate(layer.transplants.entries):
            here = ("components", i, "transplants", "entries", j)
            rows.append(
                (
                    str(layer.layer),
                    _part(entry, layer.transplants.rank),
                    cited(_nats(entry.kl_from_own_nats), *here, "kl_from_own_nats"),
                    _share(entry.agreement_with_own),
                    cited(_nats(entry.kl_from_donor_nats), *here, "kl_from_donor_nats"),
                    _share(entry.agreement_with_donor),
                )
            )
    return Table(
        caption=(
            "Each state takes one part from another prompt's state and keeps its own other part; "
            "the earlier tokens stay its own. The part whose owner is followed, with the lower KL "
            "and the more equal next tokens, is the one that carries the prediction."
        ),
        columns=(
            "Layer",
            "Taken from another prompt",
            "KL from own, nats",
            "Own next token",
            "KL from the other's, nats",
            "The other's next token",
        ),
        rows=tuple(rows),
        numeric=(0,),
        folded=len(rows) > SHOWN_ROWS,
        source=place("components"),
    )


def _part(entry: ReplacementEntry | TransplantEntry, rank: int) -> str:
    """A part in words."""
    return f"top {rank} directions" if entry.part == "inside" else "the rest"


def _nats(kl: MeanInterval) -> str:
    """A KL with its interval."""
    return f"{amount(kl.mean)} ({amount(kl.low)} to {amount(kl.high)})"


def _share(found: MeanInterval) -> str:
    """A share with its interval."""
    return f"{share(found.mean)} ({share(found.low)} to {share(found.high)})"
