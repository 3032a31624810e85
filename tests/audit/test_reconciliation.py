"""The second computation: right numbers agree, a planted wrong one is named, zeros are no error."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from insular.audit.audit_results import AuditResult
from insular.audit.reconciliation import TOLERANCE, reconcile
from insular.audit.sensitivity.results import GrowthPoint
from insular.audit.sensitivity.saved_gradients import pack_rows
from insular.evidence import ArrayRef
from recipes.samples import WHOLE

REF = ArrayRef(file="arrays/growth.safetensors", sha256="0" * 64, arrays=())
BASELINE = ArrayRef(file="arrays/baseline.safetensors", sha256="1" * 64, arrays=())


def with_growth(ratio: float) -> AuditResult:
    """A result whose only saved distance is one point of the growth curve."""
    assert WHOLE.sensitivity is not None
    screen = replace(
        WHOLE.sensitivity.screen, clip_norm=1.0, candidates=(), baseline_gradients=BASELINE
    )
    point = GrowthPoint(n_baseline=2, ratio=ratio, n_altered=1, gradients=REF)
    sensitivity = replace(WHOLE.sensitivity, screen=screen, arms=(), growth=(point,))
    subject = replace(WHOLE.subject, counterexample=None)
    return replace(WHOLE, subject=subject, repairs=(), sensitivity=sensitivity, localisation=None)


def again(ratio: float, base: np.ndarray, other: np.ndarray):
    arrays = pack_rows({"base": base.astype(np.float32), "with": other.astype(np.float32)})
    whole = pack_rows({"base": np.ones((1, 1), np.float32)})
    return reconcile(
        with_growth(ratio), lambda ref: arrays if ref is REF else whole, stabiliser=0.0
    )


def test_a_right_distance_agrees():
    # two records that turn round, and a third: 5 C
    found = again(5.0, np.array([[0, 3.0], [0, 2.0]]), np.array([[0, -3.0], [0, -2.0], [0, -1.0]]))
    assert found.agrees and found.n_distances == 1


@given(error=st.floats(1e-7, 1e3))
def test_a_wrong_distance_is_named(error: float):
    found = again(
        5.0 + error, np.array([[0, 3.0], [0, 2.0]]), np.array([[0, -3.0], [0, -2.0], [0, -1.0]])
    )
    assert found.mismatches == ("growth, 2",)
    assert found.largest_difference > TOLERANCE


def test_gradients_of_zeros_contribute_nothing():
    found = again(1.0, np.zeros((2, 2)), np.array([[0.0, 0], [0, 0], [0, 9.0]]))
    assert found.agrees and found.largest_difference == pytest.approx(0)
