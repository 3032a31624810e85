"""Whose code changed a record: small nets where the answer is plain, and what is refused."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from audit.couplers import ForwardOnly, Mixed, named, run
from audit.layers import BatchNormOverBatch
from audit.rigs import layer_subject, quiet_records, random_table
from insular.audit.localisation.origins import find_origins
from insular.audit.localisation.results import ROOT, Origins
from insular.audit.subjects.subject import Evaluation, Subject
from insular.errors import InvalidArgumentError, SubjectError
from insular.evidence.codec import decode, encode
from insular.records.tokens import TokenisedRecord


class Bare(Subject):
    """A net on embedded records, ``[record, token, hidden]``; the loss is a sum of squares."""

    name = "bare"

    def __init__(self, net: nn.Module) -> None:
        self.net, self.table = net.requires_grad_(False), random_table(0, hidden=8)

    def evaluate(self, records: Sequence[TokenisedRecord], *, width: int) -> Any:
        x = torch.stack([self.table[list(record.tokens[:width])] for record in records])
        x.requires_grad_()
        losses = self.net(x).square().flatten(1).sum(dim=1)
        (gradient,) = torch.autograd.grad(losses.sum(), x)
        return Evaluation(gradients=gradient.flatten(1), losses=losses.detach())

    def facts(self) -> Any:
        raise NotImplementedError

    def traced_model(self) -> nn.Module:
        return self.net

    def mask(self, records: Sequence[TokenisedRecord], *, width: int) -> Tensor:
        return torch.ones(len(records), width, dtype=torch.bool)


def net_origins(net: nn.Module, *, pair: str = "swap") -> Origins:
    """Origins of a net on three records of five tokens, one of them replaced or removed."""
    (first, *_), spares = quiet_records(0, lengths=(5,))
    base, spare = (first, *spares[:2]), spares[2]
    other = (spare, *base[1:]) if pair == "swap" else base[1:]
    kept = [(i, i if pair == "swap" else i - 1) for i in (1, 2)]
    subject = Bare(net)
    return find_origins(subject, base, other, kept=kept, width=5, run=run(subject))


def linear(seed: int = 0) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Linear(8, 8)


class Own(nn.Module):
    """Two layers, and code between and around them."""

    def __init__(self, between: Callable[[Tensor], Tensor], after: Callable[[Tensor], Tensor]):
        super().__init__()
        self.one, self.two = linear(1), linear(2)
        self.between, self.after = between, after

    def forward(self, x: Tensor) -> Tensor:
        return x + self.after(self.two(self.between(self.one(x))))


def same(x: Tensor) -> Tensor:
    return x


def centred(x: Tensor) -> Tensor:
    return x - x.detach().mean()


@pytest.mark.parametrize(
    ("between", "after", "phase"),
    [
        (centred, same, "forward"),
        (same, centred, "forward"),
        (Mixed.apply, same, "backward"),
        (same, Mixed.apply, "backward"),
    ],
)
def test_what_a_module_computes_outside_its_submodules_is_attributed_to_it(between, after, phase):
    net = nn.Sequential(Own(same, same), Own(between, after), Own(same, same))
    found = net_origins(net)
    assert named(found) == [("1", phase)]
    assert (found.first.module, found.first.phase) == ("1", phase)


def test_the_outermost_modules_own_code_is_the_whole_model():
    assert named(net_origins(Own(centred, same))) == [(ROOT, "forward")]


def test_a_parent_and_its_submodule_are_told_apart():
    inner = Own(centred, same)
    inner.two = nn.Sequential(ForwardOnly(linear(2)))
    found = net_origins(nn.Sequential(inner))
    assert named(found) == [("0.two.0", "forward"), ("0", "forward")]
    assert (found.first.module, found.of("0.two", "forward").role_pinned) == ("0", "unchanged")


def test_batch_statistics_originate_in_both_passes():
    found = net_origins(nn.Sequential(linear(), BatchNormOverBatch(8), linear()))
    assert named(found) == [("1.norm", "forward"), ("1.norm", "backward")]
    assert found.first.module == "1.norm"


def test_a_tensor_fed_by_keyword_is_an_input():
    class Reader(nn.Module):
        def forward(self, x: Tensor, *, mask: Tensor) -> Tensor:
            return x + mask[:, 0, :, :1]

    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.reader = Reader()

        def forward(self, x: Tensor) -> Tensor:
            scores = (x @ x.transpose(1, 2)).detach()
            return self.reader(x, mask=(scores - scores.mean()).unsqueeze(1))

    found = net_origins(nn.Sequential(Masked()))
    assert named(found) == [("0", "forward")]
    assert found.of("0.reader", "forward").role == "passes"


def test_a_module_that_runs_twice_is_told_apart():
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = ForwardOnly(linear())

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(self.layer(x))

    found = net_origins(Twice())
    assert named(found) == [("layer", "forward"), ("layer#2", "forward")]
    assert found.of("layer#2", "forward").role == "passes"


def test_a_change_within_the_rounding_of_another_batch_size_is_no_origin():
    class Nudged(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * (1 + len(x) * 2**-22)

    found = net_origins(nn.Sequential(linear(), Nudged(), linear()), pair="remove")
    assert found.originating() == ()
    assert found.first is None
    nudged = found.of("1", "forward")
    assert (nudged.role, nudged.role_pinned, nudged.records) == ("rounding", "rounding", ())
    assert 0 < nudged.relative <= found.rounding_bound == 256 * 2**-23
    assert found.count("forward", "rounding") == 1


def test_an_input_that_is_read_more_often_is_judged_by_the_sum():
    class Branch(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            if len(x) == 3:
                return x * 2.0
            return x * 1.5 + x * 0.5

    assert net_origins(nn.Sequential(linear(), Branch(), linear()), pair="remove").modules == ()


def test_a_coupling_in_an_input_that_is_read_more_often_is_named():
    class Branch(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * 2.0 if len(x) == 3 else x * 1.5 + Mixed.apply(x * 0.5)

    found = net_origins(nn.Sequential(linear(), Branch(), linear()), pair="remove")
    assert named(found) == [("1", "backward")]


def test_rows_of_all_records_in_one_axis_are_told_apart():
    net = nn.Sequential(nn.Flatten(0, 1), ForwardOnly(linear()), nn.Unflatten(0, (3, 5)))
    assert named(net_origins(net)) == [("1", "forward")]


class Routed(nn.Module):
    """Some rows of all records go through an expert; their number is added to them."""

    def __init__(self) -> None:
        super().__init__()
        self.expert = linear()

    def forward(self, x: Tensor) -> Tensor:
        chosen = x[..., 0].detach() > 0
        out = x.clone()
        out[chosen] = self.expert(x[chosen]) + len(x[chosen])
        return out


def test_what_cannot_be_observed_is_listed_and_its_caller_answers_for_it():
    found = net_origins(nn.Sequential(linear(), Routed()))
    assert found.unobservable == ("1.expert",)
    assert "1.expert" not in found.observed
    assert named(found) == [("1", "forward")]


def test_a_module_whose_output_is_edited_in_place_is_not_judged():
    class Edited(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = linear()

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x).add_(1.0)

    found = net_origins(nn.Sequential(Edited()))
    assert found.modules == ()
    assert found.unobservable == ("0.layer",)


def test_the_result_survives_strict_json():
    found = net_origins(nn.Sequential(ForwardOnly(linear()), linear()))
    assert decode(Origins, encode(found)) == found


# ---------------------------------------------------------------- refusals


def test_a_subject_without_a_model_has_no_origins():
    base, _ = quiet_records(0)
    subject = layer_subject(lambda x: x, random_table(0, hidden=8))
    assert find_origins(subject, base, base, kept=[(0, 0)], width=12, run=run(subject)) is None


@pytest.mark.parametrize("kept", [[], [(0, 1)]])
def test_kept_must_pair_records_with_themselves(kept):
    base, _ = quiet_records(0)
    subject = Bare(linear())
    with pytest.raises(InvalidArgumentError, match="kept must pair each record with itself"):
        find_origins(subject, base, base, kept=kept, width=5, run=run(subject))


def test_a_subject_without_a_mask_is_refused(monkeypatch):
    base, _ = quiet_records(0)
    subject = Bare(linear())
    monkeypatch.setattr(subject, "mask", lambda records, width: None)
    with pytest.raises(SubjectError, match=r"subject bare must give the mask .* got None"):
        find_origins(subject, base, base, kept=[(0, 0)], width=5, run=run(subject))
