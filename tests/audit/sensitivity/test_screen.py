"""A screen whose truth is known: one loud record turns the others' gradients round."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from audit.rigs import LOUD, record
from insular.audit.sensitivity.saved_gradients import unpack_rows
from insular.audit.sensitivity.screen import measure_growth, screen_candidates
from insular.audit.spec import RADII_OVER_CLIP_NORM, SensitivitySpec
from insular.audit.subjects.callable_subject import CallableSubject
from insular.errors import InvalidArgumentError

WIDTH = 4
CLIP_NORM = 0.1
SPEC = SensitivitySpec(clip_norm=CLIP_NORM)
BASELINE = tuple(record(f"base-{i}", 3 + i, 4, 5) for i in range(3))
QUIET = record("quiet", 9, 9, 9)
TURNING = record("turning", 9, LOUD, 9)


def turned(batch) -> Tensor:
    """Gradient (0, 1, 0) for everyone, and (0, -1, 0) once a loud record is there."""
    sign = torch.ones(len(batch.input_ids))
    if bool((batch.input_ids >= LOUD).any()):
        sign = -sign
    return torch.stack([torch.zeros_like(sign), sign, torch.zeros_like(sign)], dim=1)


def own(batch) -> Tensor:
    """A gradient that depends on the record alone, a tenth of its first token long."""
    return torch.nn.functional.one_hot(batch.input_ids[:, 1], 64).float() * (
        batch.input_ids[:, :1] / 10.0
    )


def screened(function, *candidates, keep=lambda name, arrays: None):
    return screen_candidates(
        CallableSubject(function, name="mine"),
        BASELINE,
        candidates,
        width=WIDTH,
        spec=SPEC,
        keep=keep,
        progress=lambda line: None,
    )


def test_a_record_that_turns_all_others_attains_the_influence_bound():
    part = screened(turned, TURNING, QUIET)
    turning, quiet = part.candidates
    own_radius = SPEC.radii.index(CLIP_NORM)
    assert turning.ratios[own_radius] == pytest.approx(2 * 3 + 1, rel=1e-12)
    assert (turning.n_altered, turning.largest_change) == (3, pytest.approx(2.0))
    assert quiet.ratios[own_radius] == pytest.approx(1.0)
    assert (quiet.n_altered, quiet.largest_change) == (0, 0.0)
    assert part.repeat_ratio == 0


def test_a_radius_above_every_norm_hides_the_coupling():
    (turning,) = screened(turned, TURNING).candidates
    for factor, ratio in zip(RADII_OVER_CLIP_NORM, turning.ratios, strict=True):
        radius = factor * CLIP_NORM
        assert ratio == pytest.approx(7 * min(1.0, 1.0 / radius))
    assert turning.ratios[-1] < 1 < turning.ratios[0]


def test_the_ratio_of_a_subject_in_which_nothing_moves_is_the_candidates_clipped_norm_over_c():
    (candidate,) = screened(own, QUIET).candidates
    assert candidate.norm == pytest.approx(0.9)
    for radius, ratio in zip(SPEC.radii, candidate.ratios, strict=True):
        assert ratio == pytest.approx(min(radius, 0.9) / radius)


def test_every_candidate_is_in_the_result_one_that_failed_with_its_problem():
    def broken(batch) -> Tensor:
        rows = turned(batch)
        rows[batch.input_ids[:, 0] == 13] = math.nan
        return rows

    part = screened(broken, record("bad", 13, 1, 2), QUIET)
    bad, good = part.candidates
    assert (bad.record, bad.valid, bad.problem) == ("bad", False, "a gradient has NaN or inf.")
    assert good.valid


def test_a_baseline_that_is_not_finite_gives_no_candidates():
    part = screened(lambda batch: turned(batch) * math.nan, QUIET)
    assert part.candidates == ()
    assert part.problem.startswith("a gradient of the baseline batch has NaN or inf")


def test_a_screen_without_candidates_is_refused():
    with pytest.raises(InvalidArgumentError, match="1 candidate, got 3 and 0"):
        screened(turned)


def test_the_gradients_of_every_batch_are_kept():
    kept: dict[str, dict[str, np.ndarray]] = {}
    screened(turned, TURNING, QUIET, keep=kept.__setitem__)
    assert set(kept) == {"baseline", "turning", "quiet"}
    assert unpack_rows(kept["turning"], "with").tolist() == [[0, -1, 0]] * 4
    assert kept["turning"]["with"].shape == (4, 1)  # coordinates that nothing touches are left out


def test_the_ratio_grows_with_the_baseline():
    points = measure_growth(
        CallableSubject(turned, name="mine"),
        BASELINE,
        TURNING,
        sizes=(1, 2, 3),
        width=WIDTH,
        spec=SPEC,
        keep=lambda name, arrays: None,
        progress=lambda line: None,
    )
    assert [p.n_baseline for p in points] == [1, 2, 3]
    assert [p.ratio for p in points] == pytest.approx([3, 5, 7])
    assert [p.influence_bound for p in points] == [3, 5, 7]
