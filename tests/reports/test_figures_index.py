import re

import pytest

from insular.errors import InvalidArgumentError
from insular.reports import IndexPoint, index_figure

from .figure_samples import SAMPLES
from .figure_texts import texts


def point(recall: float, told: float, family: str = "isotropic") -> IndexPoint:
    return IndexPoint(family=family, recall=recall, told=told)


def drawn(svg: str) -> int:
    """Marks in the drawing, those of the key among them."""
    return len(re.findall(r"<use ", svg))


def test_every_index_is_drawn():
    one = drawn(index_figure([point(0.5, 0.5)], chance=0.01))
    for n in (2, 7, 40):
        rows = [point(i / n, 1 - i / n) for i in range(n)]
        assert drawn(index_figure(rows, chance=0.01)) == one + n - 1


def test_the_key_names_chance_and_each_family_once():
    found = texts(SAMPLES["index"].svg)
    families = {row.family for row in SAMPLES["index"].rows}
    assert all(found.count(name) == 1 for name in ("a guess", *families))


def test_what_is_no_share_is_refused():
    with pytest.raises(InvalidArgumentError, match="recall must be from 0 to 1"):
        index_figure((point(1.5, 0.5),), chance=0.1)
    with pytest.raises(InvalidArgumentError, match="told must be from 0 to 1"):
        index_figure((point(0.5, -0.5),), chance=0.1)
    with pytest.raises(InvalidArgumentError, match="chance must be from 0 to 1"):
        index_figure((point(0.5, 0.5),), chance=2.0)
