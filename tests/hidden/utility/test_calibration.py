"""Calibration: the search on known functions, on a decoder, and the guard of the evaluation set."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hidden.decoder_samples import erased, held, isotropic, split
from insular.errors import AccountingError, InvalidArgumentError
from insular.evidence import decode, encode
from insular.hidden.utility._scale_search import ScaleSearch
from insular.hidden.utility.calibration import calibrate_scale
from insular.hidden.utility.calibration_results import CalibrationResult
from insular.hidden.utility.measure import drawn_divergences, measure_utility


def calibrate(**options: object) -> CalibrationResult:
    options = {
        "layer": 0,
        "sampler": isotropic,
        "target_kl_nats": 0.03,
        "evaluation_digests": held(seed=1).digests,
        "seed": 0,
    } | options
    return calibrate_scale(split(), held(), **options)  # type: ignore[arg-type]


def search(measure: object, target: float, tolerance: float = 0.01) -> ScaleSearch:
    return ScaleSearch(
        measure=lambda scale: np.full(2, measure(scale)),  # type: ignore[operator]
        target=target,
        tolerance=tolerance,
        low=math.log(1e-4),
        high=math.log(1e4),
    )


@settings(max_examples=60, deadline=None)
@given(
    st.floats(1e-3, 1e3),
    st.floats(0.5, 4.0),
    st.floats(0.05, 5.0),
    st.floats(1e-2, 1e2),
)
def test_a_reached_scale_costs_the_target(
    factor: float, power: float, target: float, start: float
) -> None:
    def cost(scale: float) -> float:
        return 8 * (1 - math.exp(-factor * scale**power / 8))  # saturates at 8 nats

    one = search(cost, target)
    status, found = one.run(math.log(start))
    reachable = cost(1e-4) <= target * 1.01 and cost(1e4) >= target * 0.99
    assert status == (
        "reached" if reachable else "too_strong" if cost(1e-4) > target else "too_weak"
    )
    if found is not None:
        assert cost(found.scale) == pytest.approx(target, rel=0.0101)


def test_the_quadratic_law_needs_two_measurements() -> None:
    one = search(lambda scale: 3 * scale**2, target=0.12)
    status, found = one.run(0.0)
    assert status == "reached" and found is not None
    assert found.scale == pytest.approx(0.2, rel=0.01)
    assert len(one.points) == 2


def test_the_error_of_the_scale_is_half_that_of_a_quadratic_cost() -> None:
    one = ScaleSearch(
        measure=lambda scale: np.array([1.0, 3.0]) * scale**2,
        target=0.5,
        tolerance=0.01,
        low=-9.0,
        high=9.0,
    )
    _, found = one.run(0.0)
    assert found is not None
    relative = found.kl.std(ddof=1) / math.sqrt(2) / found.mean
    assert one.relative_error(found) == pytest.approx(relative / 2, rel=1e-6)


def test_overflow_counts_as_too_much_and_a_jump_is_told() -> None:
    status, found = search(lambda s: math.inf if s > 2 else s, target=1.5).run(math.log(100.0))
    assert status == "reached" and found is not None
    status, found = search(lambda s: 1.0 if s > 2 else 0.1, target=0.5).run(0.0)
    assert (status, found) == ("jumps", None)


def test_a_reached_scales_measured_kl_is_within_the_tolerance() -> None:
    for target in (0.003, 0.03):
        found = calibrate(target_kl_nats=target)
        assert found.reached and found.kl_nats == pytest.approx(target, rel=0.02)
        again = drawn_divergences(
            split(),
            held(),
            layer=0,
            sampler=isotropic,
            seed=0,
            scale=found.required_scale(),
            draws=1,
        )
        assert again.kl_nats.mean() == pytest.approx(found.kl_nats, rel=1e-9)
        assert found.kl_standard_error_nats == pytest.approx(
            again.kl_nats.std(ddof=1) / math.sqrt(24)
        )
        assert found.scale_relative_error is not None and 0 < found.scale_relative_error < 1
        assert decode(CalibrationResult, encode(found)) == found


def test_equal_arguments_give_the_same_scale() -> None:
    assert calibrate() == calibrate()
    assert calibrate().scale != calibrate(seed=1).scale


def test_calibrating_on_the_evaluation_set_is_refused() -> None:
    """The planted bug of this module."""
    with pytest.raises(InvalidArgumentError, match="must be disjoint, got 24 in both"):
        calibrate(evaluation_digests=held().digests)
    with pytest.raises(InvalidArgumentError, match="got 1 in both"):
        calibrate(evaluation_digests=held().digests[5:6])
    found = calibrate()
    with pytest.raises(InvalidArgumentError, match="must be disjoint"):
        measure_utility(
            split(),
            held(),
            layer=0,
            sampler=isotropic,
            seed=9,
            scale=found.required_scale(),
            calibrated_on=found.prompt_digests,
        )
    measure_utility(
        split(),
        held(seed=1),
        layer=0,
        sampler=isotropic,
        seed=9,
        scale=found.required_scale(),
        calibrated_on=found.prompt_digests,
    )


def test_targets_that_no_scale_reaches_end_with_a_status() -> None:
    def weak(states: Tensor, *, generator: torch.Generator, scale: float = 1.0) -> Tensor:
        return states * (1 + 0.01 * min(scale, 1.0))

    one = calibrate(sampler=erased, target_kl_nats=1e-6)
    assert (one.status, one.scale, one.kl_nats) == ("too_strong", None, None)
    with pytest.raises(AccountingError, match="the smallest, already costs .* ask for more"):
        one.required_scale()
    other = calibrate(sampler=weak, target_kl_nats=5.0)
    assert (other.status, other.scale) == ("too_weak", None)
    with pytest.raises(AccountingError, match="the largest, costs .* ask for less"):
        other.required_scale()


def test_arguments_are_checked() -> None:
    with pytest.raises(InvalidArgumentError, match="target_kl_nats must be finite and > 0"):
        calibrate(target_kl_nats=0.0)
    with pytest.raises(InvalidArgumentError, match="scale_bounds must be finite"):
        calibrate(first_scale=1e5)
