"""Clipping: the bound holds in float64, row by row, whatever a record sends."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from insular.errors import InvalidArgumentError
from insular.training.clipping import OPACUS_STABILISER, FlatClipping, clip_records, record_norms

NAN, INF = float("nan"), float("inf")


def gradients(*shape: int, seed: int, scale: float = 1.0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * scale


def test_worked_example() -> None:
    clipped = clip_records(torch.tensor([[0.4, 0.3], [3.0, 4.0], [0.6, 0.8]]), clip_norm=1.0)
    assert torch.allclose(clipped, torch.tensor([[0.4, 0.3], [0.6, 0.8], [0.6, 0.8]]))
    assert clipped.sum(dim=0).tolist() == pytest.approx([1.60, 1.90])


def test_a_row_inside_the_bound_is_left_bit_for_bit() -> None:
    rows = gradients(4, 50, seed=0, scale=0.01)
    assert torch.equal(clip_records(rows, clip_norm=1.0), rows)


def test_row_i_of_the_output_depends_on_row_i_of_the_input_only() -> None:
    rows = gradients(5, 300, seed=0)
    for others in (gradients(5, 300, seed=1) * 1e6, torch.full((5, 300), NAN)):
        others[2] = rows[2]
        mine, theirs = clip_records(rows, clip_norm=0.3), clip_records(others, clip_norm=0.3)
        assert torch.equal(mine[2], theirs[2])
    assert torch.equal(
        clip_records(rows, clip_norm=0.3)[2:3], clip_records(rows[2:3], clip_norm=0.3)
    )


ROWS = st.lists(st.floats(allow_nan=True, allow_infinity=True, width=32), min_size=3, max_size=3)


@given(rows=st.lists(ROWS, min_size=1, max_size=5), clip_norm=st.floats(1e-6, 1e6))
@settings(max_examples=200, deadline=None)
def test_every_row_has_norm_at_most_clip_norm(rows: list[list[float]], clip_norm: float) -> None:
    values = torch.tensor(rows, dtype=torch.float32)
    clipped = clip_records(values, clip_norm=clip_norm)
    assert clipped.isfinite().all()
    eps = torch.finfo(torch.float32).eps
    assert (record_norms(clipped) <= clip_norm * (1 + eps)).all()
    for row, out in zip(values, clipped, strict=True):
        norm = math.hypot(*row.tolist())
        if math.isfinite(norm) and norm <= clip_norm:
            assert torch.equal(row, out)
        elif math.isfinite(norm):
            expected = [value * clip_norm / norm for value in row.tolist()]
            assert out.tolist() == pytest.approx(expected, rel=1e-6, abs=1e-37)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_rounding_exceeds_the_bound_by_at_most_one_eps(dtype: torch.dtype) -> None:
    rows = gradients(20, 1000, seed=3).to(dtype)
    clipped = clip_records(rows, clip_norm=0.7)
    assert clipped.dtype == dtype
    eps = max(torch.finfo(dtype).eps, 1e-15)  # the norm itself is rounded in float64
    assert (record_norms(clipped) <= 0.7 * (1 + eps)).all()
    assert (record_norms(clipped) >= 0.7 * (1 - 2 * eps)).all()


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_a_row_with_nan_or_inf_becomes_zero(bad: float) -> None:
    clipped = clip_records(torch.tensor([[bad, 1.0], [3.0, 4.0]]), clip_norm=1.0)
    assert clipped[0].tolist() == [0.0, 0.0]
    assert clipped.sum(dim=0).tolist() == pytest.approx([0.6, 0.8])


def test_a_finite_row_whose_float32_norm_overflows_is_clipped_not_dropped() -> None:
    clipped = clip_records(torch.full((1, 4), 3e38), clip_norm=1.0)
    assert clipped.tolist() == [[0.5] * 4]


def test_a_float64_row_whose_norm_overflows_stays_inside_the_bound() -> None:
    rows = torch.tensor([[3e200, 4e200]], dtype=torch.float64)
    assert clip_records(rows, clip_norm=1.0).tolist() == [[0.0, 0.0]]


def test_a_row_of_zeros_stays_zero() -> None:
    assert clip_records(torch.zeros(2, 3), clip_norm=1.0).tolist() == [[0.0] * 3] * 2


def test_no_record_is_no_row() -> None:
    assert clip_records(torch.zeros(0, 3), clip_norm=1.0).shape == (0, 3)


def test_a_float32_norm_would_be_too_low() -> None:
    """As many coordinates as a real adapter has; float32 accumulation may lose 4e-5 there."""
    rows = torch.full((2, 460_800), 1e-3)
    exact = float(rows[0, 0].double()) * math.sqrt(460_800)
    assert record_norms(rows).tolist() == pytest.approx([exact] * 2, rel=1e-13)
    clipped = clip_records(rows, clip_norm=exact / 3)
    assert record_norms(clipped).tolist() == pytest.approx([exact / 3] * 2, rel=1e-7)


def test_the_stabiliser_reproduces_opacus() -> None:
    rows = gradients(6, 40, seed=5)
    norms = rows.norm(dim=1)
    expected = rows * (0.5 / (norms + 1e-6)).clamp(max=1.0).unsqueeze(1)
    found = clip_records(rows, clip_norm=0.5, stabiliser=OPACUS_STABILISER)
    assert torch.allclose(found, expected, rtol=1e-6, atol=0)
    assert (record_norms(found) < 0.5).all()


@pytest.mark.parametrize("clip_norm", [0.0, -1.0, INF, NAN])
def test_a_bound_that_is_none_is_refused(clip_norm: float) -> None:
    with pytest.raises(InvalidArgumentError, match=r"clip_norm must be finite and > 0, got clip_"):
        clip_records(torch.ones(1, 2), clip_norm=clip_norm)


@pytest.mark.parametrize("stabiliser", [-1e-6, INF, NAN])
def test_a_stabiliser_below_zero_is_refused(stabiliser: float) -> None:
    with pytest.raises(InvalidArgumentError, match=r"stabiliser must be finite and >= 0, got stab"):
        clip_records(torch.ones(1, 2), clip_norm=1.0, stabiliser=stabiliser)


def test_flat_clipping_tells_the_norms_before_and_clips_as_the_function_does() -> None:
    rows = gradients(4, 30, seed=2)
    contributions, norms = FlatClipping(clip_norm=0.4, stabiliser=1e-6).clip(rows)
    assert torch.equal(contributions, clip_records(rows, clip_norm=0.4, stabiliser=1e-6))
    assert torch.equal(norms, record_norms(rows))
    with pytest.raises(InvalidArgumentError, match=r"clip_norm must be finite and > 0, got clip_"):
        FlatClipping(clip_norm=0.0)
