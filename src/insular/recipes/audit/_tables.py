"""The tables and figures of an isolation audit, one arm or all arms at a time."""

import math
from collections.abc import Sequence

from insular.recipes._numbers import amount
from insular.recipes.audit._words import AXIS_WORDS, KINDS, Arm, ids, nats, seconds
from insular.reports import Cell, Code, Facts, Figure, Table


def path_facts(arm: Arm, *, clip_norm: float) -> Facts:
    """The stack and the path, as read from the objects that ran."""
    path, stack = arm.result.path, arm.result.manifest
    pairs: list[tuple[str, Cell]] = [
        ("Stack", Code(text=arm.result.arm)),
        ("Model", (Code(text=stack.model), f", weights {stack.model_digest or 'without digest'}")),
        ("Device", f"{path.device}, {path.threads} threads"),
        ("Mode", path.mode),
        ("Activations", path.dtype),
        ("Shapes", ", ".join(f"{records} × {tokens}" for records, tokens in path.shapes)),
        ("Operators in one pass", _counted(path.operators)),
        ("Frozen linear layers", _counted(stack.replaced)),
        ("Trainable", f"{stack.n_params:,} coordinates in {len(stack.trainable)} tensors"),
        ("Gradients by", stack.engine),
        ("Loss", stack.loss),
        ("Clipping", stack.clipping),
        ("Clip norm C", f"{clip_norm:g}, in gradient units"),
        ("Clipped", f"{arm.result.clipped_share:.0%} of the records"),
        ("Batch", f"{stack.physical_batch} records on the device, {stack.logical_batch} in a step"),
        ("Sampler", stack.sampler),
        ("Versions", ", ".join(f"{k} {v}" for k, v in path.versions.items()) or "not stated"),
    ]
    return Facts(pairs=tuple(pairs), source=arm.source())


def paths_table(arms: Sequence[Arm]) -> Table:
    """The path of every repair, folded."""
    rows = tuple(
        (
            Code(text=arm.result.arm),
            arm.result.path.device,
            arm.result.path.mode,
            arm.result.path.dtype,
            _counted(arm.result.path.operators),
            _counted(arm.result.manifest.replaced),
        )
        for arm in arms
    )
    columns = ("Stack", "Device", "Mode", "Activations", "Operators in one pass", "Frozen layers")
    caption = "The path of each repair."
    return Table(
        caption=caption, columns=columns, rows=rows, folded=True, source="results.json#/repairs"
    )


def movements_table(arm: Arm, *, verdict: str) -> Table:
    """The furthest movement of each axis with a verdict."""
    rows: list[tuple[Cell, ...]] = []
    for i, finding in enumerate(arm.result.axes):
        if finding.verdict == verdict and finding.worst is not None:
            case = arm.case(finding.worst_case)[1]
            rows.append(
                (
                    AXIS_WORDS[finding.axis],
                    Code(text=ids(case.changed, most=2)),
                    Code(text=ids(case.brought_in)) if case.brought_in else "–",
                    Code(text=finding.worst.record),
                    *arm.moved(finding.worst, "axes", i, "worst"),
                )
            )
    return Table(
        caption="For each kind of change, the record that moved furthest while it stayed the same."
        " Clipped: its clipped gradient. Gradient: over its own norm. Logits: the largest change.",
        columns=("Change", "Changed", "Brought in", "Stayed", "Clipped, in\u00a0C",
                 "Gradient", "Logits"),
        rows=tuple(rows),
        numeric=(4, 5, 6),
        source=arm.source("axes"),
    )  # fmt: skip


def repairs_table(arms: Sequence[Arm]) -> Table:
    """Verdict, time and loss of every arm; the first is the stack under test."""
    reference = arms[0].result.seconds_per_step
    rows: list[tuple[Cell, ...]] = []
    for arm in arms:
        result = arm.result
        ratio = result.seconds_per_step / reference if reference else math.nan
        name = Code(text=result.arm)
        rows.append(
            (
                (name, " (under test)") if arm is arms[0] else name,
                result.verdict,
                arm.number(seconds(result.seconds_per_step), "seconds_per_step"),
                f"{ratio:.2f}",
                arm.number(nats(result.mean_loss_nats), "mean_loss_nats"),
                arm.number(_furthest(arm), "axes"),
            )
        )
    return Table(
        caption="Every stack on the same records. Times are medians on this machine. Loss: the mean"
        " of the batch. The furthest movement counts all changes, rounding included.",
        columns=("Stack", "Verdict", "Time of a step", "Relative", "Loss, in\u00a0nats",
                 "Furthest, in\u00a0C"),
        rows=tuple(rows),
        numeric=(2, 3, 4, 5),
        source="results.json",
    )  # fmt: skip


def axes_table(arm: Arm, *, folded: bool) -> Table:
    """One line for each kind of change."""
    rows: list[tuple[Cell, ...]] = []
    for i, finding in enumerate(arm.result.axes):
        worst = finding.worst
        rows.append(
            (
                AXIS_WORDS[finding.axis],
                finding.verdict,
                arm.number(str(finding.n_comparisons), "axes", i, "n_comparisons"),
                arm.number(str(finding.n_moved), "axes", i, "n_moved"),
                "0" if worst is None else arm.moved(worst, "axes", i, "worst")[0],
                arm.number(amount(finding.floor), "axes", i, "floor"),
                Code(text=finding.worst_case) if worst else "–",
            )
        )
    return Table(
        caption=f"{arm.result.arm}: {arm.result.verdict}. Records compared, and how many moved.",
        columns=("Change", "Verdict", "Compared", "Moved", "Furthest, in\u00a0C",
                 "Identical repeat", "Case"),
        rows=tuple(rows),
        numeric=(2, 3, 4, 5),
        folded=folded,
        source=arm.source("axes"),
    )  # fmt: skip


def entry_table(arms: Sequence[Arm], *, folded: bool) -> Table | None:
    """Where records first part from their base run, or None if nowhere."""
    rows: list[tuple[Cell, ...]] = []
    for arm in arms:
        for i, finding in enumerate(arm.result.axes):
            first = finding.first_difference
            if first is not None:
                place = ("axes", i, "first_difference")
                rows.append(
                    (
                        Code(text=arm.result.arm),
                        AXIS_WORDS[finding.axis],
                        Code(text=first.module),
                        first.phase,
                        arm.number(amount(first.relative), *place, "relative"),
                        arm.number(amount(first.rounding_bound), *place, "rounding_bound"),
                        "within rounding" if first.explained_by_rounding else "beyond rounding",
                    )
                )
    if not rows:
        return None
    return Table(
        caption="The first module whose output differs, for the record that moved furthest:"
        f" {', '.join(dict.fromkeys(arm.result.arm for arm in arms))}.",
        columns=("Stack", "Change", "Module", "Pass", "Relative change", "Rounding bound", "Size"),
        rows=tuple(rows),
        numeric=(4, 5),
        folded=folded,
        source="results.json",
    )


def checks_table(arm: Arm, *, folded: bool) -> Table:
    """Every condition of validity, failed ones first."""
    ordered = sorted(enumerate(arm.result.checks), key=lambda pair: pair[1].passed)
    failed = len(arm.result.failed_checks)
    state = f"{failed} of {len(ordered)} failed" if failed else f"all {len(ordered)} held"
    return Table(
        caption=f"{arm.result.arm}: {state}.",
        columns=("Check", "Result", "What was measured"),
        rows=tuple(
            (
                check.name,
                arm.number("held" if check.passed else "FAILED", "checks", i),
                check.detail,
            )
            for i, check in ordered
        ),
        folded=folded,
        source=arm.source("checks"),
    )


def cases_table(arm: Arm) -> Table:
    """Every changed batch, folded."""
    rows: list[tuple[Cell, ...]] = []
    for i, case in enumerate(arm.result.cases):
        worst = case.worst
        clipped, _, logits = arm.moved(
            worst, "cases", i, "influences", case.influences.index(worst)
        )
        moved = sum(not influence.bitwise_equal for influence in case.influences)
        place = ("cases", i, "influences")
        brought = (" → ", Code(text=ids(case.brought_in))) if case.brought_in else ()
        rows.append(
            (
                Code(text=case.name),
                (Code(text=ids(case.changed, most=2)), *brought) if case.changed else "–",
                arm.number(f"{moved} of {len(case.influences)}", *place),
                Code(text=worst.record) if moved else "–",
                clipped,
                logits,
                "–"
                if case.sum_ratio is None
                else arm.number(amount(case.sum_ratio), "cases", i, "sum_ratio"),
            )
        )
    return Table(
        caption=f"{arm.result.arm}: {len(rows)} changed batches.",
        columns=(
            "Case",
            "Changed",
            "Moved",
            "Furthest",
            "Clipped, in\u00a0C",
            "Logits",
            "Sum / bound",
        ),
        rows=tuple(rows),
        numeric=(2, 4, 5, 6),
        folded=True,
        source=arm.source("cases"),
    )


def influence_drawing(arms: Sequence[Arm]) -> Figure | None:
    """How far unchanged records moved, in every arm."""
    from insular.reports.figures import InfluencePoint, influence_figure

    rows = [
        InfluencePoint(
            stack=arm.result.arm,
            change=finding.axis,
            distance=finding.worst.clipped_distance if finding.worst else 0.0,
            coupled=finding.verdict == "coupled",
        )
        for arm in arms
        for finding in arm.result.axes
        if finding.worst is None or math.isfinite(finding.worst.clipped_distance)
    ]
    if not rows:
        return None
    caption = (
        "The largest movement of a clipped gradient whose own record stayed the same. Independent"
        " records stay in the grey column at 0; the dashed line is the most that clipping allows."
        " Filled: coupled. Hollow: equal, or a rounding of another shape."
    )
    alt = "; ".join(f"{row.stack}, {row.change}: {amount(row.distance)} C" for row in rows)
    return Figure(svg=influence_figure(rows), caption=caption, alt=alt, source="results.json")


def time_drawing(arms: Sequence[Arm]) -> Figure | None:
    """The time of every arm over that of the stack under test."""
    from insular.reports.figures import TimeBar, time_figure

    rows = [
        TimeBar(
            stack=arm.result.arm,
            seconds=arm.result.seconds_per_step,
            outcome=KINDS[arm.result.verdict],
            word=arm.result.verdict,
        )
        for arm in arms
    ]
    if len(rows) < 2 or any(not 0 < row.seconds < math.inf for row in rows):
        return None
    caption = (
        "What each stack costs. Shorter is faster; the dotted line is the stack under test. Plain:"
        " isolated. Hatched: coupled. Crossed: undecided."
    )
    alt = "; ".join(f"{row.stack}: {seconds(row.seconds)} a step, {row.word}" for row in rows)
    return Figure(svg=time_figure(rows), caption=caption, alt=alt, source="results.json")


def _furthest(arm: Arm) -> str:
    """The largest movement over all axes."""
    distances = [f.worst.clipped_distance for f in arm.result.axes if f.worst is not None]
    return amount(max(distances, default=0.0))


def _counted(counts: dict[str, int]) -> str:
    """Names with their number."""
    return ", ".join(f"{name} ×{n}" for name, n in counts.items()) or "none seen"
