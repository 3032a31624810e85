import re

import pytest

from insular.errors import InvalidArgumentError
from insular.reports import LayerCell, layer_map_figure

from .figure_samples import BLOCK, CENSUS, OPT, SAMPLES, network
from .figure_texts import texts, unreadable

KINDS = tuple(f"projection_{i}" for i in range(12))
INK = re.compile(r'<path d="([^"]*)"[^>]*?style="fill: currentColor; opacity: ([\d.]+)"')


def tiles(svg: str) -> dict[str, int]:
    """How many rectangles have each shade, the seven of the scale not counted."""
    counts: dict[str, int] = {}
    for path, opacity in INK.findall(svg):
        counts[opacity] = counts.get(opacity, -1) + path.count("z")
    return counts


def cell(layer: int = 0, kind: str = "q_proj", *, value: float | None = 0.5, **more) -> LayerCell:
    return LayerCell(layer=layer, kind=kind, value=value, **more)


def test_exactly_zero_is_the_lightest_of_seven_shades():
    values = (0.0, 1e-9, 1 / 6, 0.17, 0.5, 0.51, 1.0)
    counts = tiles(layer_map_figure([cell(i, value=v) for i, v in enumerate(values)], **CENSUS))
    assert len(counts) == 7
    assert [counts[shade] for shade in sorted(counts, key=float)] == [1, 2, 1, 1, 1, 0, 1]


def test_blank_is_blank():
    rows = (cell(0), cell(1, value=None), cell(3))  # layer 2 has no row
    assert sum(tiles(layer_map_figure(rows, **CENSUS)).values()) == 2


@pytest.mark.parametrize(("n_layers", "bands"), [(1, 1), (40, 1), (41, 2), (80, 2), (126, 4)])
def test_deep_networks_are_drawn_in_bands(n_layers, bands):
    svg = layer_map_figure(network(n_layers, KINDS), **CENSUS)
    assert texts(svg).count("projection_0") == bands
    assert unreadable(svg) == []
    assert len(svg) < 120_000 * bands


def test_numbers_are_printed_only_where_they_fit():
    few, many = network(12, OPT, text=True), network(30, BLOCK, text=True)
    assert texts(layer_map_figure(few, **CENSUS)).count("13") >= 3
    assert texts(layer_map_figure(many, **CENSUS)).count("13") == 0


def test_the_triangle_is_named_where_there_is_one():
    assert CENSUS.keys() == {"shade", "ticks"}
    marked = texts(layer_map_figure((cell(origin=True),), origin="originates", **CENSUS))
    assert "originates" in marked
    assert "originates" not in texts(layer_map_figure((cell(),), origin="originates", **CENSUS))


def test_the_scale_says_what_the_shade_means():
    found = texts(SAMPLES["census map"].svg)
    assert {CENSUS["shade"], "0", "8", "16", "block"} <= set(found)


def test_two_maps_share_no_id():
    maps = [SAMPLES[name].svg for name in ("census map", "localisation map", "small map")]
    ids = [set(re.findall(r'\bid="([^"]+)"', svg)) for svg in maps]
    assert not ids[0] & ids[1] and not ids[1] & ids[2] and not ids[0] & ids[2]


@pytest.mark.parametrize(
    ("rows", "options", "rule"),
    [
        ((cell(value=1.01),), {}, "value must be from 0 to 1, got value=1.01"),
        ((cell(value=float("nan")),), {}, "value must be from 0 to 1, got value=nan"),
        ((cell(-1),), {}, "layer must be an integer >= 0, got layer=-1"),
        ((cell(), cell()), {}, "rows must hold one row for each layer and kind"),
        ((cell(),), {"ticks": ((16, "16"),)}, "ticks must be from 0 to 1, got 16"),
    ],
)
def test_what_has_no_place_is_refused(rows, options, rule):
    with pytest.raises(InvalidArgumentError, match=rule):
        layer_map_figure(rows, **{**CENSUS, **options})
