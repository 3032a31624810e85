"""Each check fails when it must, and says why."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from audit.rigs import Rig, decoder, model_subject, quiet_records
from insular.audit.isolation.validation import (
    check_autograd,
    check_clipping,
    check_coverage,
    check_finite,
    check_operators,
    check_repeat,
    check_sum,
    reference_weights,
    untouched,
)
from insular.audit.subjects.callable_subject import CallableSubject
from insular.audit.subjects.subject import Evaluation, SubjectFacts
from insular.training.clipping import clip_records

IDS = ("a", "b", "c")
ROWS = torch.tensor([[3.0, 4.0, 0.0], [1.0, 0.0, 0.0], [0.0, 2.0, 0.0]])
FACTS = SubjectFacts(engine="e", model="m", trainable=(("x", 2), ("y", 1)))


def evaluation(rows: Tensor = ROWS, batch: Tensor | None = None) -> Evaluation:
    return Evaluation(gradients=rows, batch_gradient=batch)


def test_finite_names_the_records_that_are_not():
    rows = ROWS.clone()
    rows[1, 0], rows[2, 2] = float("nan"), float("inf")
    check = check_finite(evaluation(rows), IDS)
    assert not check.passed
    assert check.detail.startswith("NaN or inf in the gradient of b, c; look at")
    assert check_finite(evaluation(), IDS).passed


def test_repeat_measures_the_largest_relative_distance():
    rows = ROWS.clone()
    rows[2, 1] += 0.5
    check, floor = check_repeat(evaluation(), evaluation(rows))
    assert (check.passed, floor) == (False, 0.25)
    assert "relative distance 2.50e-01, at most 1e-04 allowed; fix seeds" in check.detail


def test_repeat_that_is_exact_has_floor_zero():
    assert check_repeat(evaluation(), evaluation(ROWS.clone()))[1] == 0.0


def test_repeat_within_rounding_passes_with_its_floor():
    check, floor = check_repeat(evaluation(), evaluation(ROWS * (1 + 1e-6)))
    assert check.passed
    assert 0 < floor < 2e-6


def test_repeat_of_a_nan_is_exact_and_a_new_nan_is_not():
    sick = ROWS.clone()
    sick[0, 0] = float("nan")
    assert check_repeat(evaluation(sick), evaluation(sick.clone()))[1] == 0.0
    check, floor = check_repeat(evaluation(), evaluation(sick))
    assert (check.passed, floor) == (False, float("inf"))


@pytest.mark.parametrize("record", range(3))
def test_autograd_finds_the_wrong_gradient_of_one_record(record):
    weights = reference_weights(3, seed=0)
    wrong = ROWS.clone()
    wrong[record] *= 1.001
    assert check_autograd(evaluation(), weights, weights @ ROWS).passed
    assert not check_autograd(evaluation(wrong), weights, weights @ ROWS).passed


def test_autograd_finds_two_swapped_records_whose_sum_is_right():
    weights = reference_weights(3, seed=0)
    swapped = evaluation(ROWS[[0, 2, 1]], ROWS.sum(dim=0))
    assert check_sum(swapped).passed
    assert not check_autograd(swapped, weights, weights @ ROWS).passed


def test_autograd_counts_coordinates():
    weights = reference_weights(3, seed=0)
    check = check_autograd(evaluation(), weights, weights @ ROWS[:, :2])
    assert not check.passed
    assert check.detail == "3 coordinates against 2 by autograd."


def test_autograd_says_where_it_does_not_apply():
    check = check_autograd(evaluation(), reference_weights(3, seed=0), None)
    assert check.passed
    assert check.detail.startswith("not applicable")


def test_sum_differs_from_the_batchs_backward():
    assert check_sum(evaluation(batch=ROWS.sum(dim=0))).passed
    assert not check_sum(evaluation(batch=ROWS.mean(dim=0))).passed
    assert not check_sum(evaluation(batch=torch.full((3,), float("nan")))).passed


def test_coverage_misses_coordinates():
    check = check_coverage(evaluation(ROWS[:, :2]), FACTS)
    assert not check.passed
    assert check.detail.startswith("2 of 3 trainable coordinates")


def test_coverage_refuses_a_gradient_that_is_zero_everywhere():
    check = check_coverage(evaluation(ROWS * 0), FACTS)
    assert not check.passed
    assert check.detail.startswith("every gradient is exactly 0")


def test_untouched_tensors_are_named():
    assert untouched(evaluation(), FACTS) == ("y",)
    assert "1 of 2 tensors have gradient 0" in check_coverage(evaluation(), FACTS).detail


def test_operators_that_did_not_run_are_named():
    facts = replace(FACTS, expected_operators={"lib::mm": 4, "lib::other": 0})
    assert check_operators({"lib::mm": 4}, facts).passed
    check = check_operators({"lib::other": 4}, facts)
    assert not check.passed
    assert check.detail.startswith("lib::mm ran 0 times instead of 4; lib::other ran 4 times")


def test_operators_are_counted_over_all_physical_batches():
    facts = replace(FACTS, expected_operators={"lib::mm": 1})
    assert check_operators({"lib::mm": 4}, facts, n_forwards=4).passed
    assert not check_operators({"lib::mm": 7}, facts, n_forwards=4).passed


def test_clipping_that_is_not_the_declared_formula():
    clipped = clip_records(ROWS, clip_norm=1.0)
    assert check_clipping(ROWS, clipped, clip_norm=1.0, stabiliser=0.0).passed
    assert not check_clipping(ROWS, clipped, clip_norm=1.0, stabiliser=1e-3).passed
    assert not check_clipping(ROWS, ROWS, clip_norm=1.0, stabiliser=0.0).passed
    summed = clip_records(ROWS.flatten()[None], clip_norm=1.0).view_as(ROWS)
    assert not check_clipping(ROWS, summed, clip_norm=1.0, stabiliser=0.0).passed


def test_wrong_operators_leave_an_audit_undecided():
    base, spares = quiet_records(0)
    subject = model_subject(decoder(0), expected={"bitsandbytes::int8_mixed_scaled_mm": 4})
    result = Rig(subject=subject, base=base, spares=spares).audit()
    assert result.verdict == "undecided"
    assert [check.name for check in result.failed_checks] == ["operators"]


def test_wrong_clip_norm_leaves_an_audit_undecided():
    base, spares = quiet_records(0)
    subject = model_subject(decoder(0), clip_norm=0.02)
    result = Rig(subject=subject, base=base, spares=spares, clip_norm=0.01).audit()
    assert [check.name for check in result.failed_checks] == ["clipping"]


def test_a_subject_that_does_not_repeat_leaves_an_audit_undecided():
    generator = torch.Generator().manual_seed(0)
    base, spares = quiet_records(0)

    def noisy(batch):
        return torch.ones(batch.n_records, 3) + torch.rand(1, 3, generator=generator)

    subject = CallableSubject(noisy, name="noisy")
    result = Rig(subject=subject, base=base, spares=spares).audit()
    assert result.verdict == "undecided"
    assert [check.name for check in result.failed_checks] == ["identical repeat"]
