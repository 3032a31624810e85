"""The figure of what is read behind each release."""

from dataclasses import replace

import pytest

from insular.errors import InvalidArgumentError
from insular.reports import RecoveryPoint, recovery_figure

from .figure_texts import texts

POINT = RecoveryPoint(release="clean", storage="int8", exact=0.5, low=0.2, high=0.8, tokens=0.9)


def test_releases_are_lines_and_storages_are_named_where_there_are_several() -> None:
    alone = texts(recovery_figure([POINT]))
    assert "clean" in alone and "int8" not in alone
    both = texts(recovery_figure([POINT, replace(POINT, storage="bf16")]))
    assert both.count("clean") == 1 and {"int8", "bf16"} <= set(both)


def test_shares_that_are_none_and_points_that_come_twice_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="high"):
        recovery_figure([replace(POINT, high=1.5)])
    with pytest.raises(InvalidArgumentError, match="one point for each release and storage"):
        recovery_figure([POINT, POINT])
