"""What is foretold of retrieval, against the equidistant formula and against attacks."""

import pytest
import torch

from insular.errors import InvalidArgumentError
from insular.hidden.geometry.release_geometry import release_geometry
from insular.hidden.mechanisms import GeneralizedEigen, Isotropic
from insular.hidden.retrieval.attackers import AwareAttacker
from insular.hidden.retrieval.bank import prepare_bank
from insular.hidden.retrieval.forecast import forecast_top_1, query_distances
from insular.hidden.retrieval.prediction import predicted_top_1
from insular.hidden.retrieval.search import retrieve


def equal(distance: float, n: int) -> torch.Tensor:
    apart = torch.full((3, n), distance, dtype=torch.float64)
    apart[torch.arange(3), torch.arange(3)] = torch.inf
    return apart


@pytest.mark.parametrize("n", [20, 400, 5000])
@pytest.mark.parametrize("distance", [0.0, 1.0, 4.0, 6.0, 12.0])
def test_at_equal_distances_it_is_the_equidistant_prediction(distance: float, n: int) -> None:
    wanted = predicted_top_1(distance**2, n_candidates=n)
    assert forecast_top_1(equal(distance, n)) == pytest.approx(wanted, abs=1e-3)


def geometry_of(states: torch.Tensor, seed: int = 1):
    generator = torch.Generator().manual_seed(seed)
    slopes = torch.randn(400, states.shape[1], generator=generator, dtype=torch.float64)
    return release_geometry(states, slopes, fisher_shrinkage=0.0, state_shrinkage=0.0)


def test_it_foretells_what_the_aware_attacker_finds_although_distances_differ() -> None:
    """4,000 queries: the standard error is below 0.008; the rest of 0.05 is the assumption that
    wrong candidates are correlated as corners of a simplex."""
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(1000, 40, generator=generator, dtype=torch.float64)
    states *= torch.linspace(0.3, 2.0, 1000, dtype=torch.float64)[:, None]  # some crowd together
    release = Isotropic().fit(geometry_of(states), budget_nats=30.0)
    foretold = forecast_top_1(query_distances(release, states, n_queries=1000))
    bank = prepare_bank(AwareAttacker(release=release), states)
    found = []
    for seed in range(4):
        released = release.sample(states, generator=torch.Generator().manual_seed(seed + 9))
        found.append(retrieve(bank, released, torch.arange(1000), release=release).top_1.value)
    measured = sum(found) / 4
    assert 0.1 < measured < 0.9
    assert foretold == pytest.approx(measured, abs=0.05)


def test_distances_are_those_of_differences_in_units_of_the_noise() -> None:
    generator = torch.Generator().manual_seed(3)
    states = torch.randn(30, 8, generator=generator, dtype=torch.float64)
    release = Isotropic().fit(geometry_of(states), budget_nats=1.0)
    apart = query_distances(release, states, n_queries=5)
    for i in range(5):
        wanted = release.squared_distance(states - states[i]).sqrt()
        wanted[i] = torch.inf
        torch.testing.assert_close(apart[i], wanted)


def test_a_release_that_leaves_directions_out_is_refused() -> None:
    generator = torch.Generator().manual_seed(3)
    states = torch.randn(30, 8, generator=generator, dtype=torch.float64)
    release = GeneralizedEigen(rank=3).fit(geometry_of(states), budget_nats=1.0)
    with pytest.raises(InvalidArgumentError, match="noise in all 8 directions, got rank 3"):
        query_distances(release, states, n_queries=5)
