"""Calibration: on the safe side, tight, and honest about what is out of reach."""

import math

import pytest

from insular.accounting import (
    Run,
    advantage,
    noise_for_advantage,
    noise_for_epsilon,
    noise_for_true_positive_rate,
    spend,
    true_positive_rate,
)
from insular.errors import AccountingError, InvalidArgumentError


def run(q: float, steps: int) -> Run:
    return Run(sampling_prob=q, steps=steps, relation="add_or_remove_one", unit="record")


@pytest.mark.parametrize(("accountant", "tight"), [("pld", 1.48361), ("rdp", 1.58173)])
def test_the_safe_end_within_a_hundredth(accountant: str, tight: float) -> None:
    found = noise_for_epsilon(run(0.02, 1000), epsilon=2.0, delta=1e-5, accountant=accountant)  # type: ignore[arg-type]
    assert tight - 1e-3 <= found.noise_multiplier <= tight + 0.01
    assert spend(found.event, delta=1e-5).epsilon <= 2.0
    assert spend(found.event, delta=1e-5, accountant=accountant).epsilon == found.achieved <= 2.0  # type: ignore[arg-type]
    short = run(0.02, 1000).event(found.too_little)
    assert spend(short, delta=1e-5, accountant=accountant).epsilon > 2.0  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("q", "steps", "epsilon"),
    [(0.01, 1000, 3.0), (1.0, 100, 0.5), (1e-4, 10**5, 0.05), (0.5, 1, 100.0)],
)
def test_every_target_is_kept(q: float, steps: int, epsilon: float) -> None:
    found = noise_for_epsilon(run(q, steps), epsilon=epsilon, delta=1e-6)
    assert spend(found.event, delta=1e-6).epsilon <= epsilon
    gap = found.noise_multiplier - found.too_little
    assert 0 < gap <= max(0.01, 1e-4 * found.noise_multiplier)


def test_calibration_to_what_an_attacker_can_do() -> None:
    found = noise_for_advantage(run(0.01, 1000), target_advantage=0.1)
    assert 0.099 < advantage(found.event) <= 0.1
    found = noise_for_true_positive_rate(
        run(0.01, 1000), target_true_positive_rate=0.05, false_positive_rate=0.01
    )
    assert 0.0495 < true_positive_rate(found.event, false_positive_rate=0.01) <= 0.05


def test_out_of_reach_says_what_is_in_reach() -> None:
    with pytest.raises(
        AccountingError, match=r"epsilon=1e-05: it is below 0\.\d+, which the large"
    ):
        noise_for_epsilon(run(0.1, 10), epsilon=1e-5, delta=1e-9, accountant="rdp")
    with pytest.raises(AccountingError, match=r"epsilon=1000000.*at or above .* smallest"):
        noise_for_epsilon(run(0.1, 10), epsilon=1e6, delta=1e-9)
    with pytest.raises(AccountingError, match=r"true_positive_rate=0\.005: it is below 0\.01"):
        noise_for_true_positive_rate(
            run(0.1, 10), target_true_positive_rate=0.005, false_positive_rate=0.01
        )


def test_bad_arguments() -> None:
    with pytest.raises(InvalidArgumentError, match=r"gdp-clt.*estimate"):
        noise_for_epsilon(run(0.1, 10), epsilon=1.0, delta=1e-5, accountant="gdp-clt")
    for bad in (0.0, -1.0, math.inf, math.nan, "1"):
        with pytest.raises(InvalidArgumentError, match=r"epsilon must be finite and > 0"):
            noise_for_epsilon(run(0.1, 10), epsilon=bad, delta=1e-5)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"steps must be an integer >= 1"):
        run(0.1, 0)
    with pytest.raises(InvalidArgumentError, match=r"sampling_prob must be finite and > 0"):
        run(0.0, 1)
    with pytest.raises(InvalidArgumentError, match=r"sampling_prob must be from 0 to 1.*no larger"):
        run(1.5, 1)
