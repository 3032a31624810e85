"""Retrieval attacks against the slow definition, and traps that they must not fall into."""

import math

import pytest
import torch
from scipy.stats import binomtest

from hidden.matrix_samples import normal, seeded, spread_psd
from insular.errors import InvalidArgumentError
from insular.hidden.geometry.release_geometry import ReleaseGeometry, release_geometry
from insular.hidden.mechanisms import (
    AdaptiveOptimum,
    Complement,
    Dropout,
    FisherComplement,
    GeneralizedEigen,
    Isotropic,
    Release,
    ReleaseMechanism,
    UniformQuantization,
)
from insular.hidden.retrieval import search as retrieval
from insular.hidden.retrieval.attackers import AwareAttacker, EuclideanAttacker, SubspaceAttacker
from insular.hidden.retrieval.bank import prepare_bank
from insular.hidden.retrieval.results import retrieval_rate
from insular.hidden.retrieval.search import rank_queries, refuse_wrong_bank, retrieve

D, N = 24, 1500
MECHANISMS: dict[str, ReleaseMechanism] = {
    "isotropic": Isotropic(),
    "complement": Complement(rank=3),
    "fisher complement": FisherComplement(rank=3),
    "generalized eigen": GeneralizedEigen(rank=8),
    "floor": GeneralizedEigen(rank=8, floor_share=0.2),
    "adaptive optimum": AdaptiveOptimum(),
    "uniform quantization": UniformQuantization(),
    "dropout": Dropout(),
}


def states(n: int = N, *, seed: int = 0) -> torch.Tensor:
    return normal(n, D, seed=seed) * torch.linspace(0.2, 3, D, dtype=torch.float64) + 4.0


def geometry() -> ReleaseGeometry:
    gradients = normal(400, D, seed=1) @ spread_psd(D, seed=2, condition=100)
    return release_geometry(states(), gradients, fisher_shrinkage=0.01, state_shrinkage=0.01)


GEOMETRY = geometry()


def slow_ranks(release: Release, released: torch.Tensor, bank: torch.Tensor, truth: torch.Tensor):
    """Rank of the truth by the definition, one pair at a time."""
    ranks = []
    s = release.nominal_covariance.dense()
    inverse = torch.linalg.pinv(s, rtol=1e-9, hermitian=True)
    for query, true in zip(released, truth.tolist(), strict=True):
        keys = []
        for candidate in bank:
            if isinstance(release.mechanism, Dropout):
                kept = query != 0
                scale = 1 - release.drop_prob  # pyright: ignore[reportAttributeAccessIssue]
                keys.append((float(((query * scale - candidate)[kept]).square().sum()),))
            elif isinstance(release.mechanism, UniformQuantization):
                cell = release.sample(candidate[None], generator=seeded(0))[0]
                steps = release.steps  # pyright: ignore[reportAttributeAccessIssue]
                keys.append((float(((query - cell) / steps).square().sum()),))
            else:
                x = query - candidate
                null = x - s @ inverse @ x
                shown = float(null.square().sum())
                keys.append((shown if shown > 1e-12 else 0.0, float(x @ inverse @ x)))
        own = keys[true]
        limit = tuple(value * (1 - 1e-9) for value in own)
        ranks.append(1 + sum(key < limit for key in keys))
    return torch.tensor(ranks)


@pytest.mark.parametrize("name", MECHANISMS)
def test_ranks_are_those_of_the_definition(name):
    release = MECHANISMS[name].fit(GEOMETRY, budget_nats=30.0)
    clean = states(80, seed=3)
    truth = torch.randperm(80, generator=seeded(4))[:20]
    released = release.sample(clean[truth], generator=seeded(5))
    bank = prepare_bank(AwareAttacker(release=release), clean)
    found = rank_queries(bank, released, truth)
    assert torch.equal(found.ranks, slow_ranks(release, released, clean, truth))


@pytest.mark.parametrize("rechecked", [1, 3, 32])
@pytest.mark.parametrize("offset", [0.0, 3000.0])
def test_the_result_does_not_hang_on_float32(monkeypatch, rechecked, offset):
    # a shortlist of one must make the whole row be computed again wherever it matters
    monkeypatch.setattr(retrieval, "N_RECHECKED", rechecked)
    monkeypatch.setattr(retrieval, "_CANDIDATES", 400)
    monkeypatch.setattr(retrieval, "_QUERIES", 64)
    clean = states() + offset
    truth = torch.arange(0, N, 7)
    released = clean[truth] + 3.0 * normal(len(truth), D, seed=6)
    distances = torch.cdist(released, clean, compute_mode="donot_use_mm_for_euclid_dist")
    expected = 1 + (distances < distances.gather(1, truth[:, None])).sum(1)
    bank = prepare_bank(EuclideanAttacker(size=D), clean)
    found = rank_queries(bank, released, truth)
    near = expected <= 10
    assert torch.equal(found.ranks[near], expected[near])
    assert torch.equal(found.ranks <= 10, near)
    far = found.ranks[~near].double() / expected[~near].double()
    assert bool(((far - 1).abs() < 0.01).all())
    assert 20 < int(near.sum()) < len(truth)


def test_a_common_offset_does_not_drown_the_differences():
    clean = 0.01 * normal(200, 64, seed=0) + 300
    released = clean + 0.001 * normal(200, 64, seed=1)

    def top_1(a: torch.Tensor, b: torch.Tensor) -> float:
        a, b = a.float(), b.float()
        d = a.square().sum(1)[:, None] + b.square().sum(1)[None] - 2 * a @ b.T
        return float((d.argmin(1) == torch.arange(200)).double().mean())

    assert top_1(released, clean) < 0.9  # the trap is real
    bank = prepare_bank(EuclideanAttacker(size=64), clean)
    found = retrieve(bank, released, torch.arange(200), release=None)
    assert found.top_1.value == 1.0 and found.n_recomputed == 0


def test_low_rank_noise_hides_from_the_plain_attacker_and_falls_to_the_aware_one():
    release = GeneralizedEigen(rank=8).fit(GEOMETRY, budget_nats=300.0)
    clean, truth = states(), torch.arange(300)
    released = release.sample(clean[:300], generator=seeded(1))
    plain, aware = (
        retrieve(prepare_bank(attacker, clean), released, truth, release=release)
        for attacker in (EuclideanAttacker(size=D), AwareAttacker(release=release))
    )
    assert plain.top_1.upper < 0.5 and aware.top_1.value == 1.0
    assert aware.above_chance and aware.attacker == "aware of generalized eigen"
    basis = torch.linalg.qr(release.covariance.dense())[0][:, :8]  # where the noise is
    outside = torch.linalg.svd(basis, full_matrices=True)[0][:, 8:]
    within = retrieve(
        prepare_bank(SubspaceAttacker(basis=outside), clean), released, truth, release=release
    )
    assert within.top_1.value == 1.0 and within.attacker == "subspace of 16"


def test_whitening_is_never_worse_than_plain_distances():
    release = AdaptiveOptimum().fit(GEOMETRY, budget_nats=5.0)
    clean, truth = states(), torch.arange(1000)
    released = release.sample(clean[:1000], generator=seeded(2))
    plain, aware = (
        retrieve(prepare_bank(attacker, clean), released, truth, release=release)
        for attacker in (EuclideanAttacker(size=D), AwareAttacker(release=release))
    )
    assert 0.02 < plain.top_1.value < aware.top_1.value < 0.98
    # the whitened distance is the likelihood: 1,000 queries tell the two apart at 4 sd
    assert plain.top_1.upper < aware.top_1.lower


def test_quantisation_and_dropout_hide_nothing_from_who_knows_them():
    clean, truth = states(), torch.arange(200)
    for mechanism in (UniformQuantization(), Dropout()):
        release = mechanism.fit(GEOMETRY, budget_nats=2.0)
        released = release.sample(clean[:200], generator=seeded(3))
        found = retrieve(
            prepare_bank(AwareAttacker(release=release), clean), released, truth, release=release
        )
        assert found.top_1_untied.value == 1.0


def test_one_bank_serves_all_scales_of_a_covariance():
    release = AdaptiveOptimum().fit(GEOMETRY, budget_nats=1.0)
    clean, truth = states(400), torch.arange(400)
    bank = prepare_bank(AwareAttacker(release=release), clean)
    for factor in (3.0, 30.0):
        scaled = release.scaled(factor)
        released = scaled.sample(clean, generator=seeded(4))
        own = prepare_bank(AwareAttacker(release=scaled), clean)
        one, other = (rank_queries(b, released, truth).ranks for b in (bank, own))
        assert torch.equal(one, other)
        refuse_wrong_bank(bank, released, truth, release=scaled)
        with pytest.raises(InvalidArgumentError, match="the scale of the release"):
            refuse_wrong_bank(bank, released, truth, release=release)


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("attacker", ["euclidean", "aware"])
def test_a_bank_that_holds_the_noised_query_is_refused(name, attacker):
    release = MECHANISMS[name].fit(GEOMETRY, budget_nats=5.0)
    clean, truth = states(300), torch.arange(100)
    released = release.sample(clean[:100], generator=seeded(1))
    who = EuclideanAttacker(size=D) if attacker == "euclidean" else AwareAttacker(release=release)
    retrieve(prepare_bank(who, clean), released, truth, release=release)  # the clean control
    whole = clean.clone()
    whole[:100] = released
    single = clean.clone()
    single[17] = released[17]
    other = clean.clone()
    other[:100] = release.sample(clean[:100], generator=seeded(2))
    for wrong, count in ((whole, 100), (single, 1)):
        with pytest.raises(InvalidArgumentError, match=rf"released state itself for {count} of"):
            retrieve(prepare_bank(who, wrong), released, truth, release=release)
    with pytest.raises(InvalidArgumentError, match="bank must hold"):
        retrieve(prepare_bank(who, other), released, truth, release=release)
    with pytest.raises(InvalidArgumentError, match="cannot have given these releases"):
        retrieve(prepare_bank(who, clean), released, truth + 1, release=release)


def test_rounding_to_float32_does_not_hide_a_noised_bank_nor_accuse_a_clean_one():
    for name in ("isotropic", "complement", "dropout", "uniform quantization"):
        release = MECHANISMS[name].fit(GEOMETRY, budget_nats=20.0)
        clean, truth = states(300), torch.arange(100)
        released = release.sample(clean[:100], generator=seeded(1)).float()
        bank = prepare_bank(AwareAttacker(release=release), clean)
        found = retrieve(bank, released, truth, release=release)
        if not release.gaussian or name == "complement":
            assert found.top_1.value == 1.0


# hid-03: identical vectors tie exactly; only the first was credited


def test_hid_03_duplicates_are_one_candidate_in_any_order():
    texts = ["the cat sat", "hello there", "a dog barked", "hello there"]
    vectors = torch.eye(3, dtype=torch.float64)[[0, 1, 2, 1]]
    for order in ([0, 1, 2, 3], [3, 2, 1, 0]):
        for identities in (None, [texts[i] for i in order]):
            bank = prepare_bank(EuclideanAttacker(size=3), vectors[order], identities=identities)
            found = retrieve(bank, vectors[order], torch.arange(4), release=None)
            assert found.top_1.value == found.top_1_untied.value == 1.0
            assert (found.n_duplicates, found.n_candidates, found.n_tied) == (1, 3, 0)


def test_equal_identities_are_one_candidate_even_if_their_states_differ_by_rounding():
    clean = states(20)
    twice = torch.cat([clean, clean[:5] * (1 + 1e-15)])
    names = [*range(20), *range(5)]
    bank = prepare_bank(EuclideanAttacker(size=D), twice, identities=names)
    assert (bank.n_candidates, bank.n_duplicates) == (20, 5)
    found = retrieve(bank, twice, torch.arange(25), release=None)
    assert found.top_1_untied.value == 1.0
    zeros = torch.tensor([[0.0, 1.0], [-0.0, 1.0]])
    assert prepare_bank(EuclideanAttacker(size=2), zeros).n_duplicates == 1


def test_the_order_of_the_candidates_does_not_matter():
    clean, noise = states(), 4.0 * normal(200, D, seed=1)
    order = torch.randperm(N, generator=seeded(2))
    truth = torch.arange(200)
    plain = retrieve(
        prepare_bank(EuclideanAttacker(size=D), clean), clean[:200] + noise, truth, release=None
    )
    shuffled = retrieve(
        prepare_bank(EuclideanAttacker(size=D), clean[order]),
        clean[:200] + noise,
        torch.argsort(order)[truth],
        release=None,
    )
    assert plain == shuffled


def test_ties_are_reported_and_count_both_ways():
    # a grid so coarse that whole groups of candidates fall into one cell
    clean = torch.tensor([[0.1], [0.2], [0.3], [5.0], [5.1], [9.0]], dtype=torch.float64)
    given = release_geometry(
        clean, torch.ones(1, 1).double(), fisher_shrinkage=0.0, state_shrinkage=0.0
    )
    release = UniformQuantization().fit(given, budget_nats=1.5)
    released = release.sample(clean, generator=seeded(0))
    assert len(released.unique()) == 3
    bank = prepare_bank(AwareAttacker(release=release), clean)
    found = retrieve(bank, released, torch.arange(6), release=release)
    assert (found.top_1.count, found.top_1_untied.count, found.n_tied) == (6, 1, 5)
    # the same with a shortlist that must leave some of a tie out
    many = torch.cat([clean[:1] + 1e-3 * k for k in range(100)])
    released = release.sample(many[:3], generator=seeded(0))
    found = rank_queries(
        prepare_bank(AwareAttacker(release=release), many), released, torch.arange(3)
    )
    assert found.ranks.tolist() == [1, 1, 1] and found.n_tied.tolist() == [99, 99, 99]
    assert found.recomputed.tolist() == [1, 1, 1]


def test_a_null_space_that_many_candidates_share_is_searched_to_the_end():
    # noise on the second axis alone; 60 candidates agree on the first, more than are rechecked
    clean = torch.zeros(200, 2, dtype=torch.float64)
    clean[:60, 1] = torch.arange(60)
    clean[60:, 0] = torch.arange(1, 141)
    given = ReleaseGeometry(
        fisher=release_geometry(
            clean,
            torch.tensor([[2.0, 0.0], [0.0, 1.0]]).double(),
            fisher_shrinkage=0.0,
            state_shrinkage=0.0,
        ).fisher,
        differences=GEOMETRY.differences.__class__(
            vectors=torch.eye(2).double(), values=torch.ones(2).double(), rest=0.0
        ),
        states=GEOMETRY.differences.__class__(
            vectors=torch.eye(2).double(), values=torch.ones(2).double(), rest=0.0
        ),
        mean=torch.zeros(2, dtype=torch.float64),
    )
    release = Complement(rank=1).fit(given, budget_nats=0.02)
    released = clean + torch.tensor([0.0, 0.3])
    found = rank_queries(
        prepare_bank(AwareAttacker(release=release), clean), released, torch.arange(200)
    )
    assert bool((found.ranks == 1).all())
    assert int(found.recomputed[:60].sum()) == 60 and int(found.recomputed[60:].sum()) == 0


def test_hid_05_queries_of_another_space_are_refused_and_none_is_no_trouble():
    bank = prepare_bank(EuclideanAttacker(size=D), states(50))
    with pytest.raises(InvalidArgumentError, match=f"released must have hidden size {D}, got 16"):
        rank_queries(bank, torch.zeros(1, 16), torch.tensor([0]))
    with pytest.raises(InvalidArgumentError, match="released must be finite"):
        rank_queries(bank, torch.full((1, D), math.nan), torch.tensor([0]))
    empty = retrieve(bank, torch.zeros(0, D), torch.zeros(0, dtype=torch.int64), release=None)
    assert (empty.n_queries, empty.top_1.lower, empty.top_1.upper) == (0, 0.0, 1.0)
    assert math.isnan(empty.median_rank) and not empty.above_chance


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda bank: rank_queries(bank, torch.zeros(1, D), torch.tensor([50])), "from 0 to 49"),
        (lambda bank: rank_queries(bank, torch.zeros(1, D), torch.tensor([-1])), "from 0 to 49"),
        (
            lambda bank: prepare_bank(bank.attacker, torch.zeros(0, D)),
            "at least one candidate, got none",
        ),
        (
            lambda bank: prepare_bank(bank.attacker, torch.zeros(2, D), identities=["a"]),
            "one for each of the 2 candidates, got 1",
        ),
        (
            lambda bank: SubspaceAttacker(basis=torch.ones(4, 2).double()),
            "basis must have orthonormal columns",
        ),
        (lambda bank: retrieval_rate(3, 2, significance=0.05), "count must be at most n"),
        (lambda bank: retrieval_rate(1, 2, significance=0.0), "significance above 0"),
    ],
)
def test_what_cannot_be_searched_is_refused(call, message):
    with pytest.raises(InvalidArgumentError, match=message):
        call(prepare_bank(EuclideanAttacker(size=D), states(50)))


@pytest.mark.parametrize(("count", "n"), [(0, 10), (3, 10), (10, 10), (1999, 2000)])
def test_intervals_are_those_of_clopper_and_pearson(count, n):
    found = retrieval_rate(count, n, significance=0.05)
    exact = binomtest(count, n).proportion_ci(confidence_level=0.95, method="exact")
    assert (found.lower, found.upper) == pytest.approx((exact.low, exact.high), rel=1e-9)
    assert found.value == count / n
