"""What is left of a pair's excess when outlier sets are held fixed."""

from insular.audit.audit_results import AuditResult
from insular.audit.localisation.intervention_results import (
    Intervention,
    Interventions,
    UnionChange,
)
from insular.audit.localisation.places import block_of, kind_of
from insular.recipes._numbers import (
    amount,
    cited,
    counted,
    in_clip_norms,
    percent,
    place,
    ratio_text,
)
from insular.recipes.audit._factorial_blocks import factorial_blocks
from insular.reports import Block, Cell, Code, Figure, Inline, Paragraph, Table

_PLACE = ("localisation", "interventions")
_NATIVE = "as it is"
_EVERYWHERE = "D's masks everywhere"
_ONLY = "union only in "
_NEARLY = 0.95
"""Share of the excess from which on a part of the layers gives nearly all of it."""


def intervention_blocks(result: AuditResult) -> tuple[Block, ...]:
    """The interventions on the selected pair, or nothing where no layer takes a union."""
    if result.localisation is None or result.localisation.interventions is None:
        return ()
    found = result.localisation.interventions
    margin = 1e-4
    if result.sensitivity is not None:
        margin = result.sensitivity.arms[0].radii[0].margin
    blocks: list[Block] = [_unions(found)]
    if sentence := _findings(found, margin=margin):
        blocks.append(sentence)
    if drawing := _drawing(found, margin=margin):
        blocks.append(drawing)
    blocks.append(_table(found))
    return (*blocks, *factorial_blocks(found))


def _unions(found: Interventions) -> Paragraph:
    """How many unions the added record changed, and whether intervening is without effect."""
    n_columns = sum(len(change.entered) for change in found.unions)
    parts: list[Inline] = [
        "D is the baseline batch, D' the same with the added record; the outlier set of a layer, or"
        " its mask, is the set of columns that it computes outside the int8 product. ",
        cited(f"{len(found.unions)} of {found.n_layers}", *_PLACE, "unions"),
        " int8 layers have another union in D'",
    ]
    if n_columns:
        kind, n = _most_entered(found.unions)
        parts += [
            ": ",
            cited(counted(n_columns, "column"), *_PLACE, "unions"),
            f" entered, {n} of them in ",
            Code(text=kind),
        ]
    parts.append(". ")
    parts.append(
        "With the union everywhere, the product by which sets are held fixed gives the stack's own"
        " gradients to the last bit, so intervening has no effect of its own."
        if found.exact
        else "The product by which sets are held fixed does not give the stack's own gradients to"
        " the last bit, so what follows are estimates."
    )
    return Paragraph(parts=tuple(parts))


def _most_entered(unions: tuple[UnionChange, ...]) -> tuple[str, int]:
    """The kind of layer that most columns entered, and how many."""
    by_kind: dict[str, int] = {}
    for change in unions:
        by_kind[change.kind] = by_kind.get(change.kind, 0) + len(change.entered)
    return max(by_kind.items(), key=lambda item: item[1])


def _findings(found: Interventions, *, margin: float) -> Paragraph | None:
    """Which part of the layers gives the excess, and what removes it."""
    native = found.step(_NATIVE)
    if native is None or not native.valid:
        return None
    parts: list[Inline] = []
    only = [
        step
        for step in found.steps
        if step.name.startswith(_ONLY) and " blocks " not in step.name and step.valid
    ]
    if only and native.ratio > 1 + margin:
        step = max(only, key=lambda step: step.ratio)
        parts += [
            "Where the added record's columns reach the others through the ",
            Code(text=step.name.removeprefix(_ONLY)),
            " layers alone, the pair still moves the sum by ",
            _cited(found, step),
            f", {_share(step, native, margin=margin)} ",
            _cited(found, native),
            " of the stack as it is. ",
        ]
    if (step := found.step(_EVERYWHERE)) is not None and step.valid:
        parts += [
            "Where every layer computes the common records with the outlier sets that they had in"
            " D, forward and backward, it is ",
            cited(ratio_text(step.ratio), *_PLACE, "steps", found.steps.index(step), "ratio"),
            ", and ",
            cited(str(step.n_altered), *_PLACE, "steps", found.steps.index(step), "n_altered"),
            " of their gradients change."
            if step.n_altered != 1
            else " of their gradients changes.",
        ]
    return Paragraph(parts=tuple(parts)) if parts else None


def _cited(found: Interventions, step: Intervention) -> Inline:
    """A step's ratio, in C."""
    return cited(in_clip_norms(step.ratio), *_PLACE, "steps", found.steps.index(step), "ratio")


def _share(step: Intervention, native: Intervention, *, margin: float) -> str:
    """How much of the native excess a step keeps, in words."""
    excess = (step.ratio - 1) / (native.ratio - 1)
    if step.ratio <= 1 + margin:
        return "no excess, against the"
    if step.ratio > native.ratio + margin:
        return "more than the"
    if step.ratio >= native.ratio - margin:
        return "all of the"
    return "nearly all of the" if excess >= _NEARLY else f"{percent(excess)} of the excess of the"


def _drawing(found: Interventions, *, margin: float) -> Figure | None:
    """The ratio under each intervention that succeeded."""
    from insular.reports.figures import InterventionBar, intervention_figure

    native = found.step(_NATIVE)
    rows = [
        InterventionBar(
            intervention=_short(step.name), ratio=step.ratio, exceeds=step.ratio > 1 + margin
        )
        for step in found.steps
        if step.valid and step.name != _NATIVE
    ]
    if native is None or not native.valid or not rows:
        return None
    return Figure(
        svg=intervention_figure(rows, native=native.ratio),
        caption="What is left of the ratio when outlier sets are held fixed. “Union only in” some"
        " layers: in all others the common records, in D', take the union among themselves. “D's"
        " masks”: they keep the sets that they had in D.",
        alt="; ".join(f"{row.intervention}: {ratio_text(row.ratio)}" for row in rows),
        source=place(*_PLACE, "steps"),
    )


def _short(name: str) -> str:
    """The words of a step, with a layer's name cut to its block and kind."""
    words = []
    for word in name.split(" "):
        block, kind = block_of(word), kind_of(word).rpartition(".")[2]
        is_layer = "." in word and block is not None
        words.append(f"{kind} of block {block}" if is_layer else word)
    return " ".join(words)


def _table(found: Interventions) -> Table:
    """Every intervention; a rejected one says why."""
    rows: list[tuple[Cell, ...]] = []
    for i, step in enumerate(found.steps):
        path = (*_PLACE, "steps", i)
        numbers: tuple[Cell, ...] = (
            (
                cited(f"{step.ratio:.7f}", *path, "ratio"),
                cited(str(step.n_altered), *path, "n_altered"),
                cited(amount(step.largest_change), *path, "largest_change"),
            )
            if step.valid
            else ("–", "–", "–")
        )
        name: Cell = step.name if step.valid else (step.name, f". Rejected: {step.problem}")
        layers = cited(f"{step.n_layers} of {found.n_layers}", *path, "n_layers")
        rows.append((name, layers, *numbers))
    return Table(
        caption="Every intervention on the pair. Union: layers that still take it. Altered: common"
        " records whose gradient differs. Change: the largest of a clipped gradient.",
        columns=("Intervention", "Union in", "Ratio", "Altered", "Change, in\u00a0C"),
        rows=tuple(rows),
        numeric=(1, 2, 3, 4),
        source=place(*_PLACE, "steps"),
    )
