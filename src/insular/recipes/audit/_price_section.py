"""What the sensitivity costs in epsilon, and how it grows with the batch."""

from insular.audit.audit_results import AuditResult
from insular.audit.sensitivity.results import Price, PriceRow, SensitivityResult, ValidatedRadius
from insular.recipes._numbers import (
    above_one,
    amount,
    cited,
    counted,
    epsilons,
    in_clip_norms,
    place,
    ratio_text,
    short,
)
from insular.recipes.audit._advice import price
from insular.recipes.audit._sensitivity_tables import growth_drawing
from insular.reports import Block, Cell, Code, Inline, Paragraph, Points, Section, Table, paragraph

_PRICE = ("sensitivity", "price")
_MEANINGS = {
    "claimed": "Claimed: what an accountant assumes",
    "measured": "Measured: this pair",
    "influence bound": "Influence bound: what a proof may assume",
}


def price_sentence(result: AuditResult) -> Paragraph | None:
    """The validated ratio as epsilon in one sentence, or None where no ratio counts."""
    found = result.sensitivity
    if found is None or result.verdict == "undecided" or not found.arms[0].valid:
        return None
    at, terms = found.arms[0].radii[0], found.price
    parts: list[Inline] = [
        "Adding record ",
        Code(text=found.screen.selected.record),
        " moved the clipped sum by ",
        cited(in_clip_norms(at.ratio), "sensitivity", "arms", 0, "radii", 0, "ratio"),
    ]
    if not at.exceeds:
        return Paragraph(parts=(*parts, *_not_above(found)))
    claimed, measured = _row(terms, "claimed"), _row(terms, "measured")
    one, two = epsilons(measured[1].step_epsilon, claimed[1].step_epsilon)
    return Paragraph(
        parts=(
            *parts,
            f", {above_one(at.ratio)} above what an accountant assumes: at noise multiplier ",
            cited(short(terms.noise_multiplier), *_PRICE, "noise_multiplier"),
            " one step costs epsilon ",
            cited(one, *_PRICE, "rows", measured[0], "step_epsilon"),
            " at delta ",
            cited(short(terms.delta), *_PRICE, "delta"),
            " instead of ",
            cited(two, *_PRICE, "rows", claimed[0], "step_epsilon"),
            ".",
        )
    )


def lead_price(result: AuditResult) -> Paragraph:
    """What the first screen says of the price."""
    found = result.sensitivity
    if result.verdict == "isolated" and (found is None or not found.arms[0].exceeds):
        return price(result)[0]
    return price_sentence(result) or price(result)[0]


def price_section(result: AuditResult) -> Section:
    """The price: of the measured sensitivity where there is one, else of the changed batches."""
    found = result.sensitivity
    if found is None or result.verdict == "undecided":
        return Section(heading="Price", blocks=price(result))
    if not found.arms[0].valid:
        failed = paragraph(
            "The pair that the screen selected gives no price: a check failed when it ran afresh."
        )
        return Section(heading="Price", blocks=(failed, *price(result)))
    exceeds = result.verdict == "coupled" or found.arms[0].exceeds
    blocks: list[Block] = [] if exceeds else [price(result)[0]]
    if sentence := price_sentence(result):
        blocks.append(sentence)
    blocks += [_rows(found.price), Points(items=_meanings(found))]
    if drawing := growth_drawing(found):
        blocks += [drawing, _growth(found)]
    return Section(heading="Price", blocks=tuple(blocks))


def _not_above(found: SensitivityResult) -> tuple[Inline, ...]:
    """The end of the sentence where the run's own clip norm shows no excess."""
    other = [
        (j, at) for j, at in enumerate(found.arms[0].radii) if at.exceeds
    ]  # a smaller radius clips more records
    least = (
        ", not more than an accountant assumes. It is the furthest of ",
        cited(counted(len(found.screen.candidates), "candidate"), "sensitivity", "screen"),
        ", and says nothing of the worst case.",
    )
    return (*least, *(part for j, at in other for part in _elsewhere(j, at)))


def _elsewhere(j: int, at: ValidatedRadius) -> tuple[Inline, ...]:
    """What the same pair does at another radius."""
    return (
        f" At C = {short(at.radius)} it does exceed the bound: the ratio is ",
        cited(ratio_text(at.ratio), "sensitivity", "arms", 0, "radii", j, "ratio"),
        ".",
    )


def _row(terms: Price, meaning: str) -> tuple[int, PriceRow]:
    """A row and its position, by its meaning."""
    return next((i, row) for i, row in enumerate(terms.rows) if row.meaning == meaning)


def _rows(terms: Price) -> Table:
    """Each sensitivity as epsilon of one step and of the run."""
    steps = epsilons(*(row.step_epsilon for row in terms.rows))
    runs = epsilons(*(row.run_epsilon for row in terms.rows))
    rows: list[tuple[Cell, ...]] = []
    for i, (row, step, run) in enumerate(zip(terms.rows, steps, runs, strict=True)):
        path = (*_PRICE, "rows", i)
        rows.append(
            (
                _MEANINGS.get(row.meaning, row.meaning),
                cited(in_clip_norms(row.ratio), *path, "ratio"),
                cited(step, *path, "step_epsilon"),
                cited(run, *path, "run_epsilon"),
            )
        )
    return Table(
        caption=f"Epsilon, in nats, at delta {short(terms.delta)} and noise multiplier"
        f" {short(terms.noise_multiplier)}. The run: {terms.steps} steps at sampling probability"
        f" {short(terms.sampling_prob)}, composed by {terms.accountant.upper()}.",
        columns=("What one added record may do", "Sensitivity", "Epsilon of one step",
                 "Epsilon of the run"),
        rows=tuple(rows),
        numeric=(1, 2, 3),
        source=place(*_PRICE),
    )  # fmt: skip


def _meanings(found: SensitivityResult) -> tuple[Cell, ...]:
    """What each number is, and is not."""
    arm, n = found.arms[0], len(found.screen.baseline)
    m = cited(str(arm.n_altered), "sensitivity", "arms", 0, "n_altered")
    bound: tuple[Inline, ...] = (
        "The influence bound is the furthest that the sum can move if the contributions of m other"
        " records may change with the added one: (2m + 1) C. Here m = ",
        m,
        ", the records that this one altered. Without a proof of less, it is what an accountant"
        " may be told.",
    )
    if arm.n_altered < n:
        bound = (*bound, f" Another record may alter all {n}: then it is {2 * n + 1} C.")
    return (
        "The epsilon of one step is exact for this pair, with Gaussian noise and every record"
        " taking part; so what a step of this stack may cost is at least that.",
        "The epsilon of the run is what it would be if every step had this sensitivity. One pair"
        " does not show that they do, nor that none has a larger one.",
        bound,
    )


def _growth(found: SensitivityResult) -> Paragraph:
    """How the ratio changes with the number of records beside the candidate."""
    first, last = found.growth[0], found.growth[-1]
    numbers = (
        "Beside ",
        cited(counted(first.n_baseline, "record"), "sensitivity", "growth", 0, "n_baseline"),
        " the candidate moves the sum by ",
        cited(in_clip_norms(first.ratio), "sensitivity", "growth", 0, "ratio"),
    )
    if len(found.growth) == 1:
        return paragraph(*numbers, ".")
    i = len(found.growth) - 1
    numbers = (
        *numbers,
        ", beside ",
        cited(str(last.n_baseline), "sensitivity", "growth", i, "n_baseline"),
        " by ",
        cited(in_clip_norms(last.ratio), "sensitivity", "growth", i, "ratio"),
    )
    if last.ratio > first.ratio and last.ratio > 1:
        times = (last.ratio - 1) / (first.ratio - 1) if first.ratio > 1 else 0.0
        more = f", {amount(times)} times as far above the bound" if times > 1 else ""
        return paragraph(
            *numbers,
            f"{more}: more records on the device give one record more to move.",
        )
    return paragraph(*numbers, ": it does not grow with the batch here.")
