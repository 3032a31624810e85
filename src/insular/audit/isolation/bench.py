"""One subject on its base batch: run a changed batch, compare it, and locate what moved."""

import time
from collections.abc import Callable, Sequence
from typing import final

import numpy as np
import torch
from torch import Tensor, nn

from insular.audit.isolation.cases import Case
from insular.audit.isolation.dispatch import OperatorTrace
from insular.audit.isolation.measure import clipped_by, influences, sum_ratio
from insular.audit.isolation.probe import Trace, first_difference, traced
from insular.audit.isolation.results import CaseResult, Counterexample, FirstDifference, Influence
from insular.audit.isolation.validation import check_repeat
from insular.audit.spec import EQUAL_SHAPE_AXES, IsolationSpec
from insular.audit.subjects.subject import Evaluation, Subject, evaluate_seeded
from insular.errors import SubjectError
from insular.records.tokens import TokenisedRecord

Progress = Callable[[str], None]


@final
class Bench:
    """A subject with its base batch, which every case is compared with.

    Args:
        subject: The stack under test.
        base: The base batch.
        width: Its padded length, in tokens.
        spec: Clip norm, seed and padding.
        progress: Called with a short line before each evaluation.
    """

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
        self.counterexample: Counterexample | None = None
        self.counterexample_arrays: dict[str, np.ndarray] = {}
        self._worst: tuple[float, ...] = ()
        self._base_trace: tuple[int, Trace] | None = None
        self.trace = OperatorTrace()
        progress("base batch")
        with self.trace:
            self.base = self.run(self.records, width)
        self.clipped = self.clip(self.base.gradients)
        progress("identical repeat")
        self.repeat_check, self.floor = check_repeat(self.base, self.timed(self.records, width))
        self.facts = subject.facts()

    def run(self, records: Sequence[TokenisedRecord], width: int) -> Evaluation:
        """Evaluate after setting the seed, and leave the global generators as they were."""
        return evaluate_seeded(self.subject, records, width=width, seed=self.spec.seed)

    def timed(self, records: Sequence[TokenisedRecord], width: int) -> Evaluation:
        """Evaluate, and note the time if the batch has the base batch's shape."""
        started = time.perf_counter()
        evaluation = self.run(records, width)
        if len(records) == len(self.records) and width == self.width:
            self.step_seconds.append(time.perf_counter() - started)
        return evaluation

    def clip(self, gradients: Tensor) -> Tensor:
        """Clip as the stack does, or by the declared formula where it leaves that to the audit."""
        return clipped_by(
            self.subject,
            gradients,
            clip_norm=self.spec.clip_norm,
            stabiliser=self.spec.stabiliser,
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
        rank = (float(case.axis in EQUAL_SHAPE_AXES), *severity(result.worst))
        if result.worst.bitwise_equal or rank <= self._worst:
            return
        self._worst = rank
        before = self.ids.index(result.worst.record)
        after = dict(case.kept)[before]
        self.counterexample = Counterexample(case=case.name, record=result.worst.record)
        self.counterexample_arrays = {
            "base_gradient": as_array(self.base.gradients[before]),
            "case_gradient": as_array(other.gradients[after]),
            "base_clipped": as_array(self.clipped[before]),
            "case_clipped": as_array(other_clipped[after]),
        }

    def locate(self, case: Case, influence: Influence) -> FirstDifference | None:
        """Run base and case again with observers, and find where a record parts."""
        model = self.subject.traced_model()
        if model is None:
            return None
        self.progress(f"locating {case.name}")
        before = self.ids.index(influence.record)
        after = dict(case.kept)[before]
        if self._base_trace is None or self._base_trace[0] != before:
            trace = self._traced(model, self.records, self.width, before)
            self._base_trace = (before, trace)
        base = self._base_trace[1]
        pin = None if case.axis in EQUAL_SHAPE_AXES else base
        other = self._traced(model, case.records, case.width, after, pin=pin)
        return first_difference(base, other)

    def _traced(
        self,
        model: nn.Module,
        records: Sequence[TokenisedRecord],
        width: int,
        position: int,
        *,
        pin: Trace | None = None,
    ) -> Trace:
        """Run a batch while one record's inner outputs are kept."""
        mask = self.subject.mask(records, width=width)
        if mask is None:
            raise SubjectError(
                f"subject {self.subject.name} must give the mask of a batch whose inside it shows,"
                " got None; implement mask()."
            )
        with traced(model, mask, position, pin=pin) as trace:
            self.run(records, width)
        return trace


def severity(influence: Influence) -> tuple[float, float, float]:
    """Order of records by how far they moved.

    Args:
        influence: One record.

    Returns:
        A key: clipped distance first.
    """
    return influence.clipped_distance, *unclipped(influence)


def unclipped(influence: Influence) -> tuple[float, float]:
    """The same order before clipping.

    Args:
        influence: One record.

    Returns:
        A key: gradient first.
    """
    return influence.gradient_relative, influence.forward_max_abs or 0.0


def as_array(tensor: Tensor) -> np.ndarray:
    """A copy on the CPU, in float32 unless wider.

    Args:
        tensor: Any float tensor.

    Returns:
        The array.
    """
    wide = tensor if tensor.dtype == torch.float64 else tensor.float()
    return wide.detach().cpu().numpy().copy()
