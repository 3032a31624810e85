"""Pairs of prompts."""

import pytest
import torch

from hidden.matrices import normal
from insular.errors import InvalidArgumentError
from insular.hidden.adjacency import explicit_pairs, nearest_pairs, pair_differences, random_pairs


def test_random_pairs_are_two_different_records_drawn_evenly():
    found = random_pairs(5, 20_000, seed=0)
    assert bool((found[:, 0] != found[:, 1]).all())
    counts = torch.bincount(found[:, 0] * 5 + found[:, 1], minlength=25).view(5, 5)
    assert counts.diagonal().tolist() == [0] * 5
    # 20 cells of 1,000 each with a standard deviation of 31: 6 of them are below 1e-7
    others = counts[~torch.eye(5, dtype=torch.bool)]
    assert int((others - 1000).abs().max()) < 190
    assert torch.equal(found, random_pairs(5, 20_000, seed=0))
    assert not torch.equal(found, random_pairs(5, 20_000, seed=1))
    assert random_pairs(5, 0, seed=0).shape == (0, 2)


def test_their_mean_square_difference_goes_to_twice_the_covariance():
    states = normal(300, 4, seed=0) + 7
    differences = pair_differences(states, random_pairs(300, 100_000, seed=1))
    found = differences.T @ differences / len(differences)
    truth = 2 * torch.cov(states.T)
    assert torch.linalg.norm(found - truth) < 0.03 * torch.linalg.norm(truth)


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


def test_given_pairs_are_checked():
    found = explicit_pairs([(0, 2), (2, 1)], n_records=3)
    states = torch.tensor([[1.0], [2.0], [5.0]])
    assert pair_differences(states, found).tolist() == [[-4.0], [3.0]]
    assert explicit_pairs([], n_records=3).shape == (0, 2)
    for wrong in ((0, 3), (-1, 0), (1, 1)):
        with pytest.raises(InvalidArgumentError, match="two different records from 0 to 2"):
            explicit_pairs([wrong], n_records=3)


def test_too_few_records_are_refused():
    with pytest.raises(InvalidArgumentError, match="n_records must be an integer >= 2"):
        random_pairs(1, 3, seed=0)
    with pytest.raises(InvalidArgumentError, match="more than n_neighbors=3 rows, got 3"):
        nearest_pairs(normal(3, 2, seed=0), n_neighbors=3)
