"""Distances between two runs of the same records."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from insular.audit.isolation.cases import Case
from insular.audit.isolation.results import Influence
from insular.audit.subjects.subject import Evaluation, Subject


def clipped_reference(
    gradients: Float[Tensor, "record param"], *, clip_norm: float, stabiliser: float
) -> Float[Tensor, "record param"]:
    r"""The declared clipping formula, by itself, in float64.

    :math:`h_i = g_i \min(1, C / (\lVert g_i \rVert + e))`; a row with NaN or inf becomes 0.

    Args:
        gradients: One row per record.
        clip_norm: Bound C.
        stabiliser: e.

    Returns:
        Clipped gradients in float64.
    """
    wide = gradients.double()
    norms = wide.square().sum(dim=1).sqrt()
    factor = (clip_norm / (norms + stabiliser)).clamp(max=1.0).unsqueeze(1)
    return torch.where(norms.isfinite().unsqueeze(1), wide * factor, 0.0)


def clipped_by(
    subject: Subject, gradients: Tensor, *, clip_norm: float, stabiliser: float
) -> Tensor:
    """Clip as the stack does, or by the declared formula where it leaves that to the audit.

    Args:
        subject: The stack.
        gradients: One row per record.
        clip_norm: Bound C of the formula.
        stabiliser: What the formula adds to each norm.

    Returns:
        Clipped gradients.
    """
    clipped = subject.clip(gradients)
    if clipped is not None:
        return clipped
    return clipped_reference(gradients, clip_norm=clip_norm, stabiliser=stabiliser)


def same_values(one: Tensor, two: Tensor) -> bool:
    """Whether two tensors hold the same numbers, a NaN counting as equal to a NaN.

    Args:
        one: A tensor.
        two: Another.

    Returns:
        False also where the shapes differ.
    """
    if one.shape != two.shape:
        return False
    return torch.equal(one, two) or bool(((one == two) | (one.isnan() & two.isnan())).all())


def influences(
    case: Case,
    *,
    base_ids: Sequence[str],
    base: Evaluation,
    base_clipped: Tensor,
    other: Evaluation,
    other_clipped: Tensor,
    clip_norm: float,
) -> tuple[Influence, ...]:
    """How far each kept record moved between the base batch and a case.

    Args:
        case: Which records stayed, and where.
        base_ids: Record ids of the base batch.
        base: Its evaluation.
        base_clipped: Its clipped gradients.
        other: The case's evaluation.
        other_clipped: The case's clipped gradients.
        clip_norm: Unit of the clipped distances.

    Returns:
        One entry per kept record, in the order of the base batch.
    """
    return tuple(
        Influence(
            record=base_ids[before],
            forward_max_abs=(forward := _forward_change(base, other, before, after)),
            gradient_relative=_relative(base.gradients[before], other.gradients[after]),
            clipped_distance=_distance(base_clipped[before], other_clipped[after]) / clip_norm,
            bitwise_equal=not forward
            and same_values(base.gradients[before], other.gradients[after])
            and same_values(base_clipped[before], other_clipped[after]),
        )
        for before, after in case.kept
    )


def sum_ratio(
    case: Case, *, base_clipped: Tensor, other_clipped: Tensor, clip_norm: float
) -> float | None:
    """Distance of the two clipped sums over the separable bound, in float64.

    Args:
        case: The pair; it has no bound where it is no pair of neighbours.
        base_clipped: Clipped gradients of the base batch.
        other_clipped: Clipped gradients of the case.
        clip_norm: Bound C.

    Returns:
        The ratio, or None where the batches are not neighbours.
    """
    if case.bound is None:
        return None
    return _distance(_sum(base_clipped), _sum(other_clipped)) / (case.bound * clip_norm)


def _sum(clipped: Tensor) -> Tensor:
    """The sum over records, in float64."""
    return clipped.double().sum(dim=0)


def _distance(one: Tensor, two: Tensor) -> float:
    """L2 distance in float64; infinite where one side is not finite and the other differs."""
    if same_values(one, two):
        return 0.0
    distance = float((one.double() - two.double()).norm())
    return distance if distance == distance else float("inf")


def _relative(base: Tensor, other: Tensor) -> float:
    """L2 change over the base norm; infinite where the base is 0 or either is not finite."""
    distance = _distance(base, other)
    norm = float(base.double().norm())
    if distance == 0:
        return 0.0
    return distance / norm if 0 < norm < float("inf") else float("inf")


def _forward_change(base: Evaluation, other: Evaluation, before: int, after: int) -> float | None:
    """Largest change of a logit at the record's real positions."""
    if base.logits is None or other.logits is None or base.mask is None or other.mask is None:
        return None
    one = base.logits[before][base.mask[before]]
    two = other.logits[after][other.mask[after]]
    if same_values(one, two):
        return 0.0
    change = float((one - two).abs().max())
    return change if change == change else float("inf")
