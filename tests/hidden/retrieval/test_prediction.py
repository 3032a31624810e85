"""What a squared distance means."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from hidden.matrix_samples import normal, seeded
from insular.errors import InvalidArgumentError
from insular.hidden.geometry.release_geometry import release_geometry
from insular.hidden.matrices.psd_algebra import log_determinant_ratio
from insular.hidden.mechanisms import AdaptiveOptimum, InverseFisher, Isotropic
from insular.hidden.retrieval.attackers import AwareAttacker
from insular.hidden.retrieval.bank import prepare_bank
from insular.hidden.retrieval.prediction import (
    bottleneck_information,
    distance_for_step_error,
    exact_match_bound,
    fano_error_bound,
    feasibility_gain,
    fisher_ball_squared_distance,
    pair_error,
    predicted_top_1,
    squared_distance_for_top_1,
    step_error_bound,
)
from insular.hidden.retrieval.search import retrieve


@pytest.mark.parametrize(("top_1", "squared"), [(0.99, 89), (0.5, 36), (0.1, 17), (0.01, 6.7)])
def test_the_distances_that_a_bank_of_50_000_needs(top_1, squared):
    found = squared_distance_for_top_1(top_1, n_candidates=50_000)
    assert found == pytest.approx(squared, rel=0.02)
    assert predicted_top_1(found, n_candidates=50_000) == pytest.approx(top_1, rel=1e-9)


def test_the_published_margin_predicts_the_published_top_1():
    # margin 47.4, isotropic noise of 5, reported .994
    assert predicted_top_1((47.4 / 5) ** 2, n_candidates=50_000) == pytest.approx(0.994, abs=0.01)


@pytest.mark.parametrize("n", [1, 2, 50, 10**6, 10**9])
def test_chance_is_what_no_distance_gives(n):
    assert predicted_top_1(0.0, n_candidates=n) == pytest.approx(1 / n, rel=1e-9)
    assert predicted_top_1(1000.0, n_candidates=n) == pytest.approx(1.0)


@settings(max_examples=50, deadline=None)
@given(st.floats(0, 100), st.integers(2, 10**6))
def test_top_1_increases_with_distance_and_decreases_with_candidates(squared, n):
    found = predicted_top_1(squared, n_candidates=n)
    assert 1 / n * (1 - 1e-9) <= found <= 1
    assert predicted_top_1(squared + 1, n_candidates=n) >= found - 1e-12
    assert predicted_top_1(squared, n_candidates=n + 1) <= found + 1e-12


def test_two_candidates_are_a_pair():
    for squared in (0.5, 4.0, 20.0):
        found = predicted_top_1(squared, n_candidates=2)
        assert found == pytest.approx(1 - pair_error(squared), rel=1e-9)


@pytest.mark.parametrize("squared", [4.0, 12.0, 25.0])
def test_the_prediction_is_what_an_attack_on_equidistant_candidates_finds(squared):
    # 500 orthogonal states, noise of variance 1: every pair has D^2 = 2 r^2
    n = 500
    states = torch.eye(n, dtype=torch.float64) * (squared / 2) ** 0.5
    geometry = release_geometry(
        states, torch.eye(n).double() * n**0.5, fisher_shrinkage=0.0, state_shrinkage=0.1
    )
    release = Isotropic().fit(geometry, budget_nats=n / 2)
    assert float(release.squared_distance(states[:1] - states[1:2])) == pytest.approx(squared)
    queries = states.repeat(8, 1)
    released = release.sample(queries, generator=seeded(0))
    bank = prepare_bank(AwareAttacker(release=release), states)
    found = retrieve(
        bank,
        released,
        torch.arange(n).repeat(8),
        release=release,
        significance=1e-6,
    )
    predicted = predicted_top_1(squared, n_candidates=n)
    assert found.top_1.lower <= predicted <= found.top_1.upper


def test_the_feasible_gain_is_the_ratio_of_the_isotropic_distance_to_the_wanted_one():
    geometry = release_geometry(
        normal(200, 8, seed=0), normal(200, 8, seed=1), fisher_shrinkage=0.1, state_shrinkage=0.0
    )
    budget, wanted = 0.5, 3.0
    release = Isotropic().fit(geometry, budget_nats=budget)
    rows = geometry.differences.vectors * geometry.differences.values.sqrt()
    mean = float(release.squared_distance(rows.T).sum())
    gain = feasibility_gain(
        geometry.fisher.trace(),
        geometry.differences.trace(),
        budget_nats=budget,
        squared_distance=wanted,
    )
    assert gain == pytest.approx(mean / wanted)
    # the adaptive optimum brings exactly G_mah of it
    best = AdaptiveOptimum().fit(geometry, budget_nats=budget)
    assert float(best.squared_distance(rows.T).sum()) < mean
    x = normal(1, 8, seed=2)
    kl = float(geometry.fisher.quadratic(x)) / 2
    inverse = InverseFisher().fit(geometry, budget_nats=budget)
    assert float(inverse.squared_distance(x)) == pytest.approx(
        fisher_ball_squared_distance(kl, hidden_size=8, budget_nats=budget)
    )


@settings(max_examples=50, deadline=None)
@given(st.floats(0, 400))
def test_the_pair_error_is_at_most_its_exponential_bound(squared):
    assert pair_error(squared) <= math.exp(-squared / 8) / 2 + 1e-15
    assert pair_error(squared) == pytest.approx(norm.cdf(-math.sqrt(squared) / 2))


def test_sequential_inversion_thresholds():
    for error, distance in ((0.5, 9.31), (0.1, 9.97), (0.01, 10.86)):
        found = distance_for_step_error(error, vocabulary_size=50_257)
        assert found == pytest.approx(distance, abs=0.006)
        assert step_error_bound(found**2, vocabulary_size=50_257) == pytest.approx(error)
    assert step_error_bound(1.0, vocabulary_size=50_257) == 1.0
    bound = exact_match_bound([10.86**2] * 10, vocabulary_size=50_257)
    assert bound == pytest.approx(0.99**10, abs=2e-3)
    assert exact_match_bound([400.0, 1.0], vocabulary_size=50_257) == 0.0
    assert exact_match_bound([], vocabulary_size=50_257) == 1.0


def test_one_step_errs_no_more_often_than_its_bound():
    rng = np.random.default_rng(0)
    size, distance = 2000, 9.0
    wrong = np.mean(
        [
            rng.standard_normal(size - 1).max() > distance / math.sqrt(2) + rng.standard_normal()
            for _ in range(5000)
        ]
    )
    assert wrong <= step_error_bound(distance**2, vocabulary_size=size)
    predicted = 1 - predicted_top_1(distance**2, n_candidates=size)
    # 5 standard errors of a mean over 5,000: 6e-7
    assert abs(wrong - predicted) < 5 * (predicted / 5000) ** 0.5


def test_information_bounds():
    assert bottleneck_information(4, power=100.0, noise_variance=1.0) == pytest.approx(
        2 * math.log(26)
    )
    # at fixed power more numbers tell no more than P / 2 s^2
    many = bottleneck_information(10**6, power=100.0, noise_variance=1.0)
    assert 0.99 * 50 < many < 50
    geometry = release_geometry(
        normal(200, 8, seed=0), normal(200, 8, seed=1), fisher_shrinkage=0.1, state_shrinkage=0.0
    )
    release = AdaptiveOptimum().fit(geometry, budget_nats=5.0)
    information = log_determinant_ratio(release.covariance, geometry.states) / 2
    signal = release.whiten(geometry.states.power(0.5).dense()).square().sum()
    assert information <= bottleneck_information(8, power=float(signal), noise_variance=1.0)
    assert fano_error_bound(0.0, n_candidates=1024) == pytest.approx(0.9)
    assert fano_error_bound(100.0, n_candidates=1024) == 0.0


def test_fano_never_contradicts_the_best_attacker():
    # equidistant candidates under unit noise: I <= log N and at most the mean pair divergence
    for n in (10, 1000, 50_000):
        for squared in (0.1, 1.0, 5.0):
            information = min(math.log(n), squared / 2)
            error = 1 - predicted_top_1(squared, n_candidates=n)
            assert fano_error_bound(information, n_candidates=n) <= error


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: predicted_top_1(-1.0, n_candidates=5), "squared_distance must be finite and >= 0"),
        (lambda: predicted_top_1(1.0, n_candidates=0), "n_candidates must be an integer >= 1"),
        (lambda: squared_distance_for_top_1(0.1, n_candidates=10), "above chance"),
        (lambda: squared_distance_for_top_1(1.0, n_candidates=10), "at most 1 - 1e-9"),
        (lambda: step_error_bound(1.0, vocabulary_size=1), "vocabulary_size must be an integer"),
        (lambda: distance_for_step_error(0.0, vocabulary_size=9), "error must be finite and > 0"),
        (lambda: bottleneck_information(0, power=1.0, noise_variance=1.0), "rank must be"),
        (lambda: fano_error_bound(1.0, n_candidates=1), "n_candidates must be an integer >= 2"),
        (
            lambda: feasibility_gain(1.0, 0.0, budget_nats=1.0, squared_distance=1.0),
            "difference_trace must be finite and > 0",
        ),
    ],
)
def test_what_means_nothing_is_refused(call, message):
    with pytest.raises(InvalidArgumentError, match=message):
        call()
