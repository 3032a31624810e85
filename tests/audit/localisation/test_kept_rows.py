"""What belongs to a kept record is found in every layout, against an index by index search."""

import pytest
import torch

from insular.audit.localisation._kept_rows import KeptRows, relative_change

MASK = torch.tensor([[1, 1, 1, 0, 0], [1, 0, 1, 0, 1], [0, 0, 1, 1, 1]]).bool()
REAL = {0: [0, 1, 2], 1: [0, 2, 4], 2: [2, 3, 4]}


@pytest.mark.parametrize(
    ("shape", "layout"),
    [
        ((3, 5), "token"),
        ((3, 5, 4), "token"),
        ((3, 2, 5, 4), "query"),
        ((3, 1, 5, 5), "query"),
        ((15, 4), "flat"),
        ((3, 4), "record"),
        ((3,), "record"),
        ((5, 4), None),
        ((1, 5, 4), None),
        ((), None),
    ],
)
def test_real_rows_of_kept_records_are_found_and_set_back(shape, layout):
    tensor = torch.arange(1.0, 1 + torch.Size(shape).numel()).view(shape)
    kept = KeptRows(MASK, [2, 1])
    assert kept.layout(tensor) == layout
    if layout is None:
        return
    rows = kept.rows(tensor, layout)
    for own, position in zip(rows, (2, 1), strict=True):
        if layout == "record":
            slow = tensor[position]
        elif layout == "flat":
            slow = torch.stack([tensor[5 * position + token] for token in REAL[position]])
        else:
            axis = 0 if layout == "token" else 1
            slow = torch.stack([tensor[position].select(axis, t) for t in REAL[position]], dim=axis)
        assert own.equal(slow)
    back = kept.set_back(tensor, layout, {1: -rows[1]})
    assert kept.rows(back, layout)[1].equal(-rows[1])
    assert (back != tensor).sum() == rows[1].numel()


def test_integers_of_no_record_are_not_taken_for_one():
    assert KeptRows(MASK, [0]).layout(torch.arange(3)) is None


@pytest.mark.parametrize(
    ("one", "two", "scale", "change"),
    [
        ([[4.0, 1.0], [1.0, 2.0]], [[4.0, 2.0], [1.0, 2.0]], None, 0.25),
        ([[4.0, 1.0], [1.0, 2.0]], [[4.0, 1.0], [2.0, 2.0]], None, 0.5),
        ([[4.0, 1.0]], [[4.0, 2.0]], 10.0, 0.1),
        ([float("nan"), 1.0], [float("nan"), 1.0], 1.0, 0.0),
        ([float("nan"), 1.0], [2.0, 1.0], None, float("inf")),
        ([1.0], [float("inf")], None, float("inf")),
        (2.0, 3.0, None, 0.5),
    ],
)
def test_a_change_is_relative_to_its_row(one, two, scale, change):
    found = relative_change(torch.tensor(one), torch.tensor(two), scale=scale)
    assert found == pytest.approx(change)
