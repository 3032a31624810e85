"""Checks without which a measurement does not count. A failed one is kept and reported."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from insular.audit.isolation.measure import clipped_reference, same_values
from insular.audit.isolation.results import Check
from insular.audit.subjects.subject import Evaluation, SubjectFacts

AUTOGRAD_TOLERANCE = 1e-5
"""Largest relative L2 difference from independent autograd: float32 sums in another order."""
REPEAT_TOLERANCE = 1e-4
"""Largest relative L2 distance of an identical repeat that still leaves something to measure."""
CLIP_TOLERANCE = 1e-6
"""Largest distance from the declared clipping formula, in units of the clip norm."""


def check_finite(evaluation: Evaluation, ids: Sequence[str]) -> Check:
    """Every gradient of the base batch is finite.

    Args:
        evaluation: The base batch.
        ids: Its record ids.

    Returns:
        The check, naming the records that fail it.
    """
    good = evaluation.gradients.isfinite().all(dim=1).tolist()
    bad = [name for name, fine in zip(ids, good, strict=True) if not fine]
    return Check(
        name="finite gradients",
        passed=not bad,
        detail=(
            f"NaN or inf in the gradient of {', '.join(bad)}; look at that record's loss, or drop"
            " the record."
            if bad
            else f"all {len(good)} gradients are finite."
        ),
    )


def check_repeat(base: Evaluation, repeat: Evaluation) -> tuple[Check, float]:
    """An identical batch gives identical gradients.

    Args:
        base: The base batch.
        repeat: The same batch again, after the same seed.

    Returns:
        The check, and the largest relative distance, which is the measurement floor.
    """
    if same_values(base.gradients, repeat.gradients):
        return Check(name="identical repeat", passed=True, detail="distance exactly 0."), 0.0
    change = (base.gradients.double() - repeat.gradients.double()).norm(dim=1)
    floor = float((change / base.gradients.double().norm(dim=1).clamp(min=1e-300)).max())
    floor = floor if floor == floor else float("inf")
    return (
        Check(
            name="identical repeat",
            passed=floor <= REPEAT_TOLERANCE,
            detail=f"relative distance {floor:.2e}, at most {REPEAT_TOLERANCE:.0e} allowed;"
            " fix seeds and kernels if it is larger.",
        ),
        floor,
    )


def reference_weights(n_records: int, *, seed: int) -> Tensor:
    """Combinations of the records' losses that are differentiated independently.

    The first row is the plain sum, the second the first record alone, the others random signs
    times 1/2, 1 or 2. Powers of two pass through a low-precision backward without rounding, so a
    right engine agrees there too; and no record has weight 0, so a wrong one shows.

    Args:
        n_records: Number of records.
        seed: Seed of the random rows.

    Returns:
        Weights ``[combination, record]`` in float32.
    """
    generator = torch.Generator().manual_seed(seed)
    return torch.cat(
        [
            torch.ones(1, n_records),
            torch.eye(n_records)[:1],
            2.0 ** torch.randint(-1, 2, (2, n_records), generator=generator)
            * (1 - 2 * torch.randint(0, 2, (2, n_records), generator=generator)),
        ]
    )


def check_autograd(evaluation: Evaluation, weights: Tensor, reference: Tensor | None) -> Check:
    """Per-record gradients agree with independent autograd of the same realised batch.

    Args:
        evaluation: The base batch.
        weights: Combinations of the records' losses, ``[combination, record]``.
        reference: Gradient of each combination ``[combination, param]``, or None.

    Returns:
        The check.
    """
    if reference is None:
        return Check(
            name="independent autograd",
            passed=True,
            detail="not applicable: a callable cannot be differentiated from outside.",
        )
    ours = weights.to(evaluation.gradients).double() @ evaluation.gradients.double()
    theirs = reference.double()
    if ours.shape != theirs.shape:
        return Check(
            name="independent autograd",
            passed=False,
            detail=f"{ours.shape[1]} coordinates against {theirs.shape[1]} by autograd.",
        )
    error = float(((ours - theirs).norm(dim=1) / theirs.norm(dim=1).clamp(min=1e-300)).max())
    return Check(
        name="independent autograd",
        passed=error <= AUTOGRAD_TOLERANCE,
        detail=f"largest relative difference {error:.1e} over {len(ours)} combinations of the"
        f" records' losses, at most {AUTOGRAD_TOLERANCE:.0e} allowed.",
    )


def check_sum(evaluation: Evaluation) -> Check:
    """Per-record gradients sum to what the batch's own backward left.

    Args:
        evaluation: The base batch.

    Returns:
        The check.
    """
    if evaluation.batch_gradient is None:
        return Check(
            name="sum of gradients", passed=True, detail="not applicable: no batch gradient shown."
        )
    total = evaluation.gradients.double().sum(dim=0)
    batch = evaluation.batch_gradient.double()
    error = float((total - batch).norm() / batch.norm().clamp(min=1e-300))
    return Check(
        name="sum of gradients",
        passed=error <= AUTOGRAD_TOLERANCE,
        detail=f"differs from the batch's backward by {error:.1e}, at most"
        f" {AUTOGRAD_TOLERANCE:.0e} allowed.",
    )


def check_coverage(evaluation: Evaluation, facts: SubjectFacts) -> Check:
    """Each trainable coordinate stands in the gradient, and something is learnt.

    Args:
        evaluation: The base batch.
        facts: Names and sizes of the trainable tensors.

    Returns:
        The check.
    """
    expected = sum(size for _, size in facts.trainable)
    found = evaluation.gradients.shape[1]
    alive = bool((evaluation.gradients != 0).any())
    quiet = len(untouched(evaluation, facts))
    return Check(
        name="coverage",
        passed=alive and (expected == found or not facts.trainable),
        detail=f"{found} of {expected or found} trainable coordinates; {quiet} of"
        f" {len(facts.trainable)} tensors have gradient 0 (LoRA's A at B = 0 has)."
        if alive
        else "every gradient is exactly 0: nothing would be learnt while the budget is spent.",
    )


def untouched(evaluation: Evaluation, facts: SubjectFacts) -> tuple[str, ...]:
    """Trainable tensors whose gradient is 0 for every record.

    Args:
        evaluation: The base batch.
        facts: Names and sizes of the trainable tensors.

    Returns:
        Their names.
    """
    if sum(size for _, size in facts.trainable) != evaluation.gradients.shape[1]:
        return ()
    pieces = evaluation.gradients.split([size for _, size in facts.trainable], dim=1)
    return tuple(
        name
        for (name, _), piece in zip(facts.trainable, pieces, strict=True)
        if not bool((piece != 0).any())
    )


def check_operators(seen: Mapping[str, int], facts: SubjectFacts, *, n_forwards: int = 1) -> Check:
    """The operators that the stack claims are the ones that ran.

    Args:
        seen: Operators that the dispatcher saw, with their number of calls.
        facts: Which operators the stack must run in one physical batch, and how often.
        n_forwards: Physical batches that ran.

    Returns:
        The check.
    """
    if not facts.expected_operators:
        return Check(name="operators", passed=True, detail="not applicable: none were claimed.")
    wanted = {name: count * n_forwards for name, count in facts.expected_operators.items()}
    wrong = [
        f"{name} ran {seen.get(name, 0)} times instead of {count}"
        for name, count in wanted.items()
        if seen.get(name, 0) != count
    ]
    listed = ", ".join(f"{name} x {count}" for name, count in wanted.items())
    return Check(
        name="operators",
        passed=not wrong,
        detail="; ".join(wrong) + "; the path is not the one that was named."
        if wrong
        else f"as claimed: {listed}.",
    )


def check_clipping(
    gradients: Tensor, clipped: Tensor, *, clip_norm: float, stabiliser: float
) -> Check:
    """The stack's clipping equals its declared formula.

    Args:
        gradients: One row per record.
        clipped: What the stack made of them.
        clip_norm: Bound C.
        stabiliser: Added to each norm.

    Returns:
        The check.
    """
    formula = clipped_reference(gradients, clip_norm=clip_norm, stabiliser=stabiliser)
    error = float((clipped.double() - formula).norm(dim=1).max()) / clip_norm
    return Check(
        name="clipping",
        passed=error <= CLIP_TOLERANCE,
        detail=f"differs from g min(1, C / (|g| + {stabiliser:g})) by {error:.1e} C, at most"
        f" {CLIP_TOLERANCE:.0e} allowed.",
    )
