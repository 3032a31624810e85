"""Where another record's influence enters the model: the modules that originate it."""

import math
from collections.abc import Sequence

from insular.audit.audit_results import AuditResult
from insular.audit.localisation.places import block_of, kind_of
from insular.audit.localisation.results import Localisation, ModuleInfluence, Origins, Phase
from insular.recipes._numbers import amount, cited, counted, place
from insular.recipes.audit._intervention_blocks import intervention_blocks
from insular.recipes.audit._layer_names import labels, plain, same_layer
from insular.recipes.audit._published import published
from insular.recipes.audit._words import ended
from insular.reports import Block, Cell, Code, Figure, Inline, Paragraph, Table, paragraph

_ORIGINS = ("localisation", "origins")
_DECADES = 6
"""Decades of relative change below 1 that the map tells apart."""
_MOST_COLUMNS = 6
"""Column numbers printed in one cell."""


def localisation_blocks(result: AuditResult) -> tuple[Block, ...]:
    """Origins and interventions of the selected pair, or nothing if they were not sought."""
    found = result.localisation
    if found is None:
        return ()
    blocks: list[Block] = []
    if result.verdict == "undecided":
        blocks.append(paragraph("A check of the stack failed, so what follows is no evidence."))
    if found.origins is None:
        why = ended(found.origins_problem) if found.origins_problem else "no module shows itself."
        blocks.append(paragraph("The pair that the screen selected could not be traced: ", why))
    else:
        blocks += _origins(result, found, found.origins)
    blocks += intervention_blocks(result)
    blocks += published(result.subject.manifest.model, "localisation")
    return tuple(blocks)


def first_sentence(origins: Origins) -> Paragraph:
    """Where the influence enters first, in one sentence."""
    if origins.first is None:
        if not origins.originating():
            return paragraph("No module originates an influence on the other records.")
        return paragraph("No first origin can be named: a rounding came before the others.")
    i = origins.modules.index(origins.first)
    return paragraph(
        "Influence on the other records first enters at ",
        Code(text=plain(origins.first.module)),
        f" ({origins.first.phase}): what it hands on changes by up to ",
        cited(amount(origins.first.relative), *_ORIGINS, "modules", i, "relative"),
        " of its largest value.",
    )


def _origins(result: AuditResult, found: Localisation, origins: Origins) -> list[Block]:
    """How many modules originate, which, and how strongly."""
    blocks: list[Block] = [_roles(result, origins)]
    for phase in ("forward", "backward"):
        if phase == "forward" or origins.originating(phase):
            blocks += [drawing] if (drawing := _map(origins, phase)) else []
    if origins.originating():
        blocks.append(_table(found, origins))
    return blocks


def _roles(result: AuditResult, origins: Origins) -> Paragraph:
    """How many modules originate, and how many only pass on."""
    parts: list[Inline] = ["The pair that the screen selected was traced through "]
    parts.append(cited(counted(origins.n_observed, "module"), *_ORIGINS, "observed"))
    if result.sensitivity is not None and result.sensitivity.screen.n_valid:
        record = Code(text=result.sensitivity.screen.selected.record)
        parts += [": the same records with and without ", record]
    parts += [". "]
    for phase in ("forward", "backward"):
        parts += _roles_in(origins, phase)
    parts += first_sentence(origins).parts
    if origins.unobservable:
        n = counted(len(origins.unobservable), "module")
        number = cited(n, *_ORIGINS, "unobservable")
        parts += [" Not observable: ", number, ", counted with the modules that call them."]
    return Paragraph(parts=tuple(parts))


def _roles_in(origins: Origins, phase: Phase) -> tuple[Inline, ...]:
    """The roles in one pass."""
    mine = [m for m in origins.modules if m.phase == phase]
    n_origin = sum(m.role_pinned == "origin" for m in mine)
    n_rounding = sum(m.role_pinned == "rounding" for m in mine)
    n_passing = sum(
        m.role == "passes" and m.role_pinned not in ("origin", "rounding") for m in mine
    )
    rounding = f", {n_rounding} round differently," if n_rounding else ""
    meaning = (
        " (judged by itself, what it received for these records was unchanged and what it handed"
        " on was not)"
        if phase == "forward"
        else ""
    )
    originate = "originates" if n_origin == 1 else "originate"
    return (
        f"{phase.capitalize()}, ",
        cited(str(n_origin), *_ORIGINS, "modules"),
        f" {originate} a change{meaning}{rounding} and ",
        cited(str(n_passing), *_ORIGINS, "modules"),
        " only pass on what reached them. ",
    )


def _map(origins: Origins, phase: Phase) -> Figure | None:
    """Every module of the decoder's blocks, by how much it originates in one pass."""
    from insular.reports.figures import LayerCell, layer_map_figure

    sources = {m.module: m for m in origins.originating(phase)}
    first = origins.first if origins.first and origins.first.phase == phase else None
    strongest: dict[tuple[int, str], float] = {}
    for module in _shown(origins, sources):
        block = block_of(plain(module))
        if block is not None:
            at = (block, kind_of(plain(module)) or "(block itself)")
            own = sources[module].relative if module in sources else 0.0
            strongest[at] = max(strongest.get(at, 0.0), own)
    if not strongest:
        return None
    names = labels(kind for _, kind in strongest)
    mark = None
    if first is not None and block_of(plain(first.module)) is not None:
        mark = (block_of(plain(first.module)), kind_of(plain(first.module)) or "(block itself)")
    cells = [
        LayerCell(layer=block, kind=names[kind], value=_shade(value), origin=(block, kind) == mark)
        for (block, kind), value in strongest.items()
    ]
    n_outside = sum(block_of(plain(name)) is None for name in sources)
    outside = f" Outside the blocks: {n_outside} more, in the table." if n_outside else ""
    ticks = [(0.0, "none"), (2 / _DECADES, "10⁻⁴"), (4 / _DECADES, "10⁻²"), (1.0, "1")]
    return Figure(
        svg=layer_map_figure(
            cells,
            shade="relative change that originates there",
            ticks=ticks,
            origin="the first to originate a change",
        ),
        caption=f"The network, {phase}: each module judged by itself, with all that reaches it set"
        " back. The darker, the more originates there; lightest: nothing. Blank: no such module."
        f"{outside}",
        alt=_alt(list(sources.values())),
        source=place(*_ORIGINS, "modules"),
    )


def _shown(origins: Origins, sources: dict[str, ModuleInfluence]) -> list[str]:
    """The modules that hold no others, without the adapters' parts, and all that originate."""
    holders = {
        ".".join(parts[:i])
        for name in origins.observed
        for parts in [name.split(".")]
        for i in range(1, len(parts))
        if parts[i] != "base_layer" and not parts[i].startswith("lora_")
    }
    own = [name for name in origins.observed if name not in holders and ".lora_" not in name]
    return list(dict.fromkeys([*own, *sources]))


def _shade(relative: float) -> float:
    """A relative change from 0 to 1, by its logarithm; exactly 0 stays 0."""
    if relative <= 0:
        return 0.0
    return min(1.0, max(1e-9, (math.log10(relative) + _DECADES) / _DECADES))


def _alt(sources: Sequence[ModuleInfluence]) -> str:
    """The strongest origins in words."""
    if not sources:
        return "No module originates a change."
    top = sorted(sources, key=lambda m: -m.relative)[:5]
    return "Strongest: " + "; ".join(f"{plain(m.module)}: {amount(m.relative)}" for m in top)


def _table(found: Localisation, origins: Origins) -> Table:
    """Every module that originates, folded, with the columns that entered its union."""
    unions = () if found.interventions is None else found.interventions.unions
    rows: list[tuple[Cell, ...]] = []
    for i, module in enumerate(origins.modules):
        if module.role_pinned != "origin":
            continue
        path = (*_ORIGINS, "modules", i)
        columns: Cell = "–"
        for j, union in enumerate(unions):
            if module.phase == "forward" and same_layer(module.module, union.layer):
                text = _columns(union.entered)
                columns = cited(text, "localisation", "interventions", "unions", j, "entered")
        rows.append(
            (
                Code(text=plain(module.module)),
                module.phase,
                "yes" if module.role == "origin" else "no",
                cited(f"{len(module.records)} of {len(origins.records)}", *path, "records"),
                cited(amount(module.relative), *path, "relative"),
                columns,
            )
        )
    return Table(
        caption=f"{counted(len(rows), 'module')} in which a change originates. As it is: whether"
        " also in the run as it is, where most of them receive changed values. Records: those"
        " changed there. Entered: columns that joined the union with the added record.",
        columns=("Module", "Pass", "As it is", "Records", "Relative change", "Columns entered"),
        rows=tuple(rows),
        numeric=(3, 4),
        folded=True,
        source=place(*_ORIGINS, "modules"),
    )


def _columns(entered: tuple[int, ...]) -> str:
    """Some column numbers, and how many there are."""
    if not entered:
        return "none"
    shown = ", ".join(map(str, entered[:_MOST_COLUMNS]))
    more = len(entered) - _MOST_COLUMNS
    return f"{shown} and {more} more" if more > 0 else shown
