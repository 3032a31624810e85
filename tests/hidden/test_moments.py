"""Moments of rows that arrive in batches."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hidden.matrices import normal
from insular.errors import InvalidArgumentError
from insular.hidden.moments import StreamingMoments


def test_three_rows_by_hand():
    found = StreamingMoments(2).add(torch.tensor([[1.0, 0.0], [2.0, 0.0], [6.0, 3.0]]))
    assert found.n == 3
    assert found.mean.tolist() == [3.0, 1.0]
    assert torch.allclose(found.covariance, torch.tensor([[7.0, 4.5], [4.5, 3.0]]).double())
    assert torch.allclose(found.second_moment, torch.tensor([[41 / 3, 6.0], [6.0, 3.0]]).double())


def test_within_rounding_of_the_two_pass_result_also_where_the_mean_is_far_larger_than_the_spread():
    rows = (normal(20_000, 8, seed=0) * 0.05 + 100).to(torch.float32)
    found = StreamingMoments(8)
    for batch in rows.tensor_split(37):
        found.add(batch)
    truth = torch.from_numpy(np.cov(rows.double().numpy().T))
    assert torch.linalg.norm(found.covariance - truth) < 1e-9 * torch.linalg.norm(truth)
    # the naive way in float32, E xx' - mm': further off than the covariance is large
    naive = rows.T @ rows / len(rows) - torch.outer(rows.mean(0), rows.mean(0))
    assert torch.linalg.norm(naive.double() - truth) > torch.linalg.norm(truth)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 7), min_size=1, max_size=6), st.booleans(), st.integers(0, 99))
def test_the_same_for_any_division_into_batches_and_for_merge_in_place_of_add(sizes, full, seed):
    rows = normal(sum(sizes) + 2, 3, seed=seed) + 10
    parts = rows.split([*sizes, 2])
    whole = StreamingMoments(3, full=full).add(rows)
    added, merged = (StreamingMoments(3, full=full) for _ in range(2))
    for part in parts:
        added.add(part)
        merged.merge(StreamingMoments(3, full=full).add(part))
    for other in (added, merged):
        assert other.n == whole.n
        for name in ("mean", "covariance", "second_moment"):
            assert torch.allclose(getattr(other, name), getattr(whole, name), rtol=1e-12)


def test_the_diagonal_alone_is_the_diagonal_of_the_whole():
    rows = normal(9, 5, seed=1) + 3
    whole, diagonal = (StreamingMoments(5, full=full).add(rows) for full in (True, False))
    assert torch.allclose(diagonal.covariance, whole.covariance.diagonal())
    assert torch.allclose(diagonal.second_moment, whole.second_moment.diagonal())


def test_a_refused_batch_leaves_everything_as_it_was():
    found = StreamingMoments(2).add(torch.ones(2, 2))
    for bad, message in (
        (torch.ones(2, 3), "rows must have hidden size 2, got 3"),
        (torch.tensor([[1.0, float("nan")]]), "rows must be finite"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            found.add(bad)
    assert found.n == 2 and found.mean.tolist() == [1.0, 1.0]
    with pytest.raises(InvalidArgumentError, match="other must have hidden_size=2 and full=True"):
        found.merge(StreamingMoments(2, full=False))


def test_what_too_few_rows_cannot_say_is_refused():
    empty = StreamingMoments(2)
    with pytest.raises(InvalidArgumentError, match="at least 1 rows"):
        _ = empty.mean
    with pytest.raises(InvalidArgumentError, match="at least 2 rows"):
        _ = empty.add(torch.ones(1, 2)).covariance
