"""Matrices of rows."""

import pytest
import torch

from insular.errors import InvalidArgumentError
from insular.hidden.matrices.rows import checked_rows


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (torch.ones(768), r"states must have two axes, rows and hidden, got shape \(768,\)"),
        (torch.ones(1, 512), "states must have hidden size 768, got 512"),
        (torch.ones(1, 768, dtype=torch.int64), "states must be floating point, got states of"),
        (torch.full((1, 768), float("inf")), "states must be finite"),
        (torch.ones(3, 0), "hidden size of at least 1"),
    ],
)
def test_rows_that_no_matrix_can_take_are_refused(rows, message):
    with pytest.raises(InvalidArgumentError, match=message):
        checked_rows(rows, name="states", hidden_size=768)


def test_finite_rows_pass_in_float64_even_where_their_sum_overflows():
    large = torch.full((2, 2), 1e308, dtype=torch.float64)
    assert checked_rows(large, name="states") is not None
    found = checked_rows(torch.ones(0, 768, dtype=torch.bfloat16), name="states", hidden_size=768)
    assert found.dtype == torch.float64 and len(found) == 0
