"""The figures and tables of a sensitivity audit."""

import math

from insular.audit.sensitivity.results import (
    Candidate,
    Screen,
    SensitivityResult,
    ValidatedArm,
)
from insular.recipes._numbers import amount, cited, in_clip_norms, place, ratio_text, short
from insular.reports import Cell, Code, Figure, Table

_SCREEN = ("sensitivity", "screen")
_ARMS = ("sensitivity", "arms")


def counts(attempt: Candidate) -> bool:
    """Whether an attempt can be drawn: it is valid and its ratios are numbers."""
    return attempt.valid and all(math.isfinite(ratio) for ratio in attempt.ratios)


def own_radius(screen: Screen) -> int:
    """Position of the run's own clip norm among the radii."""
    return min(range(len(screen.radii)), key=lambda j: abs(screen.radii[j] - screen.clip_norm))


def screen_drawing(screen: Screen) -> Figure | None:
    """The ratio of every candidate at every radius, or None if no attempt counts."""
    from insular.reports.figures import SensitivityPoint, sensitivity_figure

    drawn = [(i, attempt) for i, attempt in enumerate(screen.candidates) if counts(attempt)]
    if not drawn:
        return None
    chosen = screen.chosen
    best = max(range(len(screen.radii)), key=lambda j: screen.candidates[chosen].ratios[j])
    rows = [
        SensitivityPoint(
            candidate=attempt.record,
            clip_norm=radius,
            ratio=ratio,
            exceeds=ratio > 1 + screen.margin,
            selected=(i, j) == (chosen, best),
        )
        for i, attempt in drawn
        for j, (radius, ratio) in enumerate(zip(screen.radii, attempt.ratios, strict=True))
    ]
    left_out = len(screen.candidates) - len(drawn)
    caption = (
        "Each shape is one candidate at one radius at which the saved gradients were clipped again;"
        " all of them are shown. The dashed line is what an accountant assumes. The star was chosen"
        " for validation."
        + (
            f" Attempts that do not count ({left_out}) stand in the table alone."
            if left_out
            else ""
        )
    )
    alt = "; ".join(
        f"C = {short(radius)}: {ratio_text(min(ratios))} to {ratio_text(max(ratios))}"
        for j, radius in enumerate(screen.radii)
        for ratios in [[attempt.ratios[j] for _, attempt in drawn]]
    )
    return Figure(
        svg=sensitivity_figure(
            rows, clipped_shares=dict(zip(screen.radii, screen.clipped_shares, strict=True))
        ),
        caption=caption,
        alt=f"Ratios of {len(drawn)} candidates. {alt}.",
        source=place(*_SCREEN, "candidates"),
    )


def candidates_table(screen: Screen) -> Table:
    """Every attempt, folded."""
    own = own_radius(screen)
    selected = screen.chosen if screen.n_valid else None
    rows: list[tuple[Cell, ...]] = []
    for i, attempt in enumerate(screen.candidates):
        path = (*_SCREEN, "candidates", i)
        best = max(range(len(attempt.ratios)), key=lambda j: attempt.ratios[j], default=0)
        name = Code(text=attempt.record)
        rows.append(
            (
                (name, " (selected)") if i == selected else name,
                cited(str(attempt.n_tokens), *path, "n_tokens"),
                cited(amount(attempt.norm), *path, "norm"),
                cited(f"{attempt.n_altered} of {len(screen.baseline)}", *path, "n_altered"),
                cited(amount(attempt.largest_change), *path, "largest_change"),
                cited(ratio_text(attempt.ratios[own]), *path, "ratios", own),
                cited(ratio_text(attempt.ratios[best]), *path, "ratios", best),
                attempt.problem or "–",
            )
        )
    return Table(
        caption=f"All {len(rows)} attempts, in the order in which they ran. Norm: of the"
        " candidate's own gradient, in gradient units. Altered: baseline records whose gradient it"
        " changed. Change: the largest of a baseline record's clipped gradient.",
        columns=("Candidate", "Tokens", "Norm", "Altered", "Change, in\u00a0C",
                 f"Ratio at C\u00a0=\u00a0{short(screen.clip_norm)}", "Largest ratio", "Problem"),
        rows=tuple(rows),
        numeric=(1, 2, 3, 4, 5, 6),
        folded=True,
        source=place(*_SCREEN, "candidates"),
    )  # fmt: skip


def arms_drawing(found: SensitivityResult) -> Figure | None:
    """The validated ratio of each stack whose checks held, or None if there is none."""
    from insular.reports.figures import ArmRatio, arms_figure

    rows = [
        ArmRatio(stack=arm.stack, clip_norm=at.radius, ratio=at.ratio, exceeds=at.exceeds)
        for arm in found.arms
        if arm.valid
        for at in arm.radii
        if math.isfinite(at.ratio)
    ]
    if not rows:
        return None
    return Figure(
        svg=arms_figure(rows),
        caption="The frozen pair, run afresh in each stack. Filled: above the bound by more than"
        " the margin. A stack that keeps records apart cannot be right of the dashed line.",
        alt="; ".join(
            f"{row.stack} at C = {short(row.clip_norm)}: {ratio_text(row.ratio)}" for row in rows
        ),
        source=place(*_ARMS),
    )


def arms_table(found: SensitivityResult) -> Table:
    """The frozen pair in every stack, with what its checks said."""
    radii = [at.radius for at in found.arms[0].radii]
    n = len(found.screen.baseline)
    rows: list[tuple[Cell, ...]] = []
    for i, arm in enumerate(found.arms):
        path = (*_ARMS, i)
        floor = max((at.repeat_ratio for at in arm.radii), default=0.0)
        name = Code(text=arm.stack)
        rows.append(
            (
                (name, " (under test)") if i == 0 else name,
                *(
                    cited(f"{at.ratio:.7f}", *path, "radii", j, "ratio")
                    for j, at in enumerate(arm.radii)
                ),
                cited(amount(floor), *path, "radii"),
                _exceeds(arm),
                cited(f"{arm.n_altered} of {n}", *path, "n_altered"),
                _checks(arm),
            )
        )
    return Table(
        caption="The frozen pair in every stack: the ratio at the run's own clip norm and at a"
        " tenth of it. Identical repeat: the ratio between two equal batches.",
        columns=("Stack", *(f"C\u00a0=\u00a0{short(radius)}" for radius in radii),
                 "Identical repeat", "Exceeds", "Altered", "Checks"),
        rows=tuple(rows),
        numeric=(*range(1, len(radii) + 2), len(radii) + 3),
        source=place(*_ARMS),
    )  # fmt: skip


def growth_drawing(found: SensitivityResult) -> Figure | None:
    """The ratio by the size of the baseline, or None if it was not measured."""
    from insular.reports.figures import GrowthPoint, growth_figure

    margin = found.arms[0].radii[0].margin
    rows = [
        GrowthPoint(
            stack=found.arms[0].stack,
            n_baseline=point.n_baseline,
            ratio=point.ratio,
            exceeds=point.ratio > 1 + margin,
        )
        for point in found.growth
        if math.isfinite(point.ratio)
    ]
    if not rows:
        return None
    return Figure(
        svg=growth_figure(rows),
        caption="The same candidate added to baselines of other sizes, at the run's own clip norm,"
        " in the stack under test. Filled: above the bound by more than the margin.",
        alt="; ".join(f"{row.n_baseline} records: {in_clip_norms(row.ratio)}" for row in rows),
        source=place("sensitivity", "growth"),
    )


def _exceeds(arm: ValidatedArm) -> str:
    """Whether the pair refutes the bound in a stack; only a valid measurement does."""
    if not arm.valid:
        return "does not count"
    return "yes" if arm.exceeds else "no"


def _checks(arm: ValidatedArm) -> str:
    """That all checks held, or which failed."""
    failed = [check.name for check in arm.checks if not check.passed]
    return f"FAILED: {', '.join(failed)}" if failed else "held"
