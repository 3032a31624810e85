"""Distances by hand."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from insular.audit.isolation.cases import Case
from insular.audit.isolation.measure import clipped_reference, influences, same_values, sum_ratio
from insular.audit.isolation.results import Influence
from insular.audit.subjects.subject import Evaluation
from insular.training.clipping import clip_records

NAN = float("nan")


def case(*kept: tuple[int, int], bound: float | None = 2.0) -> Case:
    return Case(
        name="c", axis="content", records=(), width=2, kept=kept, changed=("b",), bound=bound
    )


def evaluation(gradients: list[list[float]], logits: Tensor | None = None) -> Evaluation:
    mask = torch.tensor([[True, False]] * len(gradients))
    return Evaluation(gradients=torch.tensor(gradients), logits=logits, mask=mask)


def compare(base: Evaluation, other: Evaluation, *kept: tuple[int, int]) -> tuple[Influence, ...]:
    def clipped(one: Evaluation) -> Tensor:
        return clipped_reference(one.gradients, clip_norm=5.0, stabiliser=0.0)

    return influences(
        case(*kept),
        base_ids=("a", "b", "c"),
        base=base,
        base_clipped=clipped(base),
        other=other,
        other_clipped=clipped(other),
        clip_norm=5.0,
    )


def test_clipping_by_hand():
    rows = torch.tensor([[3.0, 4.0], [30.0, 40.0], [0.0, 0.0], [NAN, 1.0], [math.inf, 1.0]])
    expected = [[3.0, 4.0], [3.0, 4.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
    assert clipped_reference(rows, clip_norm=5.0, stabiliser=0.0).tolist() == expected


def test_the_stabiliser_shortens_a_clipped_row():
    (row,) = clipped_reference(torch.tensor([[30.0, 40.0]]), clip_norm=5.0, stabiliser=50.0)
    assert row.tolist() == [1.5, 2.0]


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=3, max_size=3), st.floats(1e-3, 1e3))
def test_clipping_agrees_with_the_trainers(row, clip_norm):
    rows = torch.tensor([row])
    formula = clipped_reference(rows, clip_norm=clip_norm, stabiliser=1e-6)
    ours = clip_records(rows, clip_norm=clip_norm, stabiliser=1e-6).double()
    assert float((ours - formula).norm()) <= 1e-6 * clip_norm
    assert float(formula.norm()) <= clip_norm * (1 + 1e-12)


def test_influences_by_hand():
    base = evaluation([[3.0, 4.0], [1.0, 0.0], [0.0, 2.0]])
    other = evaluation([[0.0, 2.0], [9.0, 9.0], [6.0, 8.0]])
    kept, moved = compare(base, other, (2, 0), (0, 2))
    assert (kept.record, kept.bitwise_equal, kept.gradient_relative) == ("c", True, 0.0)
    assert (moved.record, moved.bitwise_equal, moved.gradient_relative) == ("a", False, 1.0)
    assert moved.clipped_distance == 0.0  # clipping hides a rescaled gradient
    assert moved.forward_max_abs is None


def test_forward_change_counts_real_positions_only():
    logits = torch.zeros(1, 2, 3)
    changed = logits.clone()
    changed[0, 1] = 7.0
    same, real = evaluation([[1.0]], changed), changed.clone()
    base = evaluation([[1.0]], logits)
    assert compare(base, same, (0, 0))[0].forward_max_abs == 0.0
    real[0, 0, 2] = -0.5
    (moved,) = compare(base, evaluation([[1.0]], real), (0, 0))
    assert (moved.forward_max_abs, moved.bitwise_equal) == (0.5, False)


@pytest.mark.parametrize("bad", [NAN, math.inf])
def test_a_record_that_is_not_finite_on_one_side_has_moved_infinitely(bad):
    base, other = evaluation([[1.0, 2.0]]), evaluation([[1.0, bad]])
    for one, two in ((base, other), (other, base)):
        (moved,) = compare(one, two, (0, 0))
        assert moved.gradient_relative == math.inf
        assert math.isfinite(moved.clipped_distance)
        assert not moved.bitwise_equal


def test_a_nan_that_stays_has_not_moved():
    base = evaluation([[1.0, NAN]])
    assert compare(base, evaluation([[1.0, NAN]]), (0, 0))[0].bitwise_equal
    assert not compare(base, evaluation([[2.0, NAN]]), (0, 0))[0].bitwise_equal


def test_a_gradient_that_was_zero_moves_infinitely():
    (moved,) = compare(evaluation([[0.0]]), evaluation([[1e-30]]), (0, 0))
    assert moved.gradient_relative == math.inf


def test_same_values():
    assert same_values(torch.tensor([1.0, NAN]), torch.tensor([1.0, NAN]))
    assert not same_values(torch.tensor([1.0, NAN]), torch.tensor([NAN, 1.0]))
    assert not same_values(torch.ones(2), torch.ones(1))


def test_sum_ratio_is_the_distance_of_the_sums_over_the_bound():
    base = torch.tensor([[5.0, 0.0], [0.0, 5.0]])
    other = torch.tensor([[5.0, 0.0], [0.0, -5.0]])
    ratio = sum_ratio(case(bound=2.0), base_clipped=base, other_clipped=other, clip_norm=5.0)
    assert ratio == 1.0
    removed = sum_ratio(case(bound=1.0), base_clipped=base, other_clipped=base[:1], clip_norm=5.0)
    assert removed == 1.0


def test_batches_that_are_no_neighbours_have_no_ratio():
    rows = torch.ones(2, 2)
    assert sum_ratio(case(bound=None), base_clipped=rows, other_clipped=rows, clip_norm=1) is None
