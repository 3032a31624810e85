"""The frozen pair, run afresh in one stack: baseline, addition, and an identical repeat of both."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from insular.audit.isolation.bench import as_array
from insular.audit.isolation.dispatch import OperatorTrace
from insular.audit.isolation.measure import clipped_by
from insular.audit.isolation.results import Check
from insular.audit.isolation.validation import (
    check_autograd,
    check_clipping,
    check_finite,
    check_operators,
    check_repeat,
    check_sum,
    reference_weights,
)
from insular.audit.sensitivity.contributions import Contributions, altered, largest_change, ratio_at
from insular.audit.sensitivity.results import REPEAT_FACTOR, ValidatedArm, ValidatedRadius
from insular.audit.sensitivity.saved_gradients import pack_rows
from insular.audit.sensitivity.screen import Keep, gradient_digests
from insular.audit.spec import SensitivitySpec
from insular.audit.subjects.subject import Evaluation, Subject, SubjectFacts, evaluate_seeded
from insular.records.tokens import TokenisedRecord


def validate_pair(
    subject: Subject,
    baseline: Sequence[TokenisedRecord],
    candidate: TokenisedRecord,
    *,
    width: int,
    spec: SensitivitySpec,
    keep: Keep,
    progress: Callable[[str], None],
) -> ValidatedArm:
    """Measure one frozen pair of neighbouring batches in one stack, with every check.

    Guarantees:
        * Nothing is taken over from the screen but the choice of the candidate.
        * ``exceeds`` is true only of a valid measurement above 1 by the margin fixed beforehand
          and ten times the distance of an identical repeat.

    Args:
        subject: The stack.
        baseline: The batch D.
        candidate: The record that D' has besides.
        width: Padded length of both batches, in tokens.
        spec: Radii, margin, seed.
        keep: Called once with the stack's name and the gradients of both batches.
        progress: Called with a short line before each evaluation.

    Returns:
        What was measured.
    """
    started = time.perf_counter()
    batch = (*baseline, candidate)
    trace = OperatorTrace()

    def run(line: str, records: Sequence[TokenisedRecord]) -> Evaluation:
        progress(line)
        return evaluate_seeded(subject, records, width=width, seed=spec.seed)

    base = run("baseline", baseline)
    with trace:
        added = run("with the candidate", batch)
    base_again, added_again = run("repeat", baseline), run("repeat with it", batch)
    progress("independent autograd")
    checks = (
        *_checks(subject, batch, added, trace=trace, width=width, spec=spec),
        check_repeat(base, base_again)[0],
        replace(check_repeat(added, added_again)[0], name="identical repeat, with the candidate"),
    )
    keep(
        subject.name,
        pack_rows({"base": as_array(base.gradients), "with": as_array(added.gradients)}),
    )
    before, after, *repeats = (
        Contributions(e.gradients, stabiliser=spec.stabiliser)
        for e in (base, added, base_again, added_again)
    )
    return ValidatedArm(
        stack=subject.name,
        checks=checks,
        radii=tuple(_at(r, before, after, repeats, spec=spec) for r in spec.validation_radii),
        n_altered=len(altered(before, after)),
        largest_change=largest_change(before, after, spec.clip_norm),
        digests=(*gradient_digests(base.gradients), *gradient_digests(added.gradients)),
        seconds=time.perf_counter() - started,
    )


def _at(
    radius: float,
    base: Contributions,
    added: Contributions,
    repeats: Sequence[Contributions],
    *,
    spec: SensitivitySpec,
) -> ValidatedRadius:
    """The pair at one radius."""
    floor = max(ratio_at(one, two, radius) for one, two in zip((base, added), repeats, strict=True))
    return ValidatedRadius(
        radius=radius,
        ratio=ratio_at(base, added, radius),
        repeat_ratio=floor,
        margin=spec.margin + REPEAT_FACTOR * floor,
        n_clipped=int((added.norms > radius).sum()),
    )


def _checks(
    subject: Subject,
    batch: Sequence[TokenisedRecord],
    added: Evaluation,
    *,
    trace: OperatorTrace,
    width: int,
    spec: SensitivitySpec,
) -> tuple[Check, ...]:
    """Conditions of validity, on the batch with the candidate."""
    # the plain sum and one random combination: the isolation audit has tried four on its batch
    weights = reference_weights(len(batch), seed=spec.seed)[[0, -1]]
    with torch.random.fork_rng():
        torch.manual_seed(spec.seed)
        reference = subject.reference(batch, weights, width=width)
    facts: SubjectFacts = subject.facts()
    n_forwards = -(-len(batch) // (facts.physical_batch or len(batch)))
    clipped = clipped_by(
        subject, added.gradients, clip_norm=spec.clip_norm, stabiliser=spec.stabiliser
    )
    return (
        check_finite(added, [record.id for record in batch]),
        check_autograd(added, weights, reference),
        check_sum(added),
        check_operators(trace.counts, facts, n_forwards=n_forwards),
        check_clipping(
            added.gradients, clipped, clip_norm=spec.clip_norm, stabiliser=spec.stabiliser
        ),
    )
