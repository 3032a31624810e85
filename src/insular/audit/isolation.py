"""The isolation audit: change everything around a record, and see whether its gradient moves."""

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import final

import numpy as np
import torch
from torch import Tensor, nn

from insular.audit.cases import Case, plan_cases
from insular.audit.dispatch import OperatorTrace
from insular.audit.measure import clipped_reference, influences, sum_ratio
from insular.audit.probe import Trace, first_difference, traced
from insular.audit.results import (
    ArmResult,
    AxisFinding,
    AxisVerdict,
    CaseResult,
    Check,
    ExecutionPath,
    FirstDifference,
    Influence,
    SubjectManifest,
)
from insular.audit.spec import AXES, EQUAL_SHAPE_AXES, Axis, IsolationSpec
from insular.audit.subjects import Evaluation, Subject, SubjectFacts
from insular.audit.validation import (
    check_autograd,
    check_clipping,
    check_coverage,
    check_finite,
    check_operators,
    check_repeat,
    check_sum,
    reference_weights,
    untouched,
)
from insular.errors import SubjectError
from insular.evidence import digest_array
from insular.records.tokens import TokenisedRecord

DECLARED_ROUNDING = 1e-4
"""Relative gradient change that counts as rounding of another shape where nothing inside the
subject can be observed."""
FLOOR_FACTOR = 10.0
"""A movement counts above this multiple of an identical repeat's distance."""

Progress = Callable[[str], None]


def audit_isolation(
    subject: Subject,
    base: Sequence[TokenisedRecord],
    spares: Sequence[TokenisedRecord],
    *,
    width: int,
    spec: IsolationSpec,
    progress: Progress | None = None,
    keep: Callable[[dict[str, np.ndarray]], None] | None = None,
) -> ArmResult:
    """Audit one stack.

    The base batch runs twice, then once for each planned case: every record replaced by another
    of equal length, some by a shorter one, the batch reversed, a record removed, each record
    alone, half batches, more padding. A kept record's logits, gradient and clipped gradient are
    compared with the base batch to the last bit.

    Guarantees:
        * A difference at equal shape, above the distance of an identical repeat, is ``coupled``.
        * A difference at another shape is ``rounding`` only where it enters as a rounding: the
          first module that differs differs by no more than its dtype's rounding bound.
        * A failed check gives ``undecided``, never ``isolated``, and is kept.

    Args:
        subject: The stack under test.
        base: The base batch, at least two records.
        spares: Records to bring in, as long as the longest base record.
        width: Padded length of the base batch, in tokens.
        spec: Clip norm, seed and padding.
        progress: Called with a short line before each case.
        keep: Called once with the counter-example's gradients, where something moved: the worst
            record's, unclipped and clipped, in the base batch and in the case.

    Returns:
        What was measured, with the path that ran.

    Raises:
        InvalidArgumentError: If there are too few records or spares.
        SubjectError: If the subject breaks the protocol.
    """
    started = time.perf_counter()
    cases = plan_cases(base, spares, width=width, extra_padding_tokens=spec.extra_padding_tokens)
    bench = _Bench(subject, base, width=width, spec=spec, progress=progress or _silent)
    results = [bench.compare(case) for case in cases]
    checks = bench.checks()
    findings = tuple(
        bench.finding(axis, cases, results) for axis in AXES if any(c.axis == axis for c in cases)
    )
    if keep is not None and bench.counterexample:
        keep(bench.counterexample)
    coupled = any(finding.verdict == "coupled" for finding in findings)
    failed = any(not check.passed for check in checks)
    return ArmResult(
        arm=subject.name,
        verdict="undecided" if failed else "coupled" if coupled else "isolated",
        seconds=time.perf_counter() - started,
        seconds_per_step=median(bench.step_seconds),
        path=bench.path(cases),
        manifest=bench.manifest(),
        checks=checks,
        axes=findings,
        cases=tuple(results),
        clipped_share=bench.clipped_share(),
        mean_loss_nats=bench.mean_loss(),
        gradient_digests=bench.digests(),
    )


@final
class _Bench:
    """One subject with its base batch, which every case is compared with."""

    def __init__(
        self,
        subject: Subject,
        base: Sequence[TokenisedRecord],
        *,
        width: int,
        spec: IsolationSpec,
        progress: Progress,
    ) -> None:
        self.subject = subject
        self.records = tuple(base)
        self.ids = tuple(record.id for record in base)
        self.width = width
        self.spec = spec
        self.progress = progress
        self.step_seconds: list[float] = []
        self.counterexample: dict[str, np.ndarray] = {}
        self._worst: tuple[float, ...] = ()
        self.trace = OperatorTrace()
        progress("base batch")
        with self.trace:
            self.base = self.run(self.records, width)
        self.clipped = self.clip(self.base.gradients)
        progress("identical repeat")
        self.repeat_check, self.floor = check_repeat(self.base, self.timed(self.records, width))
        self.facts: SubjectFacts = subject.facts()

    def run(self, records: Sequence[TokenisedRecord], width: int) -> Evaluation:
        """Evaluate after setting the seed, and leave the global generators as they were."""
        with torch.random.fork_rng():
            torch.manual_seed(self.spec.seed)
            return self.subject.evaluate(records, width=width)

    def timed(self, records: Sequence[TokenisedRecord], width: int) -> Evaluation:
        """Evaluate, and note the time if the batch has the base batch's shape."""
        started = time.perf_counter()
        evaluation = self.run(records, width)
        if len(records) == len(self.records) and width == self.width:
            self.step_seconds.append(time.perf_counter() - started)
        return evaluation

    def clip(self, gradients: Tensor) -> Tensor:
        """Clip as the stack does, or by the declared formula where it leaves that to the audit."""
        clipped = self.subject.clip(gradients)
        if clipped is not None:
            return clipped
        return clipped_reference(
            gradients, clip_norm=self.spec.clip_norm, stabiliser=self.spec.stabiliser
        )

    def compare(self, case: Case) -> CaseResult:
        """Run a case and measure every record that stayed."""
        self.progress(case.name)
        other = self.timed(case.records, case.width)
        other_clipped = self.clip(other.gradients)
        result = CaseResult(
            name=case.name,
            axis=case.axis,
            changed=case.changed,
            brought_in=case.brought_in,
            sum_ratio=sum_ratio(
                case,
                base_clipped=self.clipped,
                other_clipped=other_clipped,
                clip_norm=self.spec.clip_norm,
            ),
            influences=influences(
                case,
                base_ids=self.ids,
                base=self.base,
                base_clipped=self.clipped,
                other=other,
                other_clipped=other_clipped,
                clip_norm=self.spec.clip_norm,
            ),
        )
        self._keep_worst(case, result, other=other, other_clipped=other_clipped)
        return result

    def _keep_worst(
        self, case: Case, result: CaseResult, *, other: Evaluation, other_clipped: Tensor
    ) -> None:
        """Keep the gradients of the record that moved furthest so far, at equal shape first."""
        rank = (float(case.axis in EQUAL_SHAPE_AXES), *_severity(result.worst))
        if result.worst.bitwise_equal or rank <= self._worst:
            return
        self._worst = rank
        before = self.ids.index(result.worst.record)
        after = dict(case.kept)[before]
        self.counterexample = {
            "base_gradient": _array(self.base.gradients[before]),
            "case_gradient": _array(other.gradients[after]),
            "base_clipped": _array(self.clipped[before]),
            "case_clipped": _array(other_clipped[after]),
        }

    def finding(
        self, axis: Axis, cases: Sequence[Case], results: Sequence[CaseResult]
    ) -> AxisFinding:
        """The verdict on one axis, from all its cases."""
        pairs = [(c, r) for c, r in zip(cases, results, strict=True) if c.axis == axis]
        everyone = [influence for _, result in pairs for influence in result.influences]
        moved = [
            influence
            for influence in everyone
            if self.counts(influence.gradient_relative, influence.bitwise_equal)
        ]
        if not moved:
            return self._finding(axis, "isolated", everyone, 0)
        case, result = max(pairs, key=lambda pair: _severity(pair[1].worst))
        suspect = result.worst
        verdict: AxisVerdict = "coupled"
        if axis not in EQUAL_SHAPE_AXES:
            one_by_one = ((c, influence) for c, r in pairs for influence in r.influences)
            case, suspect = max(one_by_one, key=lambda pair: _unclipped(pair[1]))
        first = self.locate(case, suspect)
        if axis not in EQUAL_SHAPE_AXES and _is_rounding(first, suspect):
            verdict = "rounding"
        return self._finding(axis, verdict, everyone, len(moved), result=result, first=first)

    def counts(self, relative: float, bitwise_equal: bool) -> bool:
        """Whether a movement rises above an identical repeat."""
        return not bitwise_equal and (self.floor == 0 or relative > FLOOR_FACTOR * self.floor)

    def _finding(
        self,
        axis: Axis,
        verdict: AxisVerdict,
        everyone: Sequence[object],
        n_moved: int,
        *,
        result: CaseResult | None = None,
        first: FirstDifference | None = None,
    ) -> AxisFinding:
        return AxisFinding(
            axis=axis,
            verdict=verdict,
            n_comparisons=len(everyone),
            n_moved=n_moved,
            floor=self.floor,
            worst_case=result.name if result else "",
            worst=result.worst if result else None,
            first_difference=first,
        )

    def locate(self, case: Case, influence: Influence) -> FirstDifference | None:
        """Run base and case again with observers, and find where a record parts."""
        model = self.subject.traced_model()
        if model is None:
            return None
        self.progress(f"locating {case.name}")
        before = self.ids.index(influence.record)
        after = dict(case.kept)[before]
        base = self._traced(model, self.records, self.width, before)
        other = self._traced(model, case.records, case.width, after)
        return first_difference(base, other, before=before, after=after)

    def _traced(
        self, model: nn.Module, records: Sequence[TokenisedRecord], width: int, position: int
    ) -> Trace:
        """Run a batch while one record's inner outputs are kept."""
        mask = self.subject.mask(records, width=width)
        if mask is None:
            raise SubjectError(
                f"subject {self.subject.name} must give the mask of a batch whose inside it shows,"
                " got None; implement mask()."
            )
        with traced(model, mask, [position]) as trace:
            self.run(records, width)
        return trace

    def checks(self) -> tuple[Check, ...]:
        """Every condition of validity, on the base batch."""
        self.progress("independent autograd")
        weights = reference_weights(len(self.records), seed=self.spec.seed)
        with torch.random.fork_rng():
            torch.manual_seed(self.spec.seed)
            reference = self.subject.reference(self.records, weights, width=self.width)
        forwards = -(-len(self.records) // (self.facts.physical_batch or len(self.records)))
        return (
            check_finite(self.base, self.ids),
            self.repeat_check,
            check_autograd(self.base, weights, reference),
            check_sum(self.base),
            check_coverage(self.base, self.facts),
            check_operators(self.trace.counts, self.facts, n_forwards=forwards),
            check_clipping(
                self.base.gradients,
                self.clipped,
                clip_norm=self.spec.clip_norm,
                stabiliser=self.spec.stabiliser,
            ),
        )

    def path(self, cases: Sequence[Case]) -> ExecutionPath:
        """The path that ran, read from what executed."""
        size = self.facts.physical_batch
        shapes = {(len(self.records), self.width), *((len(c.records), c.width) for c in cases)}
        if size:
            shapes = {(size, width) for _, width in shapes}
        return ExecutionPath(
            device=_device(self.base.gradients),
            mode=self.facts.mode,
            dtype=self.facts.dtype,
            operators=dict(sorted(self.trace.counts.items())),
            shapes=tuple(sorted(shapes)),
            threads=torch.get_num_threads(),
            versions=self.facts.versions,
        )

    def manifest(self) -> SubjectManifest:
        """The stack, read from its objects."""
        return SubjectManifest(
            name=self.subject.name,
            engine=self.facts.engine,
            model=self.facts.model,
            model_digest=self.facts.model_digest,
            n_params=self.base.gradients.shape[1],
            trainable=tuple(name for name, _ in self.facts.trainable),
            untouched=untouched(self.base, self.facts),
            replaced=self.facts.replaced or {},
            physical_batch=self.facts.physical_batch or len(self.records),
            logical_batch=len(self.records),
            loss=self.facts.loss,
            sampler=self.facts.sampler,
            clipping=self.facts.clipping,
        )

    def clipped_share(self) -> float:
        """Share of records whose gradient is longer than the clip norm."""
        norms = self.base.gradients.double().norm(dim=1)
        return float((norms > self.spec.clip_norm).double().mean())

    def mean_loss(self) -> float:
        """Mean loss of the base batch, or NaN."""
        return float("nan") if self.base.losses is None else float(self.base.losses.double().mean())

    def digests(self) -> dict[str, str]:
        """Digest of each base record's gradient."""
        rows = self.base.gradients
        return {name: digest_array(_array(row)) for name, row in zip(self.ids, rows, strict=True)}


def _severity(influence: Influence) -> tuple[float, float, float]:
    """Order of records by how far they moved."""
    return influence.clipped_distance, *_unclipped(influence)


def _unclipped(influence: Influence) -> tuple[float, float]:
    """The same order before clipping."""
    return influence.gradient_relative, influence.forward_max_abs or 0.0


def _is_rounding(first: FirstDifference | None, influence: Influence) -> bool:
    """Whether a movement at another shape entered as a rounding."""
    if first is not None:
        return first.explained_by_rounding
    return influence.gradient_relative <= DECLARED_ROUNDING


def _array(tensor: Tensor) -> np.ndarray:
    """A copy on the CPU, in float32 unless wider."""
    wide = tensor if tensor.dtype == torch.float64 else tensor.float()
    return wide.detach().cpu().numpy().copy()


def _device(tensor: Tensor) -> str:
    """Device type, with its name where it has one."""
    if tensor.device.type == "cuda":
        return f"cuda ({torch.cuda.get_device_name(tensor.device)})"
    return tensor.device.type


def _silent(line: str) -> None:
    """Say nothing."""
