"""Pairs of prompts."""

import pytest
import torch

from hidden.matrix_samples import normal
from insular.errors import InvalidArgumentError
from insular.hidden.geometry.adjacency import nearest_pairs, pair_differences


@pytest.mark.parametrize("n_neighbors", [1, 3])
def test_nearest_pairs_are_those_of_the_definition(n_neighbors):
    states = normal(40, 5, seed=0) + 100
    apart = torch.cdist(states, states, compute_mode="donot_use_mm_for_euclid_dist")
    apart.fill_diagonal_(torch.inf)
    expected = set()
    for row in range(40):
        for place in apart[row].argsort()[:n_neighbors].tolist():
            expected.add((min(row, place), max(row, place)))
    found = nearest_pairs(states, n_neighbors=n_neighbors)
    assert [tuple(pair) for pair in found.tolist()] == sorted(expected)


def test_a_copy_is_no_neighbour():
    states = torch.tensor([[0.0], [0.0], [1.0], [5.0]])
    assert nearest_pairs(states).tolist() == [[0, 2], [1, 2], [2, 3]]
    assert nearest_pairs(torch.zeros(3, 2)).shape == (0, 2)
    assert nearest_pairs(states, n_neighbors=3).tolist() == [[0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]


def test_differences_are_the_first_state_less_the_second():
    states = torch.tensor([[1.0], [2.0], [5.0]])
    assert pair_differences(states, torch.tensor([[0, 2], [2, 1]])).tolist() == [[-4.0], [3.0]]


def test_too_few_records_are_refused():
    with pytest.raises(InvalidArgumentError, match="more than n_neighbors=3 rows, got 3"):
        nearest_pairs(normal(3, 2, seed=0), n_neighbors=3)
