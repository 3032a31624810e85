"""The sentences of an isolation audit, each number with its place in the evidence."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from insular.audit.audit_results import AuditResult
from insular.audit.isolation.results import (
    ArmResult,
    ArmVerdict,
    AxisFinding,
    CaseResult,
    Influence,
)
from insular.audit.spec import EQUAL_SHAPE_AXES, Axis
from insular.recipes._numbers import RESULTS_FILE, amount
from insular.reports import Code, Inline, Number, Paragraph, VerdictKind, paragraph

LOSS_TOLERANCE_NATS = 0.05
"""A repair whose mean loss differs by less computes nearly the same model."""
KINDS: dict[ArmVerdict, VerdictKind] = {"isolated": "good", "coupled": "bad", "undecided": "open"}
AXIS_WORDS: dict[Axis, str] = {
    "content": "content of another record",
    "length": "length of another record",
    "order": "order of the records",
    "presence": "presence of one record",
    "shape": "shape: batch size, padding",
}
_TAILS: dict[Axis, str] = {
    "content": ", although no tensor changed its shape",
    "length": ", although no tensor changed its shape",
    "order": ", although no record changed",
    "presence": ", by more than rounding explains",
    "shape": ", by more than rounding explains",
}


@final
@dataclass(frozen=True, kw_only=True)
class Arm:
    """One arm and where it stands in the results."""

    result: ArmResult
    """The arm."""
    place: str
    """JSON pointer."""

    def number(self, text: str, *path: str | int) -> Number:
        """A number of this arm, with its source."""
        return Number(text=text, source=self.source(*path))

    def source(self, *path: str | int) -> str:
        """Where a part of this arm stands."""
        return f"{RESULTS_FILE}#{'/'.join(map(str, (self.place, *path)))}"

    def case(self, name: str) -> tuple[int, CaseResult]:
        """A case and its position, by name."""
        return next((i, case) for i, case in enumerate(self.result.cases) if case.name == name)

    def moved(self, influence: Influence, *path: str | int) -> tuple[Inline, Inline, Inline]:
        """The three distances of an influence: clipped, relative, logits."""
        return (
            self.number(amount(influence.clipped_distance), *path, "clipped_distance"),
            self.number(amount(influence.gradient_relative), *path, "gradient_relative"),
            self.number(amount(influence.forward_max_abs), *path, "forward_max_abs"),
        )


def arms_of(result: AuditResult) -> tuple[Arm, ...]:
    """The stack under test, then the repairs."""
    repairs = (Arm(result=arm, place=f"/repairs/{i}") for i, arm in enumerate(result.repairs))
    return (Arm(result=result.subject, place="/subject"), *repairs)


def nats(value: float) -> str:
    """A loss to the third decimal."""
    return "not shown" if math.isnan(value) else f"{value:.3f}"


def seconds(value: float) -> str:
    """A time with its unit."""
    return f"{value:.2f} s" if value >= 0.1 else f"{value:.2g} s"


def ids(records: Sequence[str], *, most: int = 3) -> str:
    """Record ids, or how many there are."""
    return ", ".join(records) if len(records) <= most else f"{len(records)} records"


def headline(result: AuditResult) -> Paragraph:
    """The answer in one sentence."""
    arm = arms_of(result)[0]
    match result.verdict:
        case "coupled":
            return _coupled(arm, len(result.record_ids))
        case "isolated":
            return _isolated(arm)
    check = arm.result.failed_checks[0]
    coupled = [finding.axis for finding in arm.result.axes if finding.verdict == "coupled"]
    seen = (
        f" All the same, records moved each other ({', '.join(coupled)}): do not take it for"
        " isolated."
        if coupled
        else ""
    )
    return paragraph(
        f"This stack could not be audited: the check “{check.name}” failed:"
        f" {ended(check.detail)}{seen}"
    )


def _coupled(arm: Arm, n_records: int) -> Paragraph:
    """Who moved whom, and by how much."""
    start = f"These {n_records} records are not independent on this stack: "
    finding = arm.result.worst
    if finding is None or finding.worst is None:
        return paragraph(f"{start}results moved, but no record was measured.")
    i, worst = arm.result.axes.index(finding), finding.worst
    number, what = _movement(arm, worst, ("axes", i, "worst"))
    return paragraph(
        start,
        *_change(finding, arm.case(finding.worst_case)[1]),
        f" moves {what} of record ",
        Code(text=worst.record),
        " by ",
        number,
        f"{_TAILS[finding.axis]}.",
    )


def _change(finding: AxisFinding, case: CaseResult) -> tuple[Inline, ...]:
    """What was done to the batch, as the subject of a sentence."""
    changed = Code(text=ids(case.changed))
    match finding.axis:
        case "content":
            return ("replacing record ", changed)
        case "length":
            return ("replacing record ", changed, " by a shorter one")
        case "presence":
            return ("removing record ", changed)
        case "order":
            return ("reversing the order of the records",)
    return ("another batch shape (", Code(text=case.name), ")")


def _movement(arm: Arm, worst: Influence, path: tuple[str | int, ...]) -> tuple[Number, str]:
    """The largest thing that moved: the clipped gradient if it did, else what stands before it."""
    clipped, relative, logits = worst.clipped_distance, worst.gradient_relative, None
    if clipped != 0:
        return arm.number(f"{amount(clipped)} C", *path, "clipped_distance"), "the clipped gradient"
    if relative != 0:
        text = f"{amount(relative)} of its norm"
        return arm.number(text, *path, "gradient_relative"), "the unclipped gradient"
    logits = f"up to {amount(worst.forward_max_abs)}"
    return arm.number(logits, *path, "forward_max_abs"), "the logits"


def _isolated(arm: Arm) -> Paragraph:
    """How many comparisons, and how equal they are."""
    equal = [finding for finding in arm.result.axes if finding.axis in EQUAL_SHAPE_AXES]
    floor = max((finding.floor for finding in equal), default=0.0)
    how = (
        "are equal to the last bit"
        if floor == 0
        else "differ by no more than identical repeats do on this backend"
    )
    return paragraph(
        "On the path that ran, no record moved another's gradient: ",
        arm.number(str(sum(finding.n_comparisons for finding in equal)), "axes"),
        f" comparisons at equal shape {how}.",
    )


def path_sentence(arm: Arm) -> Paragraph:
    """The path that a verdict holds for."""
    path = arm.result.path
    records = sorted({shape[0] for shape in path.shapes})
    tokens = sorted({shape[1] for shape in path.shapes})
    versions = ", ".join(f"{name} {version}" for name, version in path.versions.items())
    return paragraph(
        "What ran: "
        if arm.result.verdict == "undecided"
        else "It holds for the path that ran and no other: ",
        arm.number(path.device, "path", "device"),
        f" ({_stated(path.mode, 'mode')}), {_stated(path.dtype, 'type')} activations, batches of ",
        arm.number(f"{between(records)} records and {between(tokens)} tokens", "path", "shapes"),
        f"{', ' if versions else ''}{versions}. ",
        "A CPU verdict says nothing of CUDA."
        if path.device.startswith("cpu")
        else "A verdict on this device says nothing of another.",
    )


def rounding_sentence(arm: Arm) -> Paragraph | None:
    """What another shape's rounding means, if there was any."""
    findings = [
        (i, finding.worst)
        for i, finding in enumerate(arm.result.axes)
        if finding.verdict == "rounding" and finding.worst is not None
    ]
    if not findings:
        return None
    i, worst = max(findings, key=lambda pair: pair[1].clipped_distance)
    number, what = _movement(arm, worst, ("axes", i, "worst"))
    return paragraph(
        f"The rounding of another batch shape moved {what} of a record by up to ",
        number,
        ". That is not another record's content. But it makes the padded length and the batch"
        " size part of the result, so both must be public or fixed.",
    )


def _stated(fact: str, name: str) -> str:
    """A fact, or that there is none."""
    return f"{name} not stated" if fact == "unknown" else fact


def ended(sentence: str) -> str:
    """The sentence with a full stop."""
    return sentence if sentence.endswith(".") else f"{sentence}."


def between(values: Sequence[int]) -> str:
    """A range of integers in words."""
    low, high = min(values, default=0), max(values, default=0)
    return str(low) if low == high else f"{low} to {high}"
