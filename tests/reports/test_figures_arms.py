import pytest

from insular.errors import InvalidArgumentError
from insular.reports import ArmRatio, arms_figure

from .figure_samples import SAMPLES
from .figure_texts import boxes, texts, unreadable


def arm(stack: str = "native", **changes: float) -> ArmRatio:
    return ArmRatio(**{"stack": stack, "clip_norm": 1.0, "ratio": 1.0, "exceeds": False, **changes})  # type: ignore  # fmt: skip


def test_a_millionth_from_the_bound_can_be_read():
    found = texts(SAMPLES["arms"].svg)
    for ratio in ("1.312094", "1.000001", "0.999999", "1.000000"):
        assert ratio in found


def test_ratios_all_near_one_keep_a_plain_axis():
    found = texts(arms_figure((arm(ratio=1.000001), arm("b", ratio=0.999999))))
    assert not any("e-" in text or "+" in text for text in found)
    assert "1.000" in found


def test_printed_values_stand_in_the_order_of_the_clip_norms():
    svg = arms_figure((arm(ratio=1.2, clip_norm=5.0), arm(ratio=1.1, clip_norm=0.5)))
    heights = {text: top for text, _, top, _, _ in boxes(svg)}
    assert heights["1.100000"] < heights["1.200000"]
    assert {"C = 0.5", "C = 5"} <= set(texts(svg))


@pytest.mark.parametrize("n_radii", [1, 2, 4])
def test_many_stacks_stay_readable(n_radii):
    rows = [
        arm(f"a stack with a long name {i}", clip_norm=float(k + 1), ratio=14.998 / (i + 1))
        for i in range(9)
        for k in range(n_radii)
    ]
    svg = arms_figure(rows)
    assert unreadable(svg) == []
    assert "14.998000" in texts(svg)


def test_bad_rows_are_refused():
    with pytest.raises(InvalidArgumentError, match="ratio must be finite and >= 0, got ratio=nan"):
        arms_figure((arm(ratio=float("nan")),))
    with pytest.raises(InvalidArgumentError, match="clip_norm must be finite and > 0"):
        arms_figure((arm(clip_norm=-1.0),))
    with pytest.raises(InvalidArgumentError, match="one ratio for each stack and clip norm"):
        arms_figure((arm(), arm(ratio=1.1)))
