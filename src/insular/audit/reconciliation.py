"""Every reported distance a second time: float64, NumPy, from the saved arrays alone.

It shares no code with what measured: one record after another, one radius after another, by the
formulas as they are written down.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import final

import numpy as np

from insular.audit.audit_results import AuditResult
from insular.audit.isolation.results import ArmResult
from insular.audit.reconciliation_results import Reconciliation
from insular.audit.sensitivity.results import SensitivityResult
from insular.audit.sensitivity.saved_gradients import unpack_rows
from insular.evidence import ArrayRef

TOLERANCE = 1e-9
"""Largest difference: both sides are float64, and only the order of their sums differs."""

Read = Callable[[ArrayRef], Mapping[str, np.ndarray]]


@final
@dataclass(frozen=True, kw_only=True)
class _Distance:
    """One reported number and the same from the arrays; None where they were not kept."""

    name: str
    reported: float
    again: float | None


def reconcile(result: AuditResult, read: Read, *, stabiliser: float) -> Reconciliation:
    """Compute every distance again that has saved gradients.

    Args:
        result: An audit.
        read: Reads the arrays of a reference.
        stabiliser: What the stack's clipping adds to each norm.

    Returns:
        How many agree, and the names of those that do not.
    """
    arms = (result.subject, *result.repairs)
    found = [d for arm in arms for d in _counterexample(arm, read)]
    if result.sensitivity is not None:
        found += _screen(result.sensitivity, read, stabiliser)
        found += _validation(result.sensitivity, read, stabiliser)
        found += _growth(result.sensitivity, read, stabiliser)
    if result.localisation is not None and result.sensitivity is not None:
        found += _interventions(result, read, stabiliser)
    pairs = [(d, _difference(d.reported, d.again)) for d in found if d.again is not None]
    return Reconciliation(
        n_distances=len(pairs),
        n_unsaved=len(found) - len(pairs),
        largest_difference=max((difference for _, difference in pairs), default=0.0),
        tolerance=TOLERANCE,
        mismatches=tuple(d.name for d, difference in pairs if not difference <= TOLERANCE),
    )


def _counterexample(arm: ArmResult, read: Read) -> Iterator[_Distance]:
    """The two distances of the record that moved furthest."""
    kept = arm.counterexample
    if kept is None:
        return
    case = next(case for case in arm.cases if case.name == kept.case)
    moved = next(i for i in case.influences if i.record == kept.record)
    name = f"{arm.arm}, {kept.case}, {kept.record}"
    if kept.gradients is None:
        yield _Distance(name=f"{name}, gradient", reported=moved.gradient_relative, again=None)
        yield _Distance(name=f"{name}, clipped", reported=moved.clipped_distance, again=None)
        return
    arrays = read(kept.gradients)
    base, other = _row(arrays["base_gradient"]), _row(arrays["case_gradient"])
    change = _norm(base - other)
    relative = change / _norm(base) if change else 0.0
    clipped = _norm(_row(arrays["base_clipped"]) - _row(arrays["case_clipped"]))
    yield _Distance(name=f"{name}, gradient", reported=moved.gradient_relative, again=relative)
    yield _Distance(
        name=f"{name}, clipped",
        reported=moved.clipped_distance,
        again=clipped / arm.manifest.clip_norm,
    )


def _screen(result: SensitivityResult, read: Read, stabiliser: float) -> Iterator[_Distance]:
    """Every candidate at every radius."""
    screen = result.screen
    assert screen.baseline_gradients is not None  # kept whatever else is
    base = _matrix(read(screen.baseline_gradients), "base")
    base_sums = [_clipped_sum(base, radius, stabiliser) for radius in screen.radii]
    for attempt in screen.candidates:
        other = None if attempt.gradients is None else _matrix(read(attempt.gradients), "with")
        for radius, base_sum, ratio in zip(screen.radii, base_sums, attempt.ratios, strict=True):
            again = None
            if other is not None and attempt.valid:
                again = _norm(_clipped_sum(other, radius, stabiliser) - base_sum) / radius
            name = f"screen, {attempt.record}, radius {radius:g}"
            if attempt.valid:
                yield _Distance(name=name, reported=ratio, again=again)
        if other is not None and attempt.valid:
            yield _Distance(
                name=f"screen, {attempt.record}, norm",
                reported=attempt.norm,
                again=_norm(other[-1]),
            )


def _validation(result: SensitivityResult, read: Read, stabiliser: float) -> Iterator[_Distance]:
    """The frozen pair in every arm, at both radii."""
    for arm in result.arms:
        for at in arm.radii:
            again = None
            if arm.gradients is not None:
                again = _pair_ratio(read(arm.gradients), at.radius, stabiliser)
            name = f"validation, {arm.stack}, radius {at.radius:g}"
            yield _Distance(name=name, reported=at.ratio, again=again)


def _growth(result: SensitivityResult, read: Read, stabiliser: float) -> Iterator[_Distance]:
    """The selected candidate on baselines of several sizes."""
    for point in result.growth:
        again = None
        if point.gradients is not None:
            again = _pair_ratio(read(point.gradients), result.screen.clip_norm, stabiliser)
        yield _Distance(name=f"growth, {point.n_baseline}", reported=point.ratio, again=again)


def _interventions(result: AuditResult, read: Read, stabiliser: float) -> Iterator[_Distance]:
    """The frozen pair under every intervention."""
    assert result.localisation is not None
    if result.localisation.interventions is None:
        return
    for step in result.localisation.interventions.steps:
        if not step.valid:
            continue
        again = None
        if step.gradients is not None:
            again = _pair_ratio(read(step.gradients), result.clip_norm, stabiliser)
        yield _Distance(name=f"intervention, {step.name}", reported=step.ratio, again=again)


def _pair_ratio(arrays: Mapping[str, np.ndarray], radius: float, stabiliser: float) -> float:
    """Distance of the clipped sums of a saved pair of batches, over the radius."""
    base, other = _matrix(arrays, "base"), _matrix(arrays, "with")
    moved = _clipped_sum(other, radius, stabiliser) - _clipped_sum(base, radius, stabiliser)
    return _norm(moved) / radius


def _clipped_sum(gradients: np.ndarray, radius: float, stabiliser: float) -> np.ndarray:
    """Sum of g min(1, C / (|g| + e)), one record after another."""
    total = np.zeros(gradients.shape[1])
    for gradient in gradients:
        norm = _norm(gradient)
        if norm:  # a gradient of zeros contributes nothing
            total += gradient * min(1.0, radius / (norm + stabiliser))
    return total


def _matrix(arrays: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    """Saved gradients in float64, with every coordinate."""
    return unpack_rows(arrays, name).astype(np.float64)


def _row(array: np.ndarray) -> np.ndarray:
    """One saved gradient in float64."""
    return array.astype(np.float64)


def _norm(vector: np.ndarray) -> float:
    """L2 norm, by sums of squares that numpy adds in pairs."""
    return math.sqrt(float(np.sum(vector * vector)))


def _difference(reported: float, again: float) -> float:
    """How far apart two numbers are: absolute up to 1, relative above it."""
    if reported == again or not (math.isfinite(reported) or math.isfinite(again)):
        return 0.0
    return abs(reported - again) / max(1.0, abs(reported))
