"""Everything that crosses a module's border is seen once, outermost first on the way in."""

import torch
from torch import Tensor, nn

from insular.audit.localisation._tracing import traced_calls
from insular.audit.localisation.results import ROOT


def test_borders_are_seen_in_order_and_gradients_of_shared_inputs_by_reader():
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(2, 2))

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x) + x * x

    net, seen = Net(), []

    def visit(call, spot, tensor):
        seen.append((call.key, spot.border, spot.part, tensor.clone()))

    x = torch.tensor([[1.0, 2.0]], requires_grad=True)
    with traced_calls(net, visit):
        net(x).sum().backward()
    borders = [(key, border, part) for key, border, part, _ in seen]
    inner, layer = "inner", "inner.0"
    assert borders[:6] == [
        (ROOT, "input", 0),
        (inner, "input", 0),
        (layer, "input", 0),
        (layer, "output", 0),
        (inner, "output", 0),
        (ROOT, "output", 0),
    ]
    assert [b for b in borders[6:] if b[1] == "output gradient"] == [
        (ROOT, "output gradient", 0),
        (inner, "output gradient", 0),
        (layer, "output gradient", 0),
    ]
    sent = [(key, tensor) for key, border, _, tensor in seen if border == "input gradient"]
    assert [key for key, _ in sent if key != ROOT] == [layer, inner]
    mine = [tensor for key, tensor in sent if key == ROOT]
    assert len(mine) == 3  # the layer, and both factors of the square
    assert torch.stack(mine).sum(dim=0).equal(x.grad)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in net.modules())


def test_what_visit_returns_goes_on_in_place_of_what_it_saw():
    net = nn.Sequential(nn.Identity(), nn.Identity())

    def visit(call, spot, tensor):
        if call.key == "1" and spot.border == "input":
            return torch.full_like(tensor, 7.0)
        if call.key == "0" and spot.border == "output gradient":
            return torch.full_like(tensor, 5.0)
        return None

    x = torch.ones(1, 2, requires_grad=True)
    with traced_calls(net, visit):
        out = net(x)
        out.sum().backward()
    assert out.tolist() == [[7.0, 7.0]]
    assert x.grad.tolist() == [[5.0, 5.0]]


def test_without_gradients_values_are_seen_all_the_same():
    seen = []
    net = nn.Linear(2, 2)
    with torch.no_grad(), traced_calls(net, lambda call, spot, tensor: seen.append(spot.border)):
        net(torch.ones(1, 2))
    assert seen == ["input", "output"]
