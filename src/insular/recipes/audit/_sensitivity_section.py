"""How much one added record moves the sum: the screen, and the frozen pair in every stack."""

from insular.audit.audit_results import AuditResult
from insular.audit.sensitivity.results import Screen, SensitivityResult
from insular.recipes._numbers import (
    cited,
    counted,
    in_clip_norms,
    listed,
    percent,
    ratio_text,
    short,
)
from insular.recipes.audit._published import published
from insular.recipes.audit._sensitivity_tables import (
    arms_drawing,
    arms_table,
    candidates_table,
    counts,
    own_radius,
    screen_drawing,
)
from insular.reports import Block, Code, Inline, Paragraph, Points, Section, paragraph

_SCREEN = ("sensitivity", "screen")
HEADING = "How much one added record moves the sum"


def sensitivity_section(result: AuditResult) -> tuple[Section, ...]:
    """The section on the sensitivity, or none if it was not measured."""
    found = result.sensitivity
    if found is None:
        return ()
    blocks: list[Block] = []
    if result.verdict == "undecided":
        blocks.append(paragraph("A check of the stack failed, so these ratios are no evidence."))
    blocks += _screened(found.screen)
    blocks += published(result.subject.manifest.model, "sensitivity")
    blocks += _validated(found)
    return (Section(heading=HEADING, blocks=tuple(blocks)),)


def _screened(screen: Screen) -> list[Block]:
    """The exploratory part."""
    blocks: list[Block] = [_answer(screen)]
    if not screen.repeatable:
        blocks.append(
            paragraph(
                "The processes that took part did not get the same gradients of the baseline to"
                " the last bit, so candidates of different processes are not strictly comparable."
            )
        )
    if drawing := screen_drawing(screen):
        blocks.append(drawing)
        blocks.append(_radii(screen))
    blocks.append(candidates_table(screen))
    return blocks


def _answer(screen: Screen) -> Paragraph:
    """Which candidate moved the sum furthest, and how many did too far."""
    n, n_valid = len(screen.candidates), screen.n_valid
    tried = (
        "Exploratory: ",
        cited(counted(n, "candidate record"), *_SCREEN, "candidates"),
        ", each added to the same baseline batch of ",
        cited(counted(len(screen.baseline), "record"), *_SCREEN, "baseline"),
    )
    if not n_valid:
        return paragraph(*tried, ". No attempt counts; the table says why.")
    i, j = screen.top
    return paragraph(
        *tried,
        ". Record ",
        Code(text=screen.candidates[i].record),
        " moved the clipped sum furthest: by ",
        cited(in_clip_norms(screen.largest), *_SCREEN, "candidates", i, "ratios", j),
        " at the radius C = ",
        cited(short(screen.radii[j]), *_SCREEN, "radii", j),
        ", where the separable bound is 1 C. ",
        cited(f"{n_valid} of {n}", *_SCREEN, "candidates"),
        " attempts count. At the run's own clip norm of ",
        cited(short(screen.clip_norm), *_SCREEN, "clip_norm"),
        ", ",
        cited(f"{len(screen.exceeding(own_radius(screen)))} of {n_valid}", *_SCREEN, "candidates"),
        " exceed the bound by more than the margin of ",
        cited(short(screen.margin), *_SCREEN, "margin"),
        ".",
    )


def _radii(screen: Screen) -> Paragraph:
    """What the radius does."""
    first, last = screen.clipped_shares[0], screen.clipped_shares[-1]
    shares = (
        "Each radius clips another share of the records: ",
        cited(percent(first), *_SCREEN, "clipped_shares", 0),
        " at C = ",
        cited(short(screen.radii[0]), *_SCREEN, "radii", 0),
        " and ",
        cited(percent(last), *_SCREEN, "clipped_shares", len(screen.radii) - 1),
        " at C = ",
        cited(short(screen.radii[-1]), *_SCREEN, "radii", len(screen.radii) - 1),
        ".",
    )
    attempts = [attempt for attempt in screen.candidates if counts(attempt)]
    low, high = (max(attempt.ratios[j] for attempt in attempts) for j in (0, -1))
    if high < low and last < first:
        return paragraph(
            *shares,
            " The ratios fall where fewer are clipped: an added gradient shorter than C moves the"
            " sum by less than C, and that leaves room for what it does to the others.",
        )
    return paragraph(*shares)


def _validated(found: SensitivityResult) -> list[Block]:
    """The frozen pair, run afresh."""
    blocks: list[Block] = [_fresh(found)]
    if drawing := arms_drawing(found):
        blocks.append(drawing)
    blocks.append(arms_table(found))
    failed = [
        (Code(text=arm.stack), f": {check.name}: {check.detail}")
        for arm in found.arms
        for check in arm.checks
        if not check.passed
    ]
    if failed:
        blocks.append(paragraph("Checks of the validation that failed:"))
        blocks.append(Points(items=tuple(failed)))
    return blocks


def _fresh(found: SensitivityResult) -> Paragraph:
    """What the validation says, stack by stack."""
    parts: list[Inline] = [
        "Fresh: the pair was frozen",
        *((", with ", Code(text=found.screen.selected.record)) if found.screen.n_valid else ()),
        ", and run again in every stack, with an identical repeat. ",
    ]
    exceeding = [(i, arm) for i, arm in enumerate(found.arms) if arm.exceeds]
    within = [(i, arm) for i, arm in enumerate(found.arms) if arm.valid and not arm.exceeds]
    for i, arm in exceeding:
        j = max(range(len(arm.radii)), key=lambda k, arm=arm: arm.radii[k].ratio)
        number = cited(
            ratio_text(arm.radii[j].ratio), "sensitivity", "arms", i, "radii", j, "ratio"
        )
        parts += [Code(text=arm.stack), " exceeds the bound: the ratio is ", number, ". "]
    if within:
        i, j = max(
            ((i, j) for i, arm in within for j in range(len(arm.radii))),
            key=lambda at: found.arms[at[0]].radii[at[1]].ratio,
        )
        number = cited(
            ratio_text(found.arms[i].radii[j].ratio), "sensitivity", "arms", i, "radii", j, "ratio"
        )
        names = listed([Code(text=arm.stack) for _, arm in within])
        verb = "keeps" if len(within) == 1 else "keep"
        parts += [*names, f" {verb} the bound, with at most ", number, ". "]
    invalid = [Code(text=arm.stack) for arm in found.arms if not arm.valid]
    if invalid:
        verb = "does" if len(invalid) == 1 else "do"
        parts += [*listed(invalid), f" {verb} not count: a check failed."]
    return Paragraph(parts=tuple(parts))
