"""What an isolation audit costs, which repair it proves, and what it leaves open."""

import math

from insular.audit.audit_results import AuditResult
from insular.recipes._numbers import amount, counted
from insular.recipes.audit._words import (
    LOSS_TOLERANCE_NATS,
    Arm,
    arms_of,
    between,
    seconds,
)
from insular.reports import Cell, Code, Inline, Paragraph, paragraph


def repair_sentence(result: AuditResult) -> Paragraph:
    """Which repair was proven, its time, and whether it computes the same model."""
    proven = result.proven_repairs
    n = len(result.repairs)
    if not n:
        return paragraph("No repair was tried.")
    if not proven:
        return paragraph(f"None of the repairs that were tried ({n}) was isolated.")
    fastest = _place(result, 0)
    parts = [_tally(len(proven), n), "The fastest is ", *_priced(fastest, result)]
    if _far(fastest, result):
        near = [i for i in range(1, len(proven)) if not _far(_place(result, i), result)]
        if near:
            parts += [
                "The fastest that nearly keeps the loss is ",
                *_priced(_place(result, near[0]), result),
            ]
        else:
            parts += ["No isolated repair keeps the loss within ", f"{LOSS_TOLERANCE_NATS} nats. "]
    return Paragraph(parts=tuple(parts))


def _place(result: AuditResult, rank: int) -> Arm:
    """A proven repair by its rank in speed."""
    wanted = result.proven_repairs[rank]
    return next(arm for arm in arms_of(result)[1:] if arm.result is wanted)


def _priced(arm: Arm, result: AuditResult) -> tuple[Inline, ...]:
    """A repair with its time and its loss, as the end of a sentence."""
    mine, theirs = arm.result, result.subject
    ratio = mine.seconds_per_step / theirs.seconds_per_step if theirs.seconds_per_step else math.nan
    parts: tuple[Inline, ...] = (
        Code(text=mine.arm),
        ": ",
        arm.number(f"{seconds(mine.seconds_per_step)} a step", "seconds_per_step"),
        f", {ratio:.2f} times that of the stack under test",
    )
    difference = mine.mean_loss_nats - theirs.mean_loss_nats
    if math.isnan(difference):
        return (*parts, ". ")
    text = f"{abs(difference):.3f} nats {'higher' if difference > 0 else 'lower'}"
    return (
        *parts,
        "; its mean loss is ",
        arm.number(text, "mean_loss_nats"),
        ", so it is noticeably another model. " if _far(arm, result) else ". ",
    )


def _far(arm: Arm, result: AuditResult) -> bool:
    """Whether a repair's loss differs noticeably."""
    return abs(arm.result.mean_loss_nats - result.subject.mean_loss_nats) >= LOSS_TOLERANCE_NATS


def price(result: AuditResult) -> tuple[Paragraph, ...]:
    """What the breakage can do to the accountant's bound, in words."""
    arm = arms_of(result)[0]
    if result.verdict == "undecided":
        return (paragraph("No price can be given: the measurements do not count."),)
    measured = _measured(arm)
    if result.verdict == "isolated":
        same = "Where no record moves another, the separable bound is the bound: 2 C when a record"
        return (paragraph(f"{same} is replaced, C when one is added or removed."), *measured)
    return (*measured, *_worst_case(arm))


def _measured(arm: Arm) -> tuple[Paragraph, ...]:
    """How far the clipped sum moved over the separable bound."""
    ratios = [
        (case.sum_ratio, i)
        for i, case in enumerate(arm.result.cases)
        if case.sum_ratio is not None and not math.isnan(case.sum_ratio)
    ]
    if not ratios:
        return ()
    ratio, i = max(ratios)
    refuted = (
        "That is above 1 and refutes the bound: an accountant that assumes it reports too small"
        " an epsilon."
        if ratio > 1
        else "That is not above 1, and says nothing of the worst case: these are ordinary records."
    )
    return (
        paragraph(
            "When one record changed, the clipped sum moved by at most ",
            arm.number(f"{amount(ratio)} times", "cases", i, "sum_ratio"),
            " the separable bound (2 C to replace a record, C to remove one). ",
            refuted,
        ),
    )


def _worst_case(arm: Arm) -> tuple[Paragraph, ...]:
    """The influence bound for the physical batch."""
    m = arm.result.manifest.physical_batch - 1
    if m < 1:
        return ()
    return (
        paragraph(
            "If one record can change the contributions of m others, the clipped sum can move by"
            " 2(m+1) C when a record is replaced and by (2m+1) C when one is added or removed. In"
            " a physical batch of ",
            arm.number(str(m + 1), "manifest", "physical_batch"),
            f" that is up to {2 * (m + 1)} C and {2 * m + 1} C, which is {m + 1} and {2 * m + 1}"
            " times what the accountant assumes. The bound is attained by constructed records;"
            " ordinary ones move less.",
        ),
    )


def not_tested(result: AuditResult) -> tuple[Cell, ...]:
    """What a reader must not conclude."""
    arm = arms_of(result)[0]
    path, manifest, checks = arm.result.path, arm.result.manifest, arm.result.checks
    tokens = between(sorted({shape[1] for shape in path.shapes}))
    points: list[Cell] = [
        "Other devices, modes, element types, kernels and library versions. This ran on"
        f" {path.device}.",
        f"Other shapes: batches had {between([s[0] for s in path.shapes])} records and {tokens}"
        " tokens.",
        _randomness(path.mode),
        f"How records are drawn (here: {manifest.sampler}), the noise, its scale, and the"
        " accounting.",
        "Records chosen by an adversary. The records here are ordinary; a constructed record can"
        " move others where an ordinary one does not.",
        f"Other records. {len(result.record_ids)} records were watched while others changed."
        " Where nothing moved, that is evidence for these records and no proof for all.",
    ]
    points += _of_the_parts(result)
    points += [f"Not run: {reason}" for reason in result.skipped]
    absent = [check.name for check in checks if check.detail.startswith("not applicable")]
    if absent:
        points.append(f"Checks that do not apply to this stack: {', '.join(absent)}.")
    if all(i.forward_max_abs is None for case in arm.result.cases for i in case.influences):
        points.append("Forward outputs: this stack shows none, so only gradients were compared.")
    if manifest.untouched:
        points.append(
            (
                f"Trainable tensors whose gradient was exactly 0 for every record, as LoRA's A has"
                f" while B is 0: {len(manifest.untouched)}, the first of them ",
                Code(text=manifest.untouched[0]),
                ".",
            )
        )
    return tuple(points)


def _of_the_parts(result: AuditResult) -> list[Cell]:
    """What the sensitivity, the census and the localisation leave open, and those that are not."""
    points: list[Cell] = []
    if (found := result.sensitivity) is not None:
        n, size = len(found.screen.candidates), len(found.screen.baseline)
        points += [
            f"The largest ratio that there is. A sensitivity is a supremum, and a screen a lower"
            f" bound of it: here the largest of {counted(n, 'candidate')} beside one baseline of"
            f" {counted(size, 'record')}. No search was made for records that do worse.",
            "The sensitivity of later steps. The epsilon of the run assumes that every step has the"
            " measured ratio; it was measured at the adapters' start alone.",
            "How often natural batches exceed the bound: the validated pair was selected.",
        ]
    if result.census is not None:
        points.append(
            "What an altered column does. The census counts columns in the forward pass, and not"
            " how far a gradient moves."
        )
    if result.localisation is not None:
        points.append("Other pairs: where the influence enters was traced for one pair.")
    names = {
        "sensitivity": result.sensitivity,
        "census": result.census,
        "localisation": result.localisation,
    }
    if absent := [name for name, part in names.items() if part is None]:
        points.append(f"Parts that did not run, or do not apply: {', '.join(absent)}.")
    return points


def _randomness(mode: str) -> str:
    """What the model's mode leaves open; the model itself stands before its layers."""
    model = mode.partition(";")[0]
    if "train" in model:
        return "Other random draws: one seed was set before each batch (mode: training)."
    if "eval" in model:
        return "Training with dropout: the model ran in evaluation mode."
    return "Other modes: the stack does not say in which mode it ran, nor whether with dropout."


def _tally(isolated: int, tried: int) -> str:
    """How many repairs were isolated, as a sentence."""
    if tried == 1:
        return "The one repair that was tried, on the same records, was isolated. "
    if isolated == tried:
        return f"All {tried} repairs that were tried on the same records were isolated. "
    was = "was" if isolated == 1 else "were"
    return f"Of {tried} repairs that were tried on the same records, {isolated} {was} isolated. "
