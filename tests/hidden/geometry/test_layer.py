"""The geometry of a layer, against the definitions and against data without structure."""

import math

import pytest
import torch

from hidden.matrix_samples import dense_power, normal, spread_psd
from insular.errors import InvalidArgumentError
from insular.hidden.geometry.layer import NAMES, measure_geometry, projector_bound

D, K = 16, 4


def aligned(n: int = 400) -> tuple[torch.Tensor, torch.Tensor]:
    """States and gradients that share a few directions."""
    shape = torch.diag(torch.linspace(1, 0.05, D, dtype=torch.float64))
    return normal(n, D, seed=0) @ shape + 1.0, normal(n, D, seed=1) @ shape


def test_every_number_is_its_definition():
    states, gradients = aligned()
    found = measure_geometry(states, gradients, rank=K, fisher_shrinkage=0.1, n_simulations=1)
    fisher = gradients.T @ gradients / len(gradients)
    fisher = 0.9 * fisher + 0.1 * fisher.trace() / D * torch.eye(D)
    differences = 2 * torch.cov(states.T)
    values, vectors = torch.linalg.eigh(fisher)
    top = vectors[:, -K:]
    energy = float(values[-K:].sum() / fisher.trace())
    share = float((top.T @ differences @ top).trace() / differences.trace())
    root, under = dense_power(fisher, 0.5), dense_power(fisher, -0.5)
    fidelity = float(dense_power(root @ differences @ root, 0.5).trace())
    ratio = float(torch.linalg.eigvalsh(under @ differences @ under)[-1])
    descending = values.flip(0).cumsum(0) / values.sum()
    expected = {
        "fisher_energy": energy,
        "coupling": share / (K / D),
        "effective_rank": (int((descending < 0.95).sum()) + 1) / D,
        "euclidean_gain": ratio * float(fisher.trace() / differences.trace()),
        "adaptive_gain": float(fisher.trace() * differences.trace()) / fidelity**2,
        "projector_bound": projector_bound(energy, share),
    }
    assert set(expected) == set(NAMES)
    for name, value in expected.items():
        assert getattr(found, name).value == pytest.approx(value, rel=1e-9), name
    assert (found.n_states, found.n_gradients, found.hidden_size, found.rank) == (400, 400, D, K)


@pytest.mark.parametrize("seed", range(20))
def test_the_adaptive_gain_is_never_below_the_projector_bound(seed):
    states = normal(60, D, seed=seed) @ spread_psd(D, seed=seed + 50, condition=1e4)
    gradients = normal(30, D, seed=seed + 100) @ spread_psd(D, seed=seed + 150, condition=1e4)
    found = measure_geometry(states, gradients, rank=1 + seed % 6, n_simulations=1, seed=seed)
    assert found.adaptive_gain.value >= found.projector_bound.value * (1 - 1e-9) >= 1 - 1e-9
    assert found.euclidean_gain.value >= 1 - 1e-9


def test_published_tables_obey_the_projector_bound():
    # d, E_128, coupling, G_mah as printed in the seed's trunk table
    for d, energy, coupling, gain in (
        (384, 0.998, 0.78, 9.77),
        (768, 0.994, 0.49, 9.94),
        (1280, 0.661, 0.084, 28.79),
        (2304, 0.363, 0.065, 23.43),
    ):
        assert projector_bound(energy, coupling * 128 / d) <= gain
    assert projector_bound(1.0, 0.0) == math.inf
    assert projector_bound(0.25, 0.25) == 1.0


@pytest.mark.parametrize(("n", "d"), [(150, 600), (100, 800)])
def test_identical_isotropic_matrices_from_few_rows_look_like_a_gain(n, d):
    # the truth is F = S_d = I: both gains are 1. Few rows give 1.39 d/n and 1/shrinkage.
    states, gradients = normal(n, d, seed=0), normal(n, d, seed=1)
    found = measure_geometry(
        states, gradients, rank=8, fisher_shrinkage=1e-8, n_simulations=2, seed=3
    )
    assert found.adaptive_gain.value == pytest.approx(1.39 * d / n, rel=0.12)
    assert found.euclidean_gain.value > 1e5
    for name in ("adaptive_gain", "euclidean_gain", "fisher_energy"):
        number = getattr(found, name)
        assert number.value == pytest.approx(number.null.mean, rel=0.15), name
    # E_k in sample is far above k/d, held out it is k/d
    assert found.fisher_energy.value > 3 * 8 / d
    for half in found.fisher_energy.halves:
        assert half == pytest.approx(8 / d, rel=0.5)
    assert found.fisher_energy.null.halves_mean == pytest.approx(8 / d, rel=0.3)


def test_in_sample_energy_of_isotropic_gradients_is_an_illusion():
    # as large as this in the seed's setting, from noise alone: E_128 of 200 gradients, d = 4096
    gradients = normal(200, 2048, seed=0)
    values = torch.linalg.svdvals(gradients).square()
    found = measure_geometry(normal(8, 2048, seed=1), gradients, rank=64, n_simulations=1)
    assert found.fisher_energy.value == pytest.approx(
        float(values[:64].sum() / values.sum()) * 0.999 + 0.001 * 64 / 2048, rel=1e-6
    )
    assert found.fisher_energy.value > 0.4
    assert sum(found.fisher_energy.halves) / 2 == pytest.approx(64 / 2048, rel=0.1)


def test_real_structure_is_beyond_its_null():
    states, gradients = aligned()
    found = measure_geometry(states, gradients, rank=K, n_simulations=10)
    # all but the Euclidean gain: matrices of one shape have as little of it as those without any
    for name in set(NAMES) - {"euclidean_gain"}:
        assert getattr(found, name).beyond_null, name
    low, high = sorted(found.fisher_energy.halves)
    assert low <= found.fisher_energy.value and high > 2 * K / D
    assert found.coupling.value > 1.5


def test_no_structure_is_within_its_null():
    # 6 numbers x 5 seeds of probability 2/21 each would give 3; 12 and more have 1e-4
    beyond = 0
    for seed in range(5):
        found = measure_geometry(
            normal(80, D, seed=seed),
            normal(80, D, seed=seed + 50),
            rank=K,
            n_simulations=20,
            seed=seed,
        )
        beyond += sum(getattr(found, name).beyond_null for name in NAMES)
    assert beyond < 12


def test_the_null_has_the_same_row_lengths():
    # a few heavy gradients give energy in few directions without any structure
    gradients = normal(200, D, seed=0)
    gradients[:2] *= 60
    found = measure_geometry(normal(200, D, seed=1), gradients, rank=2, n_simulations=5)
    assert found.fisher_energy.value > 0.9 and found.fisher_energy.null.mean > 0.9
    assert found.heaviest_gradients_share > 0.9
    assert found.heaviest_states_share < 0.05


def test_the_same_seed_gives_the_same_numbers():
    states, gradients = aligned(60)
    one, two, three = (
        measure_geometry(states, gradients, rank=K, n_simulations=2, seed=seed)
        for seed in (1, 1, 2)
    )
    assert one == two
    assert one.coupling.null != three.coupling.null and one.coupling.value == three.coupling.value


def test_several_gradients_of_one_record_stay_in_one_half():
    # 16 equal gradients a record: apart, each half would know the other's directions
    states, of_record = normal(40, 300, seed=0), normal(40, 300, seed=1)
    repeated = of_record.repeat_interleave(16, 0)
    found = measure_geometry(states, repeated, rank=8, n_simulations=1)
    for half in found.fisher_energy.halves:
        assert half == pytest.approx(8 / 300, rel=0.6)
    assert found.fisher_energy.value > 0.2


def test_differences_of_pairs_take_the_place_of_all_pairs():
    states, gradients = aligned()
    pairs = torch.zeros(50, D, dtype=torch.float64)
    pairs[:, -1] = 1.0  # all differences in the direction of least Fisher information
    found = measure_geometry(
        states, gradients, rank=K, differences=pairs, n_simulations=1, fisher_shrinkage=0.0
    )
    assert (
        found.coupling.value
        < 0.05
        < measure_geometry(states, gradients, rank=K, n_simulations=1).coupling.value
    )
    assert found.n_states == 400


def test_massive_coordinates_of_the_mean_are_reported():
    states, gradients = aligned()
    states[:, 3] += 100.0
    found = measure_geometry(states, gradients, rank=K, n_simulations=1)
    assert found.mean_share > 0.99 and found.heaviest_coordinate_share > 0.99


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rank": 0}, "rank must be an integer >= 1"),
        ({"rank": D}, f"rank must be below the hidden size {D}"),
        ({"n_simulations": 0}, "n_simulations must be an integer >= 1"),
        ({"fisher_shrinkage": 2.0}, "shrinkage must be from 0 to 1"),
        ({"gradients": torch.ones(5, D).double()}, "2 rank \\+ 2 gradients"),
        ({"states": torch.ones(3, D).double()}, "4 states or differences"),
        ({"states": torch.ones(9, D).double()}, "must not all be zero"),
    ],
)
def test_what_cannot_be_measured_is_refused(changes, message):
    given = {"states": normal(40, D, seed=0), "gradients": normal(40, D, seed=1), "rank": K}
    given |= {"n_simulations": 1} | changes
    with pytest.raises(InvalidArgumentError, match=message):
        measure_geometry(given.pop("states"), given.pop("gradients"), **given)


def test_an_unshrunk_singular_fisher_matrix_is_refused_with_its_remedy():
    with pytest.raises(InvalidArgumentError, match="full rank.*shrinkage > 0"):
        measure_geometry(
            normal(40, 64, seed=0),
            normal(20, 64, seed=1),
            rank=2,
            fisher_shrinkage=0.0,
            n_simulations=1,
        )
