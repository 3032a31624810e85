import re

import pytest

from insular.errors import InvalidArgumentError
from insular.reports import PredictedPoint, predicted_figure

from .figure_samples import SAMPLES
from .figure_texts import texts


def point(predicted: float, measured: float, family: str = "isotropic") -> PredictedPoint:
    return PredictedPoint(family=family, predicted=predicted, measured=measured)


def drawn(svg: str) -> int:
    """Marks in the drawing, those of the key among them."""
    return len(re.findall(r"<use ", svg))


def test_every_release_is_drawn():
    one = drawn(predicted_figure([point(0.5, 0.5)]))
    for n in (2, 7, 40):
        rows = [point(i / n, 1 - i / n) for i in range(n)]
        assert drawn(predicted_figure(rows)) == one + n - 1


def test_the_key_names_the_line_and_each_family_once():
    found = texts(SAMPLES["predicted"].svg)
    families = {row.family for row in SAMPLES["predicted"].rows}
    assert all(found.count(name) == 1 for name in ("as predicted", *families))


def test_what_is_no_share_is_refused():
    with pytest.raises(InvalidArgumentError, match="predicted must be from 0 to 1"):
        predicted_figure((point(1.5, 0.5),))
    with pytest.raises(InvalidArgumentError, match="measured must be from 0 to 1"):
        predicted_figure((point(0.5, -0.5),))
