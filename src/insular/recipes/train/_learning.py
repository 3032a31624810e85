"""What a training run learnt from, what it learnt, and what hid it."""

import math
from statistics import median

from insular.accounting import step_noise_rms, sum_noise_rms
from insular.recipes._numbers import amount, cited, counted, percent, place, short
from insular.recipes.train._words import shared_by
from insular.recipes.train.results import TrainResult
from insular.reports import (
    Block,
    Cell,
    Facts,
    Figure,
    Number,
    Paragraph,
    Section,
    StepClipping,
    StepLoss,
    StepNorms,
    Table,
    paragraph,
    training_clipping_figure,
    training_loss_figure,
    training_noise_figure,
)


def data_section(result: TrainResult) -> Section:
    """What was learnt from, in counts."""
    data, unit = result.data, result.unit

    def count(name: str) -> Number:
        return cited(str(getattr(data, name)), "data", name)

    pairs: list[tuple[str, Cell]] = [
        ("Text", (data.name, ", sha256 ", data.sha256)),
        ("Records", count("n_records")),
        (f"Protected {unit}s", count("n_units")),
        (f"Largest {unit}", (cited(percent(data.largest_share), "data", "largest_share"),
                             " of the records")),
        ("Too short, left out", count("n_too_short")),
        ("Cut at the end", (count("n_truncated"), ", which lost ",
                            cited(counted(data.lost_tokens, "token"), "data", "lost_tokens"))),
        ("Shared texts", (count("duplicates_across_owners"), f" {shared_by(unit)}")),
    ]  # fmt: skip
    if unit == "owner":
        pairs.insert(4, ("Over an owner's limit, left out", count("n_over_limit")))
        pairs.append(("Without an owner", count("n_without_owner")))
    return Section(
        heading="What it learnt from",
        blocks=(
            paragraph(
                "These counts are of the private text. They are exact, without noise: unless a"
                " number was declared public, it is not to leave."
            ),
            Facts(pairs=tuple(pairs), source=place("data")),
        ),
    )


def utility_section(result: TrainResult) -> Section:
    """Loss on public text, before and after."""
    heading, found = "What it is worth on public text", result.utility
    if found is None:
        text = paragraph("Not measured: no public text was named.")
        return Section(heading=heading, blocks=(text,))
    rows: list[tuple[Cell, ...]] = [
        (
            name,
            cited(f"{value:.4f}", "utility", field),
            cited(_perplexity(value), "utility", field),
        )
        for name, value, field in (
            ("Base model", found.before_nats, "before_nats"),
            ("Trained model", found.after_nats, "after_nats"),
        )
    ]
    change = found.after_nats - found.before_nats
    words = "lower" if change < 0 else "higher"
    table = Table(
        caption=f"Mean next-token loss on {counted(found.n_records, 'record')} of {found.text};"
        " perplexity is its exponential.",
        columns=("Model", "Nats per token", "Perplexity"),
        rows=tuple(rows),
        numeric=(1, 2),
        source=place("utility"),
    )
    text = paragraph(
        "The loss of the trained model is ",
        cited(f"{abs(change):.4f}", "utility", "after_nats"),
        f" nats per token {words}. Public text costs no budget; a loss on the private text would.",
    )
    return Section(heading=heading, blocks=(table, text))


def noise_section(result: TrainResult) -> Section:
    """How large the noise is beside what it hides."""
    planned, d = result.planned, result.n_trainable
    multiplier, clip = planned.noise_std / planned.clip_norm, planned.clip_norm
    rms = sum_noise_rms(multiplier, clip_norm=clip, n_params=d)
    rates = [step.learning_rate for step in result.telemetry]
    facts: list[tuple[str, Cell]] = [
        ("One unit adds at most", (cited(f"C = {short(clip)}", "planned", "clip_norm"),)),
        (
            "Noise on the sum",
            (
                "s C √d = ",
                cited(amount(multiplier), "planned", "noise_std"),
                f" × {short(clip)} × √",
                cited(str(d), "n_trainable"),
                f" = {amount(rms)}",
            ),
        ),
    ]
    if rates:
        rate = max(rates)
        step = step_noise_rms(
            multiplier,
            clip_norm=clip,
            n_params=d,
            learning_rate=rate,
            expected_batch_size=planned.divisor,
        )
        facts.append(
            (
                "Noise in one step",
                (
                    f"lr s C √d / divisor = {short(rate)} × {amount(rms)} / ",
                    cited(short(planned.divisor), "planned", "divisor"),
                    f" = {amount(step)}, for plain SGD; an adaptive optimiser rescales it",
                ),
            )
        )
    blocks: list[Block] = [
        paragraph(
            "The noise hides one unit, which is at most C long, in every direction at once: so its"
            " length grows with the number of trained coordinates d, and that of the signal does"
            " not. What repeats from step to step adds up; noise does so only by the root of their"
            " number."
        ),
        Facts(pairs=tuple(facts), source="results.json"),
    ]
    if signal := _signal_sentence(result):
        blocks.append(signal)
    return Section(heading="Signal against noise", blocks=tuple(blocks))


def telemetry_section(result: TrainResult) -> Section:
    """Every step from inside, marked as private."""
    heading = "Inside the run: private, outside the guarantee"
    steps = result.telemetry
    if not steps:
        return Section(heading=heading, blocks=(paragraph("No step was recorded."),))
    blocks: list[Block] = [
        paragraph(
            "What follows was computed from the private text without noise. It is for who ran the"
            " training, and no part of it may be published."
        )
    ]
    broken = sum(step.n_non_finite for step in steps)
    if broken:
        blocks.append(
            paragraph(
                f"{counted(broken, 'contribution')} had a gradient that is not finite, and counted"
                " as zero: ",
                cited("telemetry", "telemetry"),
                ".",
            )
        )
    blocks += [_loss(result), _clipping(result), _norms(result)]
    return Section(heading=heading, blocks=tuple(blocks))


def _signal_sentence(result: TrainResult) -> Paragraph | None:
    """The median step, private."""
    ratios = [s.signal_norm / s.noise_norm for s in result.telemetry if s.noise_norm > 0]
    if not ratios:
        return None
    signal = median(step.signal_norm for step in result.telemetry)
    noise = median(step.noise_norm for step in result.telemetry)
    return paragraph(
        "Measured, and private: in the median step the clipped sum was ",
        cited(amount(signal), "telemetry"),
        " long and the noise ",
        cited(amount(noise), "telemetry"),
        "; the median ratio is ",
        cited(amount(median(ratios)), "telemetry"),
        ".",
    )


def _loss(result: TrainResult) -> Figure:
    """Loss per step."""
    rows = [StepLoss(step=s.step, loss_nats=s.loss_nats) for s in result.telemetry]
    return Figure(
        svg=training_loss_figure(rows),
        caption="Private, outside the guarantee. Mean loss (nats per token) of the records drawn in"
        " each step, and its running mean: other records are drawn each time, so a single step says"
        " little. It falls where training learns.",
        alt="Loss of the drawn records against steps, with its running mean.",
        source=place("telemetry"),
    )


def _clipping(result: TrainResult) -> Figure:
    """Clipped share, and median length against C."""
    rows = [
        StepClipping(
            step=s.step,
            clipped_share=s.n_clipped / s.n_units if s.n_units else None,
            median_norm=s.median_norm
            if s.median_norm is not None and math.isfinite(s.median_norm)
            else None,
        )
        for s in result.telemetry
    ]
    clip = result.planned.clip_norm
    return Figure(
        svg=training_clipping_figure(rows, clip_norm=clip),
        caption="Private, outside the guarantee. Above: units whose contribution was longer than C"
        " (per cent). Below: the median contribution before clipping, in gradient units, against C"
        f" = {short(clip)}. Far above C, directions are kept and lengths lost; far below it, C is"
        " larger than needed, and the noise with it.",
        alt=f"Share of clipped units, and median contribution against C = {short(clip)}.",
        source=place("telemetry"),
    )


def _norms(result: TrainResult) -> Figure:
    """Signal, noise and their ratio."""
    rows = [
        StepNorms(step=s.step, signal_norm=s.signal_norm, noise_norm=s.noise_norm)
        for s in result.telemetry
    ]
    return Figure(
        svg=training_noise_figure(rows),
        caption="Private, outside the guarantee. Above: length of the clipped sum and of the noise"
        " that was added to it (gradient units, logarithmic). Below: their ratio. A ratio under 1"
        " is usual: training lives on what repeats over the steps.",
        alt="Lengths of signal and noise against steps, and their ratio.",
        source=place("telemetry"),
    )


def _perplexity(nats: float) -> str:
    """The exponential, where it fits a float."""
    return f"{math.exp(nats):.2f}" if nats < 700 else "not a number that fits"
