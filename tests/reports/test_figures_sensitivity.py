import re
from typing import Any

import pytest

from insular.errors import InvalidArgumentError
from insular.reports import SensitivityPoint, sensitivity_figure

from .figure_samples import RADII, SAMPLES, screen
from .figure_texts import texts, unreadable

TWELVE = tuple(10 ** (-4 + 5 * i / 11) for i in range(12))


def points(svg: str) -> list[tuple[float, float]]:
    """Where dots, stars and the rims of stars stand, without the key and the ticks."""
    axes = svg[: svg.index("legend_1")]
    ticks = set(re.findall(r'xtick_\d+">.*?<use xlink:href="([^"]*)"', axes, re.S))
    uses = re.findall(r'<use xlink:href="([^"]*)" x="([\d.-]+)" y="([\d.-]+)"', axes)
    return [(float(x), float(y)) for mark, x, y in uses if mark not in ticks]


def one(**changes: Any) -> SensitivityPoint:
    fields = {"candidate": "a", "clip_norm": 1.0, "ratio": 1.0, "exceeds": False, **changes}
    return SensitivityPoint(**fields)


@pytest.mark.parametrize(
    ("n", "radii", "most"),
    [
        (1, (0.5,), 1.0),
        (128, (0.5,), 15.0),
        (1, TWELVE, 15.0),
        (2, (0.01, 1.0), 1.0),
        (31, RADII, 1.6),
        (128, TWELVE, 15.0),
    ],
)
def test_every_row_is_drawn_and_every_text_read(n, radii, most):
    rows = screen(n, radii, most=most)
    svg = sensitivity_figure(rows, clipped_shares=dict.fromkeys(radii, 1.0))
    assert len(points(svg)) == len(rows) + 1  # the star has a rim
    assert unreadable(svg) == []
    assert len(svg) < 150_000


def test_a_candidate_has_the_same_place_in_every_band():
    radii = (0.01, 0.1, 1.0)
    rows = [one(candidate=str(i), clip_norm=r, ratio=1 + i / 10) for r in radii for i in range(3)]
    by_height: dict[float, list[float]] = {}
    for x, y in points(sensitivity_figure(rows)):
        by_height.setdefault(y, []).append(x)
    assert [len(xs) for xs in by_height.values()] == [3, 3, 3]
    steps = [b - a for xs in by_height.values() for a, b in zip(xs, xs[1:], strict=False)]
    assert max(steps) - min(steps) < 0.05


def test_candidates_above_the_bound_are_filled():
    drawings = [sensitivity_figure((one(ratio=1.2, exceeds=e),)) for e in (False, True)]
    fills = [re.findall(r"<use [^>]*fill: (\w+)", svg).count("currentColor") for svg in drawings]
    assert fills == [1, 2]  # the key has one filled dot


def test_the_only_selected_row_is_a_star_with_its_ratio():
    rows = SAMPLES["sensitivity"].rows
    assert "selected: 1.400000" in texts(sensitivity_figure(rows))
    assert "selected" in texts(sensitivity_figure((one(selected=True), one(selected=True))))
    assert not any("selected" in text for text in texts(sensitivity_figure((one(),))))


def test_the_shares_stand_below_their_clip_norms():
    found = texts(sensitivity_figure((one(), one(clip_norm=0.001)), clipped_shares={0.001: 0.97}))
    assert {"1e-3", "97", "1"} <= set(found)
    assert any("per cent of records clipped" in text for text in found)


def test_clip_norms_too_close_for_labels_are_still_drawn():
    rows = [one(clip_norm=c) for c in (1.0, 1.001, 10.0)]
    svg = sensitivity_figure(rows)
    assert unreadable(svg) == []
    assert len(points(svg)) >= 3


@pytest.mark.parametrize(
    ("row", "rule"),
    [
        (one(ratio=float("inf")), r"ratio must be finite and >= 0, got ratio=inf"),
        (one(ratio=-0.1), r"ratio must be finite and >= 0, got ratio=-0.1"),
        (one(clip_norm=0.0), r"clip_norm must be finite and > 0, got clip_norm=0.0"),
    ],
)
def test_rows_without_a_place_are_refused(row, rule):
    with pytest.raises(InvalidArgumentError, match=rule):
        sensitivity_figure((one(), row))


def test_a_share_above_one_is_refused():
    with pytest.raises(InvalidArgumentError, match=r"clipped_shares must be from 0 to 1, got 97"):
        sensitivity_figure((one(),), clipped_shares={1.0: 97})
