"""What a promise allows planted secrets to tell: formulas by hand, worst cases, a planted bug."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from insular.accounting import (
    ComposedEvent,
    GaussianEvent,
    LaplaceEvent,
    PoissonGaussianEvent,
    RepeatedEvent,
    spend,
)
from insular.audit.secrets.exposure_bound import (
    GroupClaim,
    claim_for_rows,
    expected_exposure,
    rank_probability,
    rank_tests,
    tail_probability,
)

from .test_exposure import SIZE, ranked


def claim(epsilon: float, delta: float = 0.0, relation: str = "add_or_remove_one") -> GroupClaim:
    return GroupClaim(epsilon=epsilon, delta=delta, relation=relation, how="")  # type: ignore[arg-type]


def test_the_probability_of_a_rank_by_hand():
    assert rank_probability(0.01, claim(0.0)) == pytest.approx(0.01)
    assert rank_probability(1e-3, claim(1.0, 1e-5)) == pytest.approx(math.e * 1e-3 + 1e-5)
    assert rank_probability(0.9, claim(1.0)) == pytest.approx(1 - 0.1 / math.e)
    assert rank_probability(1e-6, claim(math.inf, 1.0)) == 1.0
    assert rank_probability(1e-6, claim(2000.0)) == 1.0


def test_expected_exposure_by_hand():
    size = 10**6
    assert expected_exposure(claim(0.0), space_size=size) == pytest.approx(
        (1 - 1 / size) / math.log(2)
    )
    assert expected_exposure(claim(1.0), space_size=size) == pytest.approx(2.640, abs=1e-3)
    assert expected_exposure(claim(math.inf, 1.0), space_size=size) == math.log2(size)
    assert expected_exposure(claim(800.0), space_size=size) == math.log2(size)


@settings(deadline=None, max_examples=25)
@given(st.floats(0, 12), st.sampled_from([0.0, 1e-6, 1e-3, 0.2]))
def test_expected_exposure_is_the_integral_of_the_rank_bound(epsilon: float, delta: float):
    size = 4096
    found = expected_exposure(claim(epsilon, delta), space_size=size)
    x = np.linspace(0, math.log2(size), 4001)
    y = [rank_probability(float(2**-v), claim(epsilon, delta)) for v in x]
    assert found == pytest.approx(min(12.0, float(np.trapezoid(y, x))), abs=2e-3)
    # the discrete sum over ranks is never above it
    steps = np.diff([0.0, *(rank_probability(r / size, claim(epsilon, delta)) for r in
                            range(1, size + 1))])  # fmt: skip
    exact = float(steps @ (math.log2(size) - np.log2(np.arange(1, size + 1))))
    assert exact <= found + 1e-9
    assert found <= expected_exposure(claim(epsilon + 0.1, delta), space_size=size) + 1e-12


def test_the_best_guess_under_randomised_response_is_within_the_bound_and_attains_it():
    # replace_one: each secret is told truly with probability e^eps / (e^eps + R - 1)
    size, epsilon, n = 50, 2.0, 8
    truth = math.exp(epsilon) / (math.exp(epsilon) + size - 1)
    for count in range(1, n + 1):
        exact = float(binom.sf(count - 1, n, truth))
        bound = tail_probability(
            count, n, share=1 / size, claim=claim(epsilon, relation="replace_one")
        )
        assert exact <= bound + 1e-12
    assert bound == pytest.approx(exact)


def test_a_mechanism_that_tells_everything_with_probability_delta_is_within_the_bound():
    # all ranks together: a binomial tail without its delta would call this a breach
    delta, n = 0.01, 10
    bound = tail_probability(n, n, share=1e-5, claim=claim(0.0, delta))
    assert bound >= delta
    assert float(binom.sf(n - 1, n, 1e-5 + delta)) < 1e-15


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 20), st.floats(0, 6), st.sampled_from([0.0, 1e-5, 1e-2]), st.floats(1e-6, 1.0)
)
def test_the_tail_does_not_rise_with_the_count(n: int, epsilon: float, delta: float, share: float):
    found = [tail_probability(k, n, share=share, claim=claim(epsilon, delta)) for k in range(n + 1)]
    assert found[0] == 1.0 and all(a >= b - 1e-12 for a, b in zip(found, found[1:], strict=False))


def test_the_test_of_a_promise_that_holds_seldom_refutes():
    # add_or_remove at epsilon 1: each of 5 secrets is in front with the largest probability
    # allowed; a run of 3 shares refutes at 0.05, in 1,000 runs more than 75 times with
    # probability below 1e-3 if the level were attained
    rng = np.random.default_rng(6)
    refuted = 0
    for _ in range(1000):
        u = rng.random(5)
        ranks = [ranked(int(np.searchsorted(WORST, v)) + 1) for v in u]
        tests = rank_tests(ranks, claim(1.0), finest=1e-3)
        refuted += any(test.p_value <= 0.05 / len(tests) for test in tests)
    assert len(tests) == 3 and refuted <= 75


WORST = np.array([rank_probability(r / SIZE, claim(1.0)) for r in range(1, SIZE + 1)])
"""The distribution of ranks that is the bound itself, at epsilon 1."""


def test_known_secrets_refute_and_ties_do_not():
    tests = rank_tests([ranked(1)] * 5, claim(1.0, 1e-5), finest=1 / SIZE)
    assert [test.share for test in tests] == [1e-4, 1e-3, 1e-2, 1e-1]
    assert tests[0].count == 5 and tests[0].p_value < 1e-4
    tied = rank_tests([ranked(1, SIZE)] * 5, claim(1.0, 1e-5), finest=1 / SIZE)
    assert all(test.count == 0 and test.p_value == 1.0 for test in tied)
    assert all(test.smallest_p <= test.p_value for test in (*tests, *tied))
    assert rank_tests([ranked(1)], claim(math.inf, 1.0), finest=1 / SIZE) == ()


STEP = PoissonGaussianEvent(
    noise_multiplier=2.0, sampling_prob=0.05, relation="add_or_remove_one", unit="record"
)
RUN = RepeatedEvent(event=STEP, count=50)


def rows_of(event: object, n: int, *, relation: str = "add_or_remove_one") -> GroupClaim:
    epsilon = spend(event, delta=1e-5).epsilon  # type: ignore[arg-type]
    return claim_for_rows(
        epsilon=epsilon, delta=1e-5, relation=relation, n_records=n, event=event  # type: ignore[arg-type]
    )  # fmt: skip


def test_one_row_changes_nothing():
    found = rows_of(RUN, 1)
    assert found.epsilon == spend(RUN, delta=1e-5).epsilon and found.how == "as promised"


def test_rows_of_a_sampled_run_are_accounted_together_and_cheaper_than_group_privacy():
    four = rows_of(RUN, 4)
    assert four.delta == 1e-5 and "4 records together" in four.how
    one = spend(RUN, delta=1e-5).epsilon
    assert one < four.epsilon
    unknown = claim_for_rows(
        epsilon=one, delta=1e-5, relation="add_or_remove_one", n_records=4, event=None
    )
    assert unknown.epsilon == 4 * one and unknown.delta > 1e-4
    # a group is no cheaper than records that always enter together at half the moves
    assert four.epsilon > rows_of(RUN, 2).epsilon


def test_rows_of_a_gaussian_move_the_sum_that_often():
    event = GaussianEvent(noise_multiplier=8.0, relation="add_or_remove_one", unit="record")
    same = GaussianEvent(noise_multiplier=2.0, relation="add_or_remove_one", unit="record")
    assert rows_of(event, 4).epsilon == spend(same, delta=1e-5).epsilon
    both = ComposedEvent(events=(event, event))
    assert rows_of(both, 4).epsilon > rows_of(event, 4).epsilon


def test_what_has_no_rule_falls_back_to_group_privacy():
    event = LaplaceEvent(noise_multiplier=2.0, relation="add_or_remove_one", unit="record")
    assert rows_of(event, 3).how == "group privacy for 3 records"
    mixed = ComposedEvent(events=(event, STEP))
    assert rows_of(mixed, 3).how == "group privacy for 3 records"
    nothing = claim_for_rows(
        epsilon=3.0, delta=1e-5, relation="add_or_remove_one", n_records=64, event=None
    )
    assert math.isinf(nothing.epsilon) and nothing.delta == 1.0
