"""Questions about a budget, through Python: guarantees of the answers, and safe rounding."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from insular.accounting import PrivacyCost, group_privacy, spend
from insular.errors import InvalidArgumentError
from insular.recipes.budget._words import factor, rate, upper
from insular.recipes.budget.pair import pair_price
from insular.recipes.budget.questions import run_epsilon
from insular.recipes.budget.results import PairSpec, PlannedRun


@given(st.floats(0, 1e300), st.integers(2, 7))
def test_a_printed_bound_is_never_below_itself_and_close(value: float, digits: int) -> None:
    printed = float(upper(value, digits))
    assert printed >= value * (1 - 1e-11)
    assert printed <= value * (1 + 10.0 ** (1 - digits)) * (1 + 1e-11) + 5e-324


def test_printed_bounds() -> None:
    assert [upper(x) for x in (0, 0.5, 1.1, 3.0000000000000004, 4.37718, 12345678.9)] == [
        "0", "0.5", "1.1", "3", "4.3772", "1.2346e7",
    ]  # fmt: skip
    assert upper(2.34e-7) == "2.34e-7" and upper(math.inf) == "inf"
    assert rate(0.0236071) == "2.37%" and rate(1.0) == "100%"
    assert factor(math.log(3)) == "3" and factor(1000.0) == "10^435"
    assert factor(math.inf) == "any number of"


@pytest.mark.parametrize("relation", ["add_or_remove_one", "replace_one"])
def test_at_the_bound_the_measured_row_equals_the_claimed_one(relation: str) -> None:
    bound = {"add_or_remove_one": 1.0, "replace_one": 2.0}[relation]
    spec = PairSpec(distance=bound, relation=relation, sampling_prob=0.1, steps=3)  # type: ignore[arg-type]
    result = pair_price(spec)
    claimed, measured = result.rows
    assert (claimed.ratio, claimed.step_epsilon, claimed.run_epsilon) == (
        measured.ratio, measured.step_epsilon, measured.run_epsilon,
    )  # fmt: skip
    assert claimed.run_epsilon is not None and not result.exceeds
    two = pair_price(PairSpec(distance=2.0, noise_multiplier=2.0 / bound))
    assert two.rows[1].step_epsilon == pytest.approx(claimed.step_epsilon)


def test_the_owners_epsilon_follows_from_the_records_at_a_smaller_delta() -> None:
    run = PlannedRun(noise_multiplier=2.0, sampling_prob=0.01, steps=500)
    owner = run_epsilon(run, delta=1e-5, records_per_owner=4).owner
    assert owner is not None and owner.same_delta_epsilon is not None
    record = owner.same_delta_epsilon / 4
    smaller = next(
        d
        for d in (10 ** (-k / 20) for k in range(100, 400))
        if spend(run.event(), delta=d, accountant="rdp").epsilon >= record
    )
    assert group_privacy(record, smaller / 1.13, n_records=4)[1] <= 1e-5


def test_asking_changes_nothing_and_zero_steps_cost_nothing() -> None:
    run = PlannedRun(noise_multiplier=1.0, sampling_prob=0.1, steps=0)
    first, again = run_epsilon(run, delta=0.0), run_epsilon(run, delta=0.0)
    assert first == again and first.headline.epsilon == 0
    assert all(row.epsilon == 0 for row in first.rows if isinstance(row, PrivacyCost))


def test_noise_that_no_run_has_is_refused() -> None:
    for noise in (1e101, 1e-101):
        with pytest.raises(InvalidArgumentError, match="noise_multiplier must be 0 or from 1e-100"):
            PlannedRun(noise_multiplier=noise, sampling_prob=0.1, steps=1)
    with pytest.raises(InvalidArgumentError, match=r"steps must be at most .* about 10\^300"):
        PlannedRun(noise_multiplier=1.0, sampling_prob=0.1, steps=10**300)
