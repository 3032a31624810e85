"""How far one added record moves the clipped sum: a screen of candidates, and its growth.

Algorithm 2 of the sensitivity audit: run a baseline batch and each addition to it, save every
record's gradient, and clip the saved gradients at several radii. At a radius above most gradients'
norms the added record contributes less than C and hides what it does to the others; once every
gradient is clipped, the ratio no longer depends on the radius.
"""

import time
from collections.abc import Callable, Sequence

import numpy as np
from torch import Tensor

from insular.audit.isolation.bench import as_array
from insular.audit.sensitivity.contributions import Contributions, altered, largest_change, ratio_at
from insular.audit.sensitivity.results import Candidate, GrowthPoint, ScreenPart
from insular.audit.sensitivity.saved_gradients import pack_rows
from insular.audit.spec import SensitivitySpec
from insular.audit.subjects.subject import Subject, evaluate_seeded
from insular.errors import InvalidArgumentError
from insular.evidence import digest_array
from insular.records.tokens import TokenisedRecord

Keep = Callable[[str, dict[str, np.ndarray]], None]
"""Takes the arrays of one evaluation, under a name."""
Progress = Callable[[str], None]


def screen_candidates(
    subject: Subject,
    baseline: Sequence[TokenisedRecord],
    candidates: Sequence[TokenisedRecord],
    *,
    width: int,
    spec: SensitivitySpec,
    keep: Keep,
    progress: Progress,
) -> ScreenPart:
    """Add each candidate in turn to the baseline batch, and measure how far the clipped sum moves.

    Guarantees:
        * Every candidate is in the result, one that failed with its problem; none where the
          baseline's own gradients are not finite.
        * The ratio of a subject in which nothing moves is the candidate's clipped norm over C.

    Args:
        subject: The stack under test.
        baseline: The batch D.
        candidates: Records to add, one at a time, at the end of the batch.
        width: Padded length of every batch, in tokens.
        spec: Radii, margin, seed.
        keep: Called with ``baseline`` and each candidate's id, and the gradients of that batch.
        progress: Called with a short line before each evaluation.

    Returns:
        One entry for each candidate.

    Raises:
        InvalidArgumentError: If there is no baseline record or no candidate.
    """
    if not baseline or not candidates:
        raise InvalidArgumentError(
            "a sensitivity audit must have at least 1 baseline record and 1 candidate, got"
            f" {len(baseline)} and {len(candidates)}; give more text, or a smaller --batch."
        )
    started = time.perf_counter()
    progress("baseline")
    base, _ = _contributions(subject, baseline, width=width, spec=spec)
    if not base.finite:
        return ScreenPart(
            norms=(),
            digests=gradient_digests(base.gradients),
            repeat_ratio=0.0,
            seconds=time.perf_counter() - started,
            candidates=(),
            problem="a gradient of the baseline batch has NaN or inf; look at those records'"
            " losses, or drop the records.",
        )
    keep("baseline", pack_rows({"base": as_array(base.gradients)}))
    found = []
    for record in candidates:
        progress(f"adding {record.id}")
        batch = (*baseline, record)
        other, losses = _contributions(subject, batch, width=width, spec=spec)
        found.append(_candidate(record, base, other, losses=losses, spec=spec))
        keep(record.id, pack_rows({"with": as_array(other.gradients)}))
    progress("baseline again")
    again, _ = _contributions(subject, baseline, width=width, spec=spec)
    return ScreenPart(
        norms=tuple(base.norms.tolist()),
        digests=gradient_digests(base.gradients),
        repeat_ratio=ratio_at(base, again, spec.radii[0]),
        seconds=time.perf_counter() - started,
        candidates=tuple(found),
    )


def measure_growth(
    subject: Subject,
    baseline: Sequence[TokenisedRecord],
    candidate: TokenisedRecord,
    *,
    sizes: Sequence[int],
    width: int,
    spec: SensitivitySpec,
    keep: Keep,
    progress: Progress,
) -> tuple[GrowthPoint, ...]:
    """Add one candidate to the first k baseline records, for several k.

    Args:
        subject: The stack under test.
        baseline: At least as many records as the largest size.
        candidate: The record to add.
        sizes: Sizes k, ascending.
        width: Padded length of every batch, in tokens.
        spec: Clip norm, seed.
        keep: Called with the size as a name, and the gradients of both batches.
        progress: Called with a short line before each evaluation.

    Returns:
        One point for each size.
    """
    points = []
    for size in sizes:
        progress(f"baseline of {size}")
        base, _ = _contributions(subject, baseline[:size], width=width, spec=spec)
        progress(f"{size} and one more")
        batch = (*baseline[:size], candidate)
        other, _ = _contributions(subject, batch, width=width, spec=spec)
        rows = {"base": as_array(base.gradients), "with": as_array(other.gradients)}
        keep(str(size), pack_rows(rows))
        points.append(
            GrowthPoint(
                n_baseline=size,
                ratio=ratio_at(base, other, spec.clip_norm),
                n_altered=len(altered(base, other)),
            )
        )
    return tuple(points)


def _contributions(
    subject: Subject,
    records: Sequence[TokenisedRecord],
    *,
    width: int,
    spec: SensitivitySpec,
) -> tuple[Contributions, Tensor | None]:
    """Run a batch; its gradients, and its losses where the subject shows them."""
    evaluation = evaluate_seeded(subject, records, width=width, seed=spec.seed)
    return Contributions(evaluation.gradients, stabiliser=spec.stabiliser), evaluation.losses


def gradient_digests(gradients: Tensor) -> tuple[str, ...]:
    """Digest of each record's gradient.

    Args:
        gradients: One row per record.

    Returns:
        Digests in batch order.
    """
    return tuple(digest_array(as_array(row)) for row in gradients)


def _candidate(
    record: TokenisedRecord,
    base: Contributions,
    other: Contributions,
    *,
    losses: Tensor | None,
    spec: SensitivitySpec,
) -> Candidate:
    """What one addition did."""
    return Candidate(
        record=record.id,
        n_tokens=len(record.tokens),
        loss_nats=float("nan") if losses is None else float(losses[-1]),
        norm=float(other.norms[-1]) if other.finite else float("inf"),
        n_altered=len(altered(base, other)),
        largest_change=largest_change(base, other, spec.clip_norm),
        ratios=tuple(ratio_at(base, other, radius) for radius in spec.radii),
        problem="" if other.finite else "a gradient has NaN or inf.",
    )
