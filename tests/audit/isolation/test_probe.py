"""The probe names the layer where a record parts from its base run, and sees past roundings."""

import pytest
import torch
from torch import Tensor, nn

from insular.audit.isolation.probe import Trace, first_difference, rounding_bound, traced

WIDTH = 4


class _ShiftedGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, shift: float) -> Tensor:
        ctx.shift = shift
        return x.clone()

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        return grad_output + ctx.shift, None


class Meddling(nn.Module):
    """Adds something to the rows of record 0, in the forward or in the backward pass."""

    def __init__(self, size: float = 0.0, backward: float = 0.0) -> None:
        super().__init__()
        self.size, self.backward = size, backward

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.size * torch.eye(len(x), dtype=x.dtype)[0].view(-1, 1, 1)
        return _ShiftedGradient.apply(x, self.backward)


class Net(nn.Module):
    """Three layers with a meddler after each of the first two."""

    def __init__(self, early: Meddling, late: Meddling, dtype: torch.dtype) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(8, 8, dtype=dtype)
        self.early = early
        self.second = nn.Linear(8, 8, dtype=dtype)
        self.late = late
        self.third = nn.Linear(8, 8, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        return self.third(self.late(self.second(self.early(self.first(x)))))


def run(
    *meddlers: Meddling,
    pin: Trace | None = None,
    position: int = 0,
    dtype: torch.dtype = torch.float32,
) -> Trace:
    with torch.random.fork_rng():
        net = Net(*meddlers, dtype=dtype)
        x = torch.randn(2, WIDTH, 8, generator=torch.Generator().manual_seed(1)).to(dtype)
    mask = torch.ones(2, WIDTH, dtype=torch.bool)
    mask[0, -1] = False
    with traced(net, mask, position, pin=pin) as trace:
        net(x).square().sum().backward()
    assert not any(module._forward_hooks for module in net.modules())
    return trace


BASE = run(Meddling(), Meddling())


def test_equal_runs_have_no_difference():
    assert first_difference(BASE, run(Meddling(), Meddling())) is None


def test_real_rows_of_the_record_are_kept():
    assert BASE.forward["first"].shape == (WIDTH - 1, 8)
    names = ["first (input)", "first", "early (input)", "early"]
    assert list(BASE.forward)[:4] == names
    assert list(BASE.backward) == ["third", "late", "second", "early", "first"]


@pytest.mark.parametrize(("early", "late", "name"), [(0.1, 0, "early"), (0, 0.1, "late")])
def test_forward_difference_names_the_planted_layer(early, late, name):
    found = first_difference(BASE, run(Meddling(early), Meddling(late)))
    assert (found.module, found.phase) == (name, "forward")
    assert not found.explained_by_rounding


def test_backward_difference_names_the_layer_whose_gradient_the_planted_one_changed():
    found = first_difference(BASE, run(Meddling(backward=0.1), Meddling()))
    assert (found.module, found.phase) == ("first", "backward")


def test_another_record_is_not_observed():
    other = run(Meddling(0.1), Meddling(), position=1)
    base = run(Meddling(), Meddling(), position=1)
    assert first_difference(base, other) is None


def test_of_a_pinned_trace_it_is_the_earliest_that_rounding_does_not_explain():
    meddlers = Meddling(1e-6), Meddling(0.1)
    plain = first_difference(BASE, run(*meddlers))
    pinned = first_difference(BASE, run(*meddlers, pin=BASE))
    assert (plain.module, plain.explained_by_rounding) == ("early", True)
    assert (pinned.module, pinned.explained_by_rounding) == ("late", False)


def test_a_backward_decision_behind_a_forward_rounding_is_found():
    meddlers = Meddling(1e-6, backward=0.1), Meddling()
    found = first_difference(BASE, run(*meddlers, pin=BASE))
    assert (found.module, found.phase) == ("first", "backward")
    assert not found.explained_by_rounding


def test_a_pinned_rounding_goes_no_further():
    other = run(Meddling(1e-6), Meddling(), pin=BASE)
    differ = [name for name in BASE.forward if not BASE.forward[name].equal(other.forward[name])]
    assert differ == ["early"]
    assert all(BASE.backward[name].equal(other.backward[name]) for name in BASE.backward)
    assert first_difference(BASE, other).explained_by_rounding


def test_a_module_that_runs_twice_is_told_apart():
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Identity()

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(self.layer(x) + 1)

    with traced(Twice(), torch.ones(1, 2, dtype=torch.bool), 0) as trace:
        model = Twice()
    assert trace.forward == {}
    with traced(model, torch.ones(1, 2, dtype=torch.bool), 0) as trace:
        model(torch.zeros(1, 2, 3))
    assert list(trace.forward) == ["layer (input)", "layer", "layer (input)#2", "layer#2"]


def test_the_bound_follows_the_coarsest_type():
    assert rounding_bound(BASE) == 256 * 2**-23
    coarse = run(Meddling(), Meddling(), dtype=torch.bfloat16)
    assert rounding_bound(coarse) == 4 * 2**-7


def test_a_nan_on_both_sides_is_no_difference():
    rows = torch.tensor([[1.0, float("nan")]])
    same, moved = Trace(forward={"x": rows}), Trace(forward={"x": rows + 1})
    assert first_difference(same, Trace(forward={"x": rows.clone()})) is None
    assert first_difference(same, moved).relative == float("inf")
