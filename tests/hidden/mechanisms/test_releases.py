"""What each mechanism is the best at, against the slow definition and against other covariances."""

import json
import math

import pytest
import torch

from hidden.matrix_samples import dense_power, full, normal, seeded, spread_psd
from insular.errors import EvidenceError, InvalidArgumentError
from insular.hidden.geometry.release_geometry import ReleaseGeometry, release_geometry
from insular.hidden.matrices.covariance import PsdMatrix
from insular.hidden.matrices.psd_algebra import log_determinant_ratio
from insular.hidden.matrices.spectral import matrix_from_dense, matrix_from_rows
from insular.hidden.mechanisms import (
    AdaptiveOptimum,
    AlphaFamily,
    Complement,
    ComposedRelease,
    DiagonalInverseFisher,
    DiagonalMahalanobis,
    Dropout,
    FisherComplement,
    GaussianRelease,
    GeneralizedEigen,
    InverseFisher,
    Isotropic,
    MutualInformationOptimum,
    QuantizedRelease,
    UniformQuantization,
    WorstCase,
    load_release,
    save_release,
    worst_case_weights,
)

D, K = 12, 0.7


def geometry(seed: int = 0, *, n_pairs: int = 40) -> ReleaseGeometry:
    """Fisher and differences of condition 1,000 in directions of their own."""
    states = full(D, seed=seed + 1, condition=1e3)
    pairs = normal(n_pairs, D, seed=seed + 2) @ states.power(0.5).dense()
    return ReleaseGeometry(
        fisher=full(D, seed=seed, condition=1e3),
        differences=states.scaled(2.0),
        states=states,
        mean=torch.ones(D, dtype=torch.float64),
        pairs=pairs,
    )


GEOMETRY = geometry()
FISHER, DIFFERENCES, STATES = (
    matrix.dense() for matrix in (GEOMETRY.fisher, GEOMETRY.differences, GEOMETRY.states)
)


def covariance(mechanism) -> torch.Tensor:
    release = mechanism.fit(GEOMETRY, budget_nats=K)
    return release.nominal_covariance.dense()


def others(n: int) -> list[torch.Tensor]:
    """Covariances of the same budget, in many shapes."""
    found = []
    for seed in range(n):
        matrix = spread_psd(D, seed=100 + seed, condition=10 ** (6 * (seed + 1) / n))
        found.append(matrix * (2 * K / float((FISHER @ matrix).trace())))
    return found


def mean_squared(s: torch.Tensor) -> float:
    return float((torch.linalg.inv(s) @ DIFFERENCES).trace())


def test_generalized_eigen_of_rank_one_is_the_euclidean_optimum():
    root = dense_power(FISHER, -0.5)
    top = float(torch.linalg.eigvalsh(root @ DIFFERENCES @ root)[-1])
    found = covariance(GeneralizedEigen(rank=1))
    assert float((found @ DIFFERENCES).trace()) == pytest.approx(2 * K * top)
    assert all(float((s @ DIFFERENCES).trace()) <= 2 * K * top for s in others(200))


def test_generalized_eigen_of_rank_k_spreads_the_budget_evenly():
    root = dense_power(FISHER, -0.5)
    values = torch.linalg.eigvalsh(root @ DIFFERENCES @ root)
    found = covariance(GeneralizedEigen(rank=5))
    assert int(torch.linalg.matrix_rank(found)) == 5
    gain = float((found @ DIFFERENCES).trace()) / float(
        (covariance(Isotropic()) @ DIFFERENCES).trace()
    )
    expected = values[-5:].mean() * FISHER.trace() / DIFFERENCES.trace()
    assert gain == pytest.approx(float(expected))


def test_the_adaptive_optimum_attains_its_value_and_no_other_is_below_it():
    root = dense_power(FISHER, 0.5)
    value = float(dense_power(root @ DIFFERENCES @ root, 0.5).trace()) ** 2 / (2 * K)
    assert mean_squared(covariance(AdaptiveOptimum())) == pytest.approx(value)
    assert all(mean_squared(s) >= value for s in others(200))


def test_inverse_fisher_gives_every_shift_a_distance_in_proportion_to_its_kl():
    release = InverseFisher().fit(GEOMETRY, budget_nats=K)
    rows = normal(20, D, seed=9)
    kl = ((rows @ FISHER) * rows).sum(1) / 2
    assert torch.allclose(release.squared_distance(rows), D / K * kl)


def test_the_mutual_information_optimum_is_the_least():
    best = MutualInformationOptimum().fit(GEOMETRY, budget_nats=K)
    least = log_determinant_ratio(best.covariance, GEOMETRY.states)
    for mechanism in (Isotropic(), InverseFisher(), AdaptiveOptimum(), DiagonalInverseFisher()):
        release = mechanism.fit(GEOMETRY, budget_nats=K)
        assert log_determinant_ratio(release.covariance, GEOMETRY.states) > least
    eye = torch.eye(D, dtype=torch.float64)
    for s in others(200):
        assert float(torch.linalg.slogdet(eye + torch.linalg.inv(s) @ STATES).logabsdet) > least
    # each direction balances the same price: 1/a - 1/(a + m) = nu
    root = dense_power(FISHER, 0.5)
    m, basis = torch.linalg.eigh(root @ STATES @ root)
    a = (basis.T @ root @ best.covariance.dense() @ root @ basis).diagonal()
    nu = 1 / a - 1 / (a + m)
    assert float(nu.max() / nu.min()) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("budget_nats", [1e-6, 1e6])
def test_the_mutual_information_optimum_is_found_at_any_budget(budget_nats):
    release = MutualInformationOptimum().fit(GEOMETRY, budget_nats=budget_nats)
    assert GEOMETRY.first_order_budget(release.covariance) == pytest.approx(budget_nats)


def test_the_alpha_family_runs_from_isotropic_to_inverse_fisher():
    assert torch.allclose(covariance(AlphaFamily(alpha=0.0)), covariance(Isotropic()))
    found = covariance(DiagonalInverseFisher())
    assert torch.allclose(covariance(AlphaFamily(alpha=1.0)), found)
    fisher = FISHER.diagonal()
    assert torch.allclose(found.diagonal(), 2 * K / (D * fisher))
    half = 2 * K / (fisher**0.5).sum() * fisher**-0.5
    assert torch.allclose(covariance(AlphaFamily(alpha=0.5)).diagonal(), half)

    def worst(s: torch.Tensor) -> float:
        return float((1 / (fisher * s.diagonal())).max())

    assert worst(found) == pytest.approx(D / (2 * K))
    for alpha in (0.0, 0.5, 2.0):
        assert worst(covariance(AlphaFamily(alpha=alpha))) > D / (2 * K)


def test_diagonal_mahalanobis_has_the_least_mean_distance_of_the_diagonal_ones():
    def mean_of(s: torch.Tensor) -> float:
        return float((DIFFERENCES.diagonal() / s.diagonal()).sum())

    least = mean_of(covariance(DiagonalMahalanobis()))
    expected = (DIFFERENCES.diagonal() * FISHER.diagonal()).sqrt().sum() ** 2 / (2 * K)
    assert least == pytest.approx(float(expected))
    for alpha in (0.0, 0.5, 1.0, 2.0):
        assert mean_of(covariance(AlphaFamily(alpha=alpha))) > least


@pytest.mark.parametrize("rank", [1, 4])
def test_complements_add_nothing_on_the_top_directions(rank):
    top = GEOMETRY.fisher.top(rank)
    plain, shaped = (covariance(kind(rank=rank)) for kind in (Complement, FisherComplement))
    for found in (plain, shaped):
        assert float((top.T @ found @ top).abs().max()) < 1e-12 * float(found.trace())
        assert int(torch.linalg.matrix_rank(found, rtol=1e-9)) == D - rank
    outside = torch.eye(D) - top @ top.T
    assert torch.allclose(plain, outside * (plain.trace() / (D - rank)))
    inverse = outside @ torch.linalg.inv(FISHER) @ outside
    assert torch.allclose(shaped, inverse * (2 * K / (D - rank)))


def test_a_floor_takes_its_share_and_ends_the_exact_release():
    floor = Complement(rank=4, floor_share=0.1).fit(GEOMETRY, budget_nats=K)
    bare = Complement(rank=4).fit(GEOMETRY, budget_nats=K)
    rows = normal(6, D, seed=3)
    assert bool(torch.isinf(bare.squared_distance(rows)).all())
    assert bool(torch.isinf(bare.epsilon(rows, delta=1e-5)).all())
    assert bool(torch.isfinite(floor.squared_distance(rows)).all())
    inside = rows - (rows @ GEOMETRY.fisher.top(4)) @ GEOMETRY.fisher.top(4).T
    assert bool(torch.isfinite(bare.squared_distance(inside)).all())
    # a smaller floor: D^2 goes to |P_null x|^2 / e
    share = 1e-9
    small = Complement(rank=4, floor_share=share).fit(GEOMETRY, budget_nats=K)
    floor_variance = share * 2 * K / float(FISHER.trace())
    null = bare.null_part(rows).square().sum(1)
    assert torch.allclose(small.squared_distance(rows), null / floor_variance, rtol=1e-5)


@pytest.mark.parametrize("n_pairs", [1, 5, 40])
def test_the_worst_case_covariance_is_certified(n_pairs):
    given = geometry(n_pairs=n_pairs)
    assert given.pairs is not None
    found = worst_case_weights(given.pairs, given.fisher, gap=0.01)
    assert found.lower * (1 - 1e-12) <= found.upper <= 1.01 * found.lower
    assert float(found.weights.sum()) == pytest.approx(1) and found.n_steps <= 200
    release = WorstCase().fit(given, budget_nats=K)
    worst = float(release.squared_distance(given.pairs).max())
    assert worst == pytest.approx(found.upper / K, rel=1e-6)
    for mechanism in (Isotropic(), InverseFisher(), AdaptiveOptimum(), DiagonalMahalanobis()):
        other = mechanism.fit(given, budget_nats=K)
        assert float(other.squared_distance(given.pairs).max()) >= found.lower / K
    for seed in range(50):
        s = matrix_from_dense(spread_psd(D, seed=200 + seed, condition=1e3))
        s = s.scaled(K / given.first_order_budget(s))
        assert float((s.whiten(given.pairs).square().sum(1)).max()) >= found.lower / K


def test_average_and_worst_case_differ_where_they_must():
    # F = I, the adjacency set {e1, e2}, one of them five times as frequent
    pairs = torch.tensor([[1.0, 0.0]] * 5 + [[0.0, 1.0]], dtype=torch.float64)
    eye = matrix_from_dense(torch.eye(2, dtype=torch.float64))
    given = ReleaseGeometry(
        fisher=eye,
        differences=matrix_from_rows(pairs / 6**0.5),
        states=eye,
        mean=torch.zeros(2, dtype=torch.float64),
        pairs=pairs,
    )
    worst, mean = (
        kind.fit(given, budget_nats=1.0).nominal_covariance.dense()
        for kind in (WorstCase(gap=1e-6), AdaptiveOptimum())
    )
    assert torch.allclose(worst, torch.eye(2).double(), atol=1e-3)
    assert float(mean[0, 0] / mean[1, 1]) == pytest.approx(5**0.5)


def test_a_search_that_cannot_end_is_refused():
    with pytest.raises(InvalidArgumentError, match="gap must be reached in max_steps=1"):
        WorstCase(gap=1e-9, max_steps=1).fit(GEOMETRY, budget_nats=K)
    bare = ReleaseGeometry(
        fisher=GEOMETRY.fisher,
        differences=GEOMETRY.differences,
        states=GEOMETRY.states,
        mean=GEOMETRY.mean,
    )
    with pytest.raises(InvalidArgumentError, match="needs a geometry with pairs"):
        WorstCase().fit(bare, budget_nats=K)


def test_quantised_distances_change_by_no_more_than_the_steps_allow():
    release = UniformQuantization().fit(GEOMETRY, budget_nats=K)
    assert isinstance(release, QuantizedRelease)
    states = 5 * normal(300, D, seed=4)
    rounded = release.sample(states, generator=seeded(0))
    change = (torch.cdist(states, states) - torch.cdist(rounded, rounded)).abs()
    assert float(change.max()) <= release.margin_change
    assert release.margin_change == pytest.approx(float(release.steps.square().sum()) ** 0.5)


def test_the_distance_is_the_mu_of_a_gaussian_pair():
    release = AdaptiveOptimum().fit(GEOMETRY, budget_nats=K)
    rows = 0.3 * normal(1, D, seed=1)
    squared = float(release.squared_distance(rows))
    # the log likelihood ratio of the noise is normal with variance D^2: below 1e-6 at 5 sd
    n = 200_000
    noise = release.sample(torch.zeros(n, D), generator=seeded(2))
    inverse = torch.linalg.inv(release.covariance.dense())
    ratio = noise @ inverse @ rows[0] - squared / 2
    assert float(ratio.var()) == pytest.approx(squared, rel=5 * (2 / n) ** 0.5)
    delta = 0.01
    epsilon = float(release.epsilon(rows, delta=delta))
    spent = (-(epsilon - (ratio + squared))).clamp(min=0)  # under the other state
    assert float((1 - (-spent).exp()).mean()) == pytest.approx(delta, rel=0.15)


def test_views_add_their_squared_distances():
    one, two = (kind.fit(GEOMETRY, budget_nats=K) for kind in (AdaptiveOptimum(), Isotropic()))
    rows = normal(4, D, seed=1), normal(4, D, seed=2)
    both = ComposedRelease(views=(one, two))
    expected = one.squared_distance(rows[0]) + two.squared_distance(rows[1])
    assert torch.allclose(both.squared_distance(rows), expected)
    repeated = ComposedRelease(views=(one, one, one, one))
    assert torch.allclose(
        repeated.epsilon([rows[0]] * 4, delta=1e-5),
        one.epsilon(2 * rows[0], delta=1e-5),
    )
    first, second = repeated.sample([torch.zeros(2, D)] * 4, generator=seeded(0))[:2]
    assert not torch.equal(first, second)
    with pytest.raises(InvalidArgumentError, match="as many rows, in 2 matrices"):
        both.squared_distance([rows[0]])
    with pytest.raises(InvalidArgumentError, match="at least one release"):
        ComposedRelease(views=())


def test_random_pairs_give_exactly_twice_the_covariance():
    states = normal(30, D, seed=0) + 5
    i, j = torch.triu_indices(30, 30, offset=1)
    every = states[i] - states[j]
    given = release_geometry(
        states, normal(5, D, seed=1), fisher_shrinkage=0.1, state_shrinkage=0.0
    )
    assert torch.allclose(given.differences.dense(), every.T @ every / len(every))
    assert given.pairs is None


def test_few_records_never_make_a_square_matrix(monkeypatch):
    d = 400
    largest = 0
    original = PsdMatrix.dense
    monkeypatch.setattr(PsdMatrix, "dense", lambda self: pytest.fail("a dense matrix was made"))
    given = release_geometry(
        normal(9, d, seed=0),
        normal(7, d, seed=1),
        fisher_shrinkage=0.1,
        state_shrinkage=0.1,
        differences=normal(6, d, seed=2),
    )
    for mechanism in (
        Isotropic(),
        Complement(rank=3),
        FisherComplement(rank=3),
        GeneralizedEigen(rank=3),
        AdaptiveOptimum(),
        InverseFisher(),
        MutualInformationOptimum(),
        WorstCase(pair_shrinkage=0.1),
    ):
        release = mechanism.fit(given, budget_nats=K)
        largest = max(largest, *(t.numel() for t in release.tensors().values()))
        assert given.first_order_budget(release.nominal_covariance) == pytest.approx(K)
    assert largest <= d * 25
    monkeypatch.setattr(PsdMatrix, "dense", original)


def test_what_cannot_be_inverted_is_refused_with_its_remedy():
    given = release_geometry(
        normal(9, D, seed=0), normal(5, D, seed=1), fisher_shrinkage=0.0, state_shrinkage=0.0
    )
    for mechanism in (InverseFisher(), AdaptiveOptimum(), GeneralizedEigen(rank=2)):
        with pytest.raises(InvalidArgumentError, match="full rank 12, got rank 5.*shrinkage > 0"):
            mechanism.fit(given, budget_nats=K)
    with pytest.raises(InvalidArgumentError, match="rank must be below the hidden size 12"):
        Complement(rank=12).fit(GEOMETRY, budget_nats=K)
    with pytest.raises(InvalidArgumentError, match="rank must leave directions with Fisher"):
        Complement(rank=5).fit(given, budget_nats=K)
    with pytest.raises(InvalidArgumentError, match="rank must be at most 5"):
        FisherComplement(rank=6).fit(given, budget_nats=K)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Complement(rank=0), "rank must be an integer >= 1"),
        (lambda: Complement(rank=2, floor_share=1.0), "floor_share must be below 1"),
        (lambda: GeneralizedEigen(rank=2, floor_share=-0.1), "floor_share must be from 0 to 1"),
        (lambda: AlphaFamily(alpha=math.nan), "alpha must be finite"),
        (lambda: WorstCase(gap=0.0), "gap must be finite and > 0"),
        (
            lambda: release_geometry(
                torch.ones(1, 3), torch.ones(1, 3), fisher_shrinkage=0.1, state_shrinkage=0.1
            ),
            "states must hold at least 2 rows",
        ),
        (
            lambda: ReleaseGeometry(
                fisher=GEOMETRY.fisher,
                differences=GEOMETRY.differences,
                states=GEOMETRY.states,
                mean=torch.zeros(3, dtype=torch.float64),
            ),
            "hidden size 12, got",
        ),
    ],
)
def test_settings_outside_their_rule_are_refused(make, message):
    with pytest.raises(InvalidArgumentError, match=message):
        make()


def test_a_changed_file_is_refused(tmp_path):
    path = tmp_path / "release.safetensors"
    save_release(Dropout().fit(GEOMETRY, budget_nats=K), path)
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    assert json.loads(header["__metadata__"]["insular release"])["kind"] == "dropout"
    assert b"pickle" not in data
    for wrong in (
        data[:-1] + bytes([data[-1] ^ 1]),
        data[:40],
        b"",
        data.replace(b"dropout", b"dropped"),
        data.replace(b"version", b"versoin"),
        data.replace(b"settings", b"sittings"),
    ):
        path.write_bytes(wrong)
        with pytest.raises(EvidenceError, match="release.safetensors is"):
            load_release(path)
    with pytest.raises(EvidenceError):
        load_release(tmp_path / "missing.safetensors")


def test_every_release_of_the_same_settings_is_made_by_fit():
    release = Isotropic().fit(GEOMETRY, budget_nats=K)
    assert isinstance(release, GaussianRelease)
    assert release.covariance.trace() == pytest.approx(D * 2 * K / float(FISHER.trace()))
