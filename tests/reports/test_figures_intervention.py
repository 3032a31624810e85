import pytest

from insular.errors import InvalidArgumentError
from insular.reports import InterventionBar, intervention_figure

from .figure_samples import SAMPLES
from .figure_texts import texts, unreadable


def bar(name: str = "union in down_proj only", ratio: float = 1.0) -> InterventionBar:
    return InterventionBar(intervention=name, ratio=ratio, exceeds=ratio > 1.0001)


def test_names_of_45_characters_and_six_decimals_are_shown_in_full():
    name = "masks of D forced in forward and backward, mm"
    assert len(name) == 45
    svg = intervention_figure((bar(name, 14.998), bar(ratio=1.000001)), native=14.998)
    assert {name, "14.998000", "1.000001"} <= set(texts(svg))
    assert unreadable(svg) == []


def test_longer_names_are_cut():
    svg = intervention_figure((bar("union in " + "q_proj, " * 9),), native=1.3)
    assert unreadable(svg) == []
    assert "union in q_proj, q_proj, q_proj, q_proj, q_p…" in texts(svg)


def test_the_native_ratio_is_named():
    found = texts(SAMPLES["intervention"].svg)
    assert {"native: 1.312094", "separable bound", "above the bound"} <= set(found)


def test_hatches_are_named_only_where_there_are_some():
    svg = intervention_figure((bar(),), native=1.3)
    assert "above the bound" not in texts(svg)
    assert "<pattern" not in svg


@pytest.mark.parametrize("n", [1, 12])
@pytest.mark.parametrize("ratio", [0.0, 1.0, 15.0])
def test_any_number_of_bars_can_be_read(n, ratio):
    assert unreadable(intervention_figure([bar(str(i), ratio) for i in range(n)], native=1.3)) == []


def test_bad_ratios_are_refused():
    with pytest.raises(InvalidArgumentError, match="ratio must be finite and >= 0, got ratio=nan"):
        intervention_figure((bar(ratio=float("nan")),), native=1.3)
    with pytest.raises(InvalidArgumentError, match="native must be finite and >= 0, got native=-1"):
        intervention_figure((bar(),), native=-1.0)
