"""The frozen pair: a planted excess is validated; a clean stack and a noisy one do not exceed."""

import pytest
import torch

from audit.plants import stock
from audit.rigs import loud_records, quiet_records
from audit.sensitivity.test_screen import BASELINE, QUIET, SPEC, TURNING, WIDTH, own, turned
from insular.audit.sensitivity.pair import validate_pair
from insular.audit.spec import SensitivitySpec
from insular.audit.subjects.callable_subject import CallableSubject
from insular.precision.stock import quiet_bitsandbytes


def validated(subject, candidate=TURNING, *, baseline=BASELINE, width=WIDTH, spec=SPEC, keep=None):
    return validate_pair(
        subject,
        baseline,
        candidate,
        width=width,
        spec=spec,
        keep=keep or (lambda name, arrays: None),
        progress=lambda line: None,
    )


def test_a_planted_excess_exceeds_at_both_radii():
    arm = validated(CallableSubject(turned, name="mine"))
    assert arm.valid and arm.exceeds
    assert [at.radius for at in arm.radii] == pytest.approx([0.1, 0.01])
    assert [at.ratio for at in arm.radii] == pytest.approx([7, 7])
    assert [at.n_clipped for at in arm.radii] == [4, 4]
    assert all(at.repeat_ratio == 0 and at.margin == 1e-4 for at in arm.radii)
    assert arm.n_altered == 3


def test_a_clean_stack_does_not_exceed():
    arm = validated(CallableSubject(own, name="mine"), QUIET)
    assert arm.valid and not arm.exceeds
    assert arm.n_altered == 0 and arm.largest_change == 0
    assert all(at.ratio == pytest.approx(1, abs=1e-12) for at in arm.radii)


def test_exceeds_is_true_only_above_ten_times_an_identical_repeat():
    calls = iter(range(100))

    def drifting(batch):
        return own(batch) + 1e-7 * next(calls)  # a little further at each evaluation

    arm = validated(CallableSubject(drifting, name="mine"), QUIET)
    assert any(at.ratio > 1 + 1e-12 for at in arm.radii)
    assert all(at.repeat_ratio > 0 for at in arm.radii)
    assert not arm.exceeds


def test_a_failed_check_is_kept_and_nothing_exceeds():
    calls = iter(range(100))

    def unstable(batch):
        return turned(batch) * (1 + 0.5 * next(calls))

    arm = validated(CallableSubject(unstable, name="mine"))
    assert {check.name for check in arm.checks if not check.passed} == {
        "identical repeat",
        "identical repeat, with the candidate",
    }
    assert not arm.valid and not arm.exceeds


def test_the_stock_stack_is_validated_with_every_check():
    rig = stock(8)
    baseline, _ = quiet_records(8)
    loud, _ = loud_records(8)
    kept = {}
    with quiet_bitsandbytes():
        arm = validated(
            rig.subject,
            loud[0],
            baseline=baseline[1:],
            width=12,
            spec=SensitivitySpec(clip_norm=0.01),
            keep=kept.__setitem__,
        )
    assert [check.name for check in arm.checks if not check.passed] == []
    assert len(arm.checks) == 7
    assert arm.exceeds and arm.n_altered == 3
    assert len(arm.digests) == 3 + 4
    assert set(kept[rig.subject.name]) == {"base", "with", "ranges", "n_params"}


def test_the_two_radii_and_the_margin_are_fixed_beforehand():
    assert SensitivitySpec(clip_norm=2.0).validation_radii == (2.0, 0.2)
    assert torch.tensor(SensitivitySpec(clip_norm=2.0).radii).diff().min() > 0
