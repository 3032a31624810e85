"""Values x masks at one layer: which of the two carries the change of the logits."""

from insular.audit.localisation.intervention_results import Batch, FactorialCell, Interventions
from insular.recipes._numbers import amount, cited, percent, place
from insular.reports import Block, Cell, Code, Inline, Paragraph, Table

_PLACE = ("localisation", "interventions")
_BATCHES: tuple[Batch, ...] = ("D", "D'")


def factorial_blocks(found: Interventions) -> tuple[Block, ...]:
    """The factorial as a sentence and a table, or nothing if it did not run."""
    return (_sentence(found), _table(found)) if found.factorial else ()


def _sentence(found: Interventions) -> Paragraph:
    """What the values alone and the mask alone do to the logits, by the numbers."""
    parts: list[Inline] = [
        "Forward alone, at ",
        Code(text=found.factorial_layer),
        ", the first layer whose union changed: D was run with the activations and the mask of"
        " either batch there. ",
    ]
    if found.values_equal:
        parts.append("The common records' activations are the same in both, to the last bit. ")
    cells = {(cell.values, cell.mask): cell for cell in found.factorial if not cell.problem}
    both = cells.get(("D'", "D'"))
    for key, what in (
        (("D'", "D"), "The values of D' alone"),
        (("D", "D'"), "The mask of D' alone"),
    ):
        if (cell := cells.get(key)) is None:
            parts.append(f"{what} could not be run. ")
        else:
            parts += [f"{what} ", *_effect(found, cell, both)]
    same = cells.get(("D", "D"))
    if same is not None and same.logit_max:
        parts += [
            "The values and the mask of D itself do not give its logits back, but move them by up"
            " to ",
            _logit(found, same),
            ": the cells are estimates.",
        ]
    return Paragraph(parts=tuple(parts))


def _effect(
    found: Interventions, cell: FactorialCell, both: FactorialCell | None
) -> tuple[Inline, ...]:
    """What one cell did, beside the cell with both."""
    if not cell.logit_max:
        return ("change no logit. " if "values" in _what(cell) else "changes no logit. ",)
    verb = "change" if "values" in _what(cell) else "changes"
    start = (f"{verb} the logits by up to ", _logit(found, cell))
    if both is None or not both.logit_l2:
        return (*start, ". ")
    if (cell.logit_max, cell.logit_l2) == (both.logit_max, both.logit_l2):
        return (*start, ", which is the whole effect of both together. ")
    return (*start, f", {percent(cell.logit_l2 / both.logit_l2)} of both together. ")


def _what(cell: FactorialCell) -> str:
    """Which of the two is that of D' in a cell."""
    return "values" if cell.values == "D'" else "mask"


def _logit(found: Interventions, cell: FactorialCell) -> Inline:
    """The largest change of a logit in a cell."""
    i = found.factorial.index(cell)
    return cited(amount(cell.logit_max), *_PLACE, "factorial", i, "logit_max")


def _table(found: Interventions) -> Table:
    """Values by masks."""
    places = {(cell.values, cell.mask): i for i, cell in enumerate(found.factorial)}
    rows = tuple(
        (f"values of {values}", *(_cell(found, places.get((values, mask))) for mask in
                                  _BATCHES))
        for values in _BATCHES
    )  # fmt: skip
    return Table(
        caption="The largest change of a common record's logit from D as it is, and in brackets"
        " the L2 norm of all changes.",
        columns=("Activations", *(f"mask of {mask}" for mask in _BATCHES)),
        rows=rows,
        numeric=(1, 2),
        source=place(*_PLACE, "factorial"),
    )


def _cell(found: Interventions, i: int | None) -> Cell:
    """One cell, or why there is none."""
    if i is None:
        return "not run"
    cell = found.factorial[i]
    if cell.problem:
        return f"rejected: {cell.problem}"
    path = (*_PLACE, "factorial", i)
    return (
        cited(amount(cell.logit_max), *path, "logit_max"),
        " (",
        cited(amount(cell.logit_l2), *path, "logit_l2"),
        ")",
    )
