"""What an audit promises of its verdict, and what its result may hold."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from audit.plants import CONTROLS, PLANTS, dropout, own_gradients, stock, token_mean
from audit.rigs import Rig, decoder, model_subject, quiet_records
from insular.audit.isolation.audit import FLOOR_FACTOR
from insular.audit.isolation.results import ArmResult
from insular.audit.subjects.callable_subject import CallableSubject
from insular.errors import InvalidArgumentError, SubjectError
from insular.evidence import decode, encode
from insular.precision.stock import quiet_bitsandbytes

BASE, SPARES = quiet_records(0)


def rig(function, **how) -> Rig:
    return Rig(subject=CallableSubject(function, name="mine"), base=BASE, spares=SPARES, **how)


def own_rows(batch):
    return (batch.input_ids * batch.attention_mask).sum(dim=1, keepdim=True).float().sqrt()


def test_a_difference_at_equal_shape_above_an_identical_repeat_is_coupled():
    shift = 2.0**-22  # the last bit of some

    def gradients(batch):
        return own_rows(batch) + shift * (batch.input_ids.sum() % 7)

    finding = rig(gradients).audit().axis("content")
    assert (finding.verdict, finding.floor) == ("coupled", 0.0)
    assert finding.worst.gradient_relative < 1e-6


def test_a_difference_below_the_floor_of_a_repeat_is_not_a_movement():
    generator = torch.Generator().manual_seed(0)

    def gradients(batch):
        return own_rows(batch) * (1 + 1e-6 * torch.rand(1, 1, generator=generator))

    result = rig(gradients).audit()
    assert 0 < result.axes[0].floor * FLOOR_FACTOR < 1e-4
    assert result.verdict == "isolated"


@pytest.mark.parametrize(("size", "verdict"), [(1e-6, "rounding"), (1e-2, "coupled")])
def test_a_difference_at_another_shape_is_rounding_only_where_it_is_small(size, verdict):
    result = rig(lambda batch: own_rows(batch) * (1 + size * batch.n_records)).audit()
    assert result.axis("shape").verdict == verdict
    assert result.axis("content").verdict == "isolated"


def test_rounding_of_one_record_does_not_excuse_the_rescaling_of_another():
    def gradients(batch):
        rows = own_rows(batch)
        small = rows * 1e-4 * (1 + 1e-5 * batch.n_records)  # unclipped, moves by a rounding
        large = rows * batch.n_records  # all clipped: only its scale moves
        first = torch.tensor([name == "base-0" for name in batch.record_ids])
        return torch.where(first[:, None], small, large)

    finding = rig(gradients, clip_norm=1.0).audit().axis("presence")
    assert finding.worst.gradient_relative < 1e-4
    assert finding.verdict == "coupled"


def test_a_failed_check_gives_undecided_and_is_kept():
    subject = model_subject(decoder(0), expected={"lib::never": 1})
    result = Rig(subject=subject, base=BASE, spares=SPARES).audit()
    assert all(finding.verdict != "coupled" for finding in result.axes)
    assert result.verdict == "undecided"
    assert [check.name for check in result.failed_checks] == ["operators"]
    assert len(result.checks) == 7


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("clip_norm", [1e-6, 1e-2, 1e6])
def test_the_verdict_does_not_depend_on_clipping(seed, clip_norm):
    axes = {a.axis: a.verdict for a in token_mean(seed, clip_norm=1e-4).audit().axes}
    result = token_mean(seed, clip_norm=clip_norm).audit()
    assert {a.axis: a.verdict for a in result.axes} == axes
    assert result.axis("length").verdict == "coupled"


@pytest.fixture(scope="module", params=["union of outlier columns", "float32 gpt2", "function"])
def result(request) -> ArmResult:
    builders = {name: plant.build for name, plant in PLANTS.items()} | CONTROLS
    with quiet_bitsandbytes():
        return builders.get(request.param, own_gradients)(0).audit()


def test_a_result_is_read_back_as_it_was_written(result):
    text = encode(result)
    assert encode(decode(ArmResult, text)) == text
    if not math.isnan(result.mean_loss_nats):
        assert decode(ArmResult, text) == result


def test_a_result_holds_no_tokens(result):
    text = encode(result)
    for one in (*BASE, *SPARES):
        assert ", ".join(map(str, one.tokens[:4])) not in " ".join(text.split())
    assert "tokens" not in text


@pytest.mark.parametrize("build", [dropout, own_gradients])
def test_the_global_generators_are_left_as_they_were(build):
    ready = build(0)
    # not Python's own generator: the tests' shape checker draws from it
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()
    ready.audit()
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]


def test_the_same_audit_twice_gives_the_same_numbers():
    one, two = dropout(0).audit(), dropout(0).audit()
    assert one.cases == two.cases
    assert one.gradient_digests == two.gradient_digests


def test_another_seed_draws_other_masks():
    one, two = dropout(0).audit(), dropout(0).audit(seed=1)
    assert one.gradient_digests != two.gradient_digests


def test_the_counterexample_is_kept_at_equal_shape_first():
    with quiet_bitsandbytes():
        ready = stock(0)
        worst = ready.audit().worst
    assert worst.axis in ("content", "length")
    assert sorted(ready.keep) == [
        "base_clipped",
        "base_gradient",
        "case_clipped",
        "case_gradient",
    ]


def test_a_counterexample_that_clipping_hides_is_kept():
    ready = rig(lambda batch: own_rows(batch) * batch.n_records, clip_norm=1e-3)
    ready.audit()
    assert ready.keep["base_gradient"] != ready.keep["case_gradient"]


def test_nothing_is_kept_where_nothing_moves():
    ready = rig(own_rows)
    assert ready.audit().verdict == "isolated"
    assert ready.keep == {}


def test_a_subject_that_breaks_the_protocol_stops_the_audit():
    with pytest.raises(SubjectError, match="one row per record"):
        rig(lambda batch: torch.ones(1, 1)).audit()


def test_one_record_is_refused():
    with pytest.raises(InvalidArgumentError, match="at least 2 records, got 1"):
        replace(rig(own_rows), base=BASE[:1]).audit()
