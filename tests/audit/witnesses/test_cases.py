"""The constructed witnesses come out as published, and every control keeps the bound."""

import importlib.util
from dataclasses import replace

import pytest
import torch

from insular.audit.witnesses.cases import run_witnesses
from insular.audit.witnesses.results import WitnessCase, WitnessResult
from insular.errors import InvalidArgumentError

C_FLOAT32 = 0.004999999888241291
STOCK = "bitsandbytes int8"
OURS = "insular int8, batched rule"
CONTROLS = (
    f"{STOCK}, training mode",
    f"{STOCK}, one record a forward",
    f"{STOCK}, threshold 0",
    "bfloat16",
    "bitsandbytes nf4",
    "insular int8, record rule",
    "insular int8, token rule",
    "insular int8, calibrated rule",
    "insular int8, none rule",
)


@pytest.fixture(scope="module")
def result() -> WitnessResult:
    return run_witnesses()


def find(result: WitnessResult, witness: str, arm: str, relation: str) -> WitnessCase:
    (case,) = (
        c for c in result.cases if (c.witness, c.arm, c.relation) == (witness, arm, relation)
    )
    return case


def test_operator_outputs_and_gradients_are_the_published_ones(result):
    assert result.operator_outputs == (1.220703125, 1.234375)
    assert result.operator_gradients == (-0.0068359375, 0.0068359375)


@pytest.mark.parametrize("arm", [STOCK, OURS])
def test_operator_witness_is_exactly_seven_times_the_bound(result, arm):
    case = find(result, "operator", arm, "replace")
    assert case.clip_norm == C_FLOAT32
    assert case.distance == 14 * C_FLOAT32 == 0.06999999843537807
    assert case.ratio == 7.0
    assert not case.within_bound


@pytest.mark.parametrize("arm", [STOCK, OURS])
def test_lora_witness_reaches_the_published_distances(result, arm):
    added = find(result, "lora", arm, "add/remove")
    replaced = find(result, "lora", arm, "replace")
    assert added.distance == pytest.approx(0.07499169931, abs=1e-8)
    assert replaced.distance == pytest.approx(0.06999170035, abs=1e-8)
    assert added.ratio == pytest.approx(14.998, abs=0.002)
    assert replaced.ratio == pytest.approx(6.999, abs=0.002)


@pytest.mark.parametrize("arm", CONTROLS)
@pytest.mark.parametrize("witness", ["operator", "lora"])
def test_control_does_not_move_when_a_record_is_replaced(result, witness, arm):
    case = find(result, witness, arm, "replace")
    assert case.expected_ratio is None
    assert case.distance == 0.0
    assert case.within_bound


@pytest.mark.parametrize("arm", CONTROLS)
def test_control_moves_by_the_added_records_own_contribution(result, arm):
    case = find(result, "lora", arm, "add/remove")
    assert case.distance == pytest.approx(0.99999979 * 0.005, abs=1e-9)
    assert case.within_bound


@pytest.mark.parametrize("witness", ["operator", "lora"])
@pytest.mark.parametrize("arm", [STOCK, OURS])
def test_identical_repeat_has_distance_zero(result, witness, arm):
    assert find(result, witness, f"{arm}, identical repeat", "replace").distance == 0.0


def test_the_operators_that_ran_are_named(result):
    union = find(result, "operator", STOCK, "replace")
    assert union.mode == "eval"
    assert union.operators["bitsandbytes::int8_mixed_scaled_mm"] == 2
    plain = find(result, "operator", f"{STOCK}, training mode", "replace")
    assert plain.mode == "train"
    assert not any(name.startswith("bitsandbytes::int8") for name in plain.operators)
    alone = find(result, "operator", f"{STOCK}, one record a forward", "replace")
    assert alone.operators["bitsandbytes::int8_mixed_scaled_mm"] == 16


def test_opacus_gradients_are_compared_with_autograd(result):
    errors = [case.gradient_error for case in result.cases if case.witness == "lora"]
    assert result.engine == "opacus"
    assert all(error is not None and error <= 1e-6 for error in errors)
    assert result.gradients_agree


def test_result_says_what_ran_and_exits_zero(result):
    assert (result.device, result.device_name) == ("cpu", "cpu")
    assert result.versions["torch"] == torch.__version__
    assert result.coupled_as_published
    assert result.controls_hold
    assert result.exit_code == 0


def test_without_opacus_a_loop_gives_the_same_and_says_so(monkeypatch, result):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    looped = run_witnesses()
    assert looped.engine == "autograd loop with Opacus' clipping formula"
    assert looped.exit_code == 0
    for ours, theirs in zip(looped.cases, result.cases, strict=True):
        assert ours.distance == pytest.approx(theirs.distance, abs=1e-8)
        assert ours.operators == theirs.operators
        assert ours.gradient_error is None


def test_an_instrument_that_misses_the_coupling_exits_one(result):
    blind = tuple(replace(case, distance=0.0) for case in result.cases)
    missed = replace(result, cases=blind)
    assert not missed.coupled_as_published
    assert missed.exit_code == 1


def test_a_control_that_exceeds_its_bound_exits_one(result):
    leaky = tuple(
        replace(case, distance=2.0003 * case.clip_norm) if case.expected_ratio is None else case
        for case in result.cases
    )
    broken = replace(result, cases=leaky)
    assert broken.coupled_as_published
    assert not broken.controls_hold
    assert broken.exit_code == 1


def test_gradients_that_autograd_contradicts_exit_one(result):
    wrong = tuple(
        replace(case, gradient_error=1e-3) if case.gradient_error is not None else case
        for case in result.cases
    )
    assert replace(result, cases=wrong).exit_code == 1


@pytest.mark.parametrize("device", ["cuda:99", "meta", "no-such-device"])
def test_absent_device_is_refused(device):
    with pytest.raises(InvalidArgumentError, match=f"device must be cpu .* got device='{device}'"):
        run_witnesses(device=device)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_witnesses_on_cuda_couple_in_both_modes():
    found = run_witnesses(device="cuda")
    assert found.operator_outputs == (1.220703125, 1.234375)
    for arm in (STOCK, f"{STOCK}, training mode"):
        assert find(found, "operator", arm, "replace").ratio == 7.0
    assert found.exit_code == 0
