"""Planted couplings are named exactly, in the pass where they act; clean models name nothing."""

import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from audit import plants
from audit.couplers import COUPLERS, BackwardOnly, ForwardOnly, named, plant, run
from audit.rigs import LOUD, model_subject, quiet_records, record
from insular.audit.localisation._tracing import traced_calls
from insular.audit.localisation.origins import find_origins
from insular.audit.localisation.results import OUTSIDE, ROOT, Origins
from insular.audit.subjects.subject import Subject
from insular.errors import SubjectError
from insular.models.lora import add_lora
from insular.models.spec import LoraSpec
from insular.models.structure import block_linears
from insular.precision.policy import apply_precision, set_layer_modes
from insular.precision.spec import PrecisionSpec
from insular.precision.stock import Linear8bitLt
from insular.records.tokens import TokenisedRecord
from insular.training.gradients import LoopGradients
from models import families

WIDTH = 12
STOCK = PrecisionSpec(backbone="bitsandbytes-int8")
FOUR = ("llama", "gpt2", "opt", "qwen2")


# ---------------------------------------------------------------- models and pairs of batches


def decoder(seed: int, *, family: str = "llama", layers: int = 4) -> nn.Module:
    """A tiny float32 decoder with adapters."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(families, "LAYERS", layers)
        model = families.tiny(family, seed).requires_grad_(False)
    return add_lora(model, LoraSpec(rank=2, init_b_std=0.1, seed=seed)).eval()


def origins(subject: Subject, seed: int = 0, *, pair: str = "swap") -> Origins:
    """Between four records and: one of them replaced, or removed, or another one added."""
    base, (spare, *_) = quiet_records(seed)
    place = seed % 4
    left = [i for i in range(4) if i != place]
    if pair == "swap":
        other, kept = [*base[:place], spare, *base[place + 1 :]], [(i, i) for i in left]
    elif pair == "remove":
        other, kept = [base[i] for i in left], [(i, left.index(i)) for i in left]
    else:
        other, kept = [spare, *base], [(i, i + 1) for i in range(4)]
    return find_origins(subject, base, other, kept=kept, width=WIDTH, run=run(subject))


def candidates(model: nn.Module) -> list[str]:
    """Submodules whose outputs take part in the backward pass."""
    sent: dict[str, None] = {}

    def visit(call: Any, spot: Any, tensor: Tensor) -> None:
        if spot.border == "output gradient" and spot.slot == 0:
            sent.setdefault(call.key)

    base, _ = quiet_records(0)
    with traced_calls(model, visit):
        model_subject(model).evaluate(base, width=WIDTH)
    return [name for name in sent if name not in (ROOT, "base_model")]


# ---------------------------------------------------------------- placements


@pytest.mark.parametrize("phase", ["forward", "backward"])
@pytest.mark.parametrize("seed", range(20))
def test_one_module_that_couples_records_in_one_pass_is_the_only_one_named(seed, phase):
    model = decoder(seed, family=FOUR[seed % 4])
    name = random.Random(seed).choice(candidates(model))
    plant(model, name, COUPLERS[phase])
    found = origins(model_subject(model), seed, pair=("swap", "remove", "add")[seed % 3])
    assert named(found) == [(name, phase)]
    assert (found.first.module, found.first.phase) == (name, phase)
    assert found.first.role == found.first.role_pinned == "origin"
    assert set(found.first.records) <= set(found.records)
    assert found.first.relative > found.rounding_bound


@pytest.mark.parametrize("pair", ["swap", "remove", "add"])
@pytest.mark.parametrize("family", sorted(families.FAMILIES))
def test_a_model_that_keeps_records_apart_has_no_origin(family, pair):
    found = origins(model_subject(decoder(1, family=family, layers=2)), 1, pair=pair)
    assert named(found) == []
    assert found.first is None
    if pair == "swap":
        assert found.modules == ()
    assert found.n_observed > 20
    assert ROOT in found.observed


def test_several_origins_are_all_named_and_the_first_comes_apart():
    model = decoder(2)
    layers = "base_model.model.model.layers"
    plant(model, f"{layers}.1.mlp.down_proj", ForwardOnly)
    plant(model, f"{layers}.2.self_attn", ForwardOnly)
    plant(model, f"{layers}.3.mlp", BackwardOnly)
    plant(model, f"{layers}.1.mlp", BackwardOnly)
    found = origins(model_subject(model), 2)
    assert [m.module for m in found.originating("forward")] == [
        f"{layers}.1.mlp.inner.down_proj",
        f"{layers}.2.self_attn",
    ]
    assert [m.module for m in found.originating("backward")] == [
        f"{layers}.3.mlp",
        f"{layers}.1.mlp",
    ]
    assert found.first.module == f"{layers}.1.mlp.inner.down_proj"
    second = found.of(f"{layers}.2.self_attn", "forward")
    assert (second.role, second.role_pinned) == ("passes", "origin")
    plain = found.of(f"{layers}.3.mlp.inner", "forward")
    assert (plain.role, plain.role_pinned, plain.records) == ("passes", "unchanged", ())
    assert plain.relative == 0.0
    assert found.count("forward", "origin") == 2
    assert found.count("forward", "passes", pinned=False) > 20
    assert found.count("forward", "unchanged") == found.n_observed - 2


@pytest.mark.parametrize("family", ["llama", "gpt2", "opt"])
def test_observing_changes_no_bit_and_leaves_no_hook_behind(family):
    model = decoder(3, family=family)
    plant(model, candidates(model)[20], ForwardOnly)
    subject, runs = model_subject(model), []

    def keep(records: Sequence[TokenisedRecord], width: int) -> Any:
        runs.append(subject.evaluate(records, width=width))
        return runs[-1]

    base, (spare, *_) = quiet_records(3)
    other, kept = [spare, *base[1:]], [(i, i) for i in (1, 2, 3)]
    hooks = [(len(m._forward_hooks), len(m._forward_pre_hooks)) for m in model.modules()]
    find_origins(subject, base, other, kept=kept, width=WIDTH, run=keep)
    for watched, records in zip(runs, (base, other), strict=False):
        plain = subject.evaluate(records, width=WIDTH)
        assert watched.gradients.equal(plain.gradients)
        assert watched.logits.equal(plain.logits)
        assert watched.batch_gradient.equal(plain.batch_gradient)
    assert hooks == [(len(m._forward_hooks), len(m._forward_pre_hooks)) for m in model.modules()]


def test_a_loss_that_couples_records_is_outside_the_model():
    base, (spare, *_) = quiet_records(1)
    short = record("short", *spare.tokens[:6])
    subject = model_subject(decoder(1), loss="token_mean")
    kept = [(i, i) for i in (1, 2, 3)]
    found = find_origins(
        subject, base, [short, *base[1:]], kept=kept, width=WIDTH, run=run(subject)
    )
    assert named(found) == [(OUTSIDE, "backward")]
    assert (found.first.module, found.first.phase) == (OUTSIDE, "backward")


@pytest.mark.parametrize(
    ("rig", "name", "phase"),
    [
        (plants.per_tensor(1), "transformer.h.0.mlp.c_fc", "forward"),
        (plants.backward_scale(1), "transformer.h.0.mlp.c_proj", "backward"),
        (plants.stock(0), "transformer.h.0.attn.c_attn.base_layer", "forward"),
    ],
)
def test_known_couplings_are_named(rig, name, phase):
    # the first record holds what decides for the others
    other, kept = [rig.spares[0], *rig.base[1:]], [(i, i) for i in (1, 2, 3)]
    found = find_origins(rig.subject, rig.base, other, kept=kept, width=WIDTH, run=run(rig.subject))
    assert named(found) == [(f"base_model.model.{name}", phase)]


@pytest.mark.parametrize(
    "name", ["bf16", "threshold 0", "nf4", "record-owned, left", "token-owned"]
)
def test_arithmetic_that_keeps_records_apart_has_no_origin(name):
    rig = plants.CONTROLS[name](1)
    other, kept = [rig.spares[0], *rig.base[1:]], [(i, i) for i in (1, 2, 3)]
    found = find_origins(rig.subject, rig.base, other, kept=kept, width=WIDTH, run=run(rig.subject))
    assert found.modules == ()
    assert found.n_observed > 10


# ---------------------------------------------------------------- LLM.int8


def test_stock_int8_layers_whose_unions_differ_are_the_origins():
    model = families.tiny("llama", 5, hidden=64).requires_grad_(False)
    with torch.no_grad():
        model.get_input_embeddings().weight[:, 3] = 0.02
        model.get_input_embeddings().weight[LOUD:, 3] = 60.0
        for layer in model.model.layers:
            layer.input_layernorm.weight[3] = 4.0
    apply_precision(model, STOCK, layers=block_linears(model))
    model = add_lora(model, LoraSpec(rank=2, init_b_std=0.1, seed=5)).eval()
    set_layer_modes(model, STOCK)
    subject = model_subject(model, precision=STOCK)
    base, (quiet, *_) = quiet_records(5)
    loud = record("loud", LOUD, *quiet.tokens[1:])
    pair, kept = ([loud, *base[1:]], [quiet, *base[1:]]), [(i, i) for i in (1, 2, 3)]

    int8 = {name for name, module in model.named_modules() if isinstance(module, Linear8bitLt)}
    unions: list[dict[str, set[int]]] = []
    for records in pair:
        unions.append({})

        def visit(call: Any, spot: Any, tensor: Tensor) -> None:
            if spot.border == "input" and call.key in int8:
                loud_columns = (tensor.abs() >= 6).flatten(0, 1).any(dim=0)
                unions[-1][call.key] = set(loud_columns.nonzero().flatten().tolist())

        with traced_calls(model, visit):
            subject.evaluate(records, width=WIDTH)
    differ = {name for name in unions[0] if unions[0][name] != unions[1][name]}
    found = find_origins(subject, *pair, kept=kept, width=WIDTH, run=run(subject))
    assert 3 <= len(differ) < len(unions[0])
    assert {m.module for m in found.originating("forward")} == differ
    assert found.originating("backward") == ()
    assert found.first.module == next(name for name in found.observed if name in differ)


def test_several_backward_passes_are_refused():
    base, _ = quiet_records(0)
    subject = model_subject(decoder(0, layers=1), engine=LoopGradients())
    with pytest.raises(SubjectError, match="one backward pass an evaluation"):
        find_origins(subject, base, base, kept=[(0, 0)], width=WIDTH, run=run(subject))
