"""How often records decide each other's precision on natural text."""

from insular.audit.audit_results import AuditResult
from insular.audit.census.results import CensusResult, LayerCensus
from insular.recipes._numbers import cited, counted, listed, percent, place, short
from insular.recipes.audit._layer_names import labels
from insular.recipes.audit._published import published
from insular.reports import Block, Cell, Figure, Inline, Paragraph, Section, Table, paragraph

HEADING = "How often, on natural text"
_BATCHES = ("census", "batches")


def census_section(result: AuditResult) -> tuple[Section, ...]:
    """The section on the routing census, or none if it did not run or does not apply."""
    census = result.census
    if census is None:
        return ()
    blocks: list[Block] = []
    if not census.takes_union:
        blocks.append(
            paragraph(
                "Hypothetical: this stack gives no row the outlier columns of another record. The"
                " counts say what LLM.int8, which takes the union of a batch, would have done with"
                " its activations."
            )
        )
    blocks.append(_answer(census))
    blocks += published(result.subject.manifest.model, "census")
    if any(batch.n_pairs for batch in census.batches):
        blocks.append(_bars(census))
    if drawing := _map(census):
        blocks.append(drawing)
    blocks.append(_table(census))
    return (Section(heading=HEADING, blocks=tuple(blocks)),)


def _answer(census: CensusResult) -> Paragraph:
    """What the largest batch shows, beside the smallest."""
    largest, i = census.largest, len(census.batches) - 1
    start: tuple[Inline, ...] = (
        "LLM.int8 computes a column outside the int8 product if any record of the batch reaches the"
        " threshold (",
        *listed([short(threshold) for threshold in census.thresholds]),
        ") in it. ",
        cited(counted(len(census.records), "record"), "census", "records"),
        " of the text (",
        cited(counted(census.n_tokens, "token"), "census", "n_tokens"),
        ") were run in batches of several sizes. ",
    )
    if not largest.n_pairs:
        return paragraph(*start, "No record reached it in any layer.")
    end: tuple[Inline, ...] = (
        "With ",
        cited(str(largest.batch), *_BATCHES, i, "batch"),
        " on the device, other records ",
        *(("or padding ",) if largest.n_padding else ()),
        "brought in a column in ",
        cited(percent(largest.altered_share), *_BATCHES, i, "n_altered"),
        " of the record-layer pairs, a pair being a record at a layer that has such columns; ",
        cited(percent(largest.foreign_share), *_BATCHES, i, "n_foreign"),
        " of the columns that records were given were not their own. Giving each record its own"
        " columns saves ",
        cited(percent(largest.saved_share), *_BATCHES, i, "owned_work"),
        " of the work outside the int8 product.",
    )
    if len(census.batches) == 1:
        return paragraph(*start, *end)
    smallest = census.batches[0]
    return paragraph(
        *start,
        *end,
        " With ",
        cited(str(smallest.batch), *_BATCHES, 0, "batch"),
        " on the device the shares are ",
        cited(percent(smallest.altered_share), *_BATCHES, 0, "n_altered"),
        ", ",
        cited(percent(smallest.foreign_share), *_BATCHES, 0, "n_foreign"),
        " and ",
        cited(percent(smallest.saved_share), *_BATCHES, 0, "owned_work"),
        ".",
    )


def _bars(census: CensusResult) -> Figure:
    """The shares by the number of records on the device."""
    from insular.reports.figures import CensusBar, census_figure

    rows = [
        CensusBar(physical_batch=batch.batch, share=share, percent=100 * value)
        for batch in census.batches
        for share, value in (
            ("record-layer pairs altered", batch.altered_share),
            ("foreign columns", batch.foreign_share),
            ("correction work that ownership saves", max(batch.saved_share, 0.0)),
        )
    ]
    return Figure(
        svg=census_figure(rows),
        caption="The more records share a batch, the more of its outlier columns are not a record's"
        " own."
        if rows[-2].percent > rows[1].percent
        else "The shares by the number of records that share a batch.",
        alt="; ".join(f"{row.physical_batch} records, {row.share}: {row.percent:.1f}%"
                      for row in rows),
        source=place(*_BATCHES),
    )  # fmt: skip


def _map(census: CensusResult) -> Figure | None:
    """How many records are altered at each layer; None where no layer stands in a block."""
    from insular.reports.figures import LayerCell, layer_map_figure

    n = len(census.records)
    own = [layer for layer in census.distinct_inputs if layer.block is not None]
    if not own:
        return None
    kinds = labels([kind for layer in own for kind in _readers(census, layer)])
    cells = [
        LayerCell(
            layer=layer.block or 0,
            kind=_merged([kinds[kind] for kind in _readers(census, layer)]),
            value=layer.n_altered / n if layer.unions[-1] else None,
            text=str(layer.n_altered) if layer.unions[-1] else "",
        )
        for layer in own
    ]
    ticks = (
        [(0.0, "0"), (1.0, str(n))] if n % 2 else [(0.0, "0"), (0.5, str(n // 2)), (1.0, str(n))]
    )
    size = census.largest.batch
    worst = sorted(own, key=lambda layer: -layer.n_altered)[:5]
    return Figure(
        svg=layer_map_figure(cells, shade=f"records given a foreign column, of {n}", ticks=ticks),
        caption=f"Where this happens, with {size} records on the device. Each tile is a layer, or"
        " several that read the same input. Blank: no record reaches the threshold there. Lightest:"
        " some do, and every record has all those columns itself.",
        alt="Most records altered: "
        + "; ".join(f"{layer.name}: {layer.n_altered} of {n}" for layer in worst),
        source=place("census", "layers"),
    )


def _table(census: CensusResult) -> Table:
    """One line for each batch size."""
    rows: list[tuple[Cell, ...]] = []
    for i, batch in enumerate(census.batches):
        path = (*_BATCHES, i)
        rows.append(
            (
                cited(str(batch.batch), *path, "batch"),
                cited(f"{batch.n_layers} of {len(census.layers)}", *path, "n_layers"),
                cited(f"{batch.n_pairs:,}", *path, "n_pairs"),
                cited(percent(batch.altered_share), *path, "n_altered"),
                cited(percent(batch.foreign_share), *path, "n_foreign"),
                cited(percent(batch.padding_share), *path, "n_padding"),
                cited(percent(batch.saved_share), *path, "owned_work"),
                cited(str(batch.largest_union), *path, "largest_union"),
            )
        )
    return Table(
        caption="Layers: those in which some record reaches the threshold. Pairs: records at these"
        " layers. Padding: columns that no record of the batch has.",
        columns=("Records on the device", "Layers", "Pairs", "Altered", "Foreign columns",
                 "Padding", "Work saved", "Largest union"),
        rows=tuple(rows),
        numeric=tuple(range(8)),
        source=place(*_BATCHES),
    )  # fmt: skip


def _readers(census: CensusResult, layer: LayerCensus) -> list[str]:
    """The kinds of layer that read one input."""
    return list(dict.fromkeys(other.kind for other in census.sharing(layer)))


def _merged(names: list[str]) -> str:
    """Several names as one, with a common ending written once."""
    endings = {name.rpartition("_")[1:] for name in names}
    if len(names) > 1 and len(endings) == 1 and (end := "".join(endings.pop())):
        return "/".join(name.removesuffix(end) for name in names) + end
    return "/".join(names)
