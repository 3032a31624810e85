"""The promise of a training run, and what ran against the plan."""

from insular.accounting import PrivacyCost
from insular.accounting.events import Event, RepeatAndSelectEvent, parts_of
from insular.recipes._numbers import amount, cited, counted, place, short
from insular.recipes.budget._words import cost_row, factor
from insular.recipes.train._words import (
    neighbours,
    noise_sources,
    pair,
    sampler_parts,
    unit_words,
)
from insular.recipes.train.results import TrainResult
from insular.reports import (
    Block,
    Cell,
    EpsilonPoint,
    Facts,
    Figure,
    Inline,
    Paragraph,
    Points,
    Section,
    Table,
    paragraph,
    training_epsilon_figure,
)

_PLAIN_FACTS = ("clip norm, influence, divisor and sampler of every release; the order of the"
                " steps; the sizes of the draws; the length of each noise vector")  # fmt: skip


def promise_section(result: TrainResult, *, protects: bool) -> Section:
    """Costs by accountant, delta with its reason, and how epsilon grew."""
    target = (
        cited(short(result.target_epsilon), "target_epsilon")
        if result.target_epsilon is not None
        else "none: the noise was given"
    )
    facts: tuple[tuple[str, Cell], ...] = (
        ("Unit", unit_words(result)),
        ("Neighbours", neighbours(result.relation, result.unit)),
        (
            "Sampler",
            sampler_parts(result.planned.sampler, result.unit),
        ),
        ("Delta", (cited(short(result.delta), "delta"), f"; {result.delta_reason}")),
        ("Target epsilon", target),
        ("Clipping", result.clipping),
        ("Noise", result.noise),
    )
    blocks: list[Block] = [Facts(pairs=facts, source="results.json")]
    if result.costs:
        blocks += [*_meaning(result, protects=protects), _costs(result.costs)]
        blocks += _epsilon_drawing(result)
    return Section(heading="The promise", blocks=tuple(blocks))


def plan_section(result: TrainResult) -> Section:
    """The plan and the log side by side, and every difference."""
    n, differences = len(result.executed.differences), result.executed.differences
    blocks: list[Block] = [_comparison(result)]
    if differences:
        blocks.append(
            paragraph("Log and plan differ in ", cited(counted(n, "point"), "executed"), ":")
        )
        blocks.append(
            Points(
                items=tuple(
                    cited(text, "executed", "differences", i) for i, text in enumerate(differences)
                )
            )
        )
    else:
        blocks.append(paragraph(f"Nothing differs. Compared were also {_PLAIN_FACTS}."))
    if sentence := resumed_sentence(result):
        blocks.append(sentence)
    return Section(heading="What ran against the plan", blocks=tuple(blocks))


def resumed_sentence(result: TrainResult) -> Paragraph | None:
    """What a kill has cost, for a run that was resumed."""
    ran = result.executed
    if ran.n_starts < 2:
        return None
    again = ran.n_releases - ran.n_steps
    parts: list[Inline] = [
        "The run was started ",
        cited(f"{ran.n_starts} times", "executed", "n_starts"),
        ". ",
    ]
    if again:
        parts += [
            cited(counted(again, "release"), "executed", "n_steps"),
            f" {'was' if again == 1 else 'were'} made for steps that a stop had cut off and that"
            " were taken again: such a step is paid for twice.",
        ]
    else:
        parts.append("No step was taken twice.")
    if ran.n_steps < result.planned.steps:
        n = result.planned.steps - ran.n_steps
        parts.append(f" The run has {counted(n, 'step')} fewer than planned.")
    return Paragraph(parts=tuple(parts))


def _meaning(result: TrainResult, *, protects: bool) -> tuple[Block, ...]:
    """What the numbers say of one unit, where they say something."""
    if not protects:
        return (
            paragraph("These numbers are what the accountants compute, and no promise: see above."),
        )
    unit = result.unit
    other = (
        f"without that {unit}"
        if result.relation == "add_or_remove_one"
        else f"with another {unit} in its place"
    )
    return (
        paragraph(
            *pair(result),
            f" means: any outcome of the training is at most {factor(result.epsilon)} times as"
            f" probable with one {unit} in the data as {other}, and the other way round, plus"
            f" {short(result.delta)}. It is a bound for every {unit} and every reader, whatever"
            " else they know.",
        ),
    )


def _costs(costs: tuple[PrivacyCost, ...]) -> Table:
    """Each accountant; the first one is the promise."""
    rows: list[tuple[Cell, ...]] = []
    for i, cost in enumerate(costs):
        name, epsilon, standing, method = cost_row(cost)
        rows.append(
            (
                f"{name}{', the promise' if i == 0 else ''}",
                cited(epsilon, "costs", i, "epsilon"),
                standing,
                method,
            )
        )
    return Table(
        caption=f"What ran costs, in nats, rounded up, at delta {short(costs[0].delta)}; computed"
        f" from the log alone by {costs[0].version}.",
        columns=("Accountant", "Epsilon", "Standing", "How"),
        rows=tuple(rows),
        numeric=(1,),
        source=place("costs"),
    )


def _epsilon_drawing(result: TrainResult) -> tuple[Figure, ...]:
    """How epsilon grew."""
    if not result.epsilon_path or result.executed.n_releases < 1:
        return ()
    rows = [EpsilonPoint(n_releases=p.n_releases, epsilon=p.epsilon) for p in result.epsilon_path]
    svg = training_epsilon_figure(
        rows,
        promise=result.epsilon,
        target=result.target_epsilon,
        n_releases=result.executed.n_releases,
    )
    unused = result.target_epsilon is not None and result.epsilon < 0.99 * result.target_epsilon
    caption = (
        "Epsilon (nats) against the noisy sums that were made: a run that is stopped earlier has"
        " spent what the line says there."
        + (" What lies between promise and target was not used." if unused else "")
    )
    alt = f"Epsilon grows to {amount(result.epsilon)} over {result.executed.n_releases} releases."
    return (Figure(svg=svg, caption=caption, alt=alt, source=place("epsilon_path")),)


def _comparison(result: TrainResult) -> Table:
    """Plan and log."""
    planned, ran = result.planned, result.executed
    sources = ", ".join(noise_sources(result)) or "none"
    rows: tuple[tuple[Cell, ...], ...] = (
        (
            "Releases",
            cited(str(planned.steps), "planned", "steps"),
            cited(str(ran.n_releases), "executed", "n_releases"),
        ),
        (
            "Different steps",
            cited(str(planned.steps), "planned", "steps"),
            cited(str(ran.n_steps), "executed", "n_steps"),
        ),
        (
            "Mechanism",
            cited(_mechanism(planned.event), "planned", "event"),
            cited(_mechanism(ran.event), "executed", "event"),
        ),
        (
            "Noise generator",
            cited(planned.noise_source, "planned", "noise_source"),
            cited(sources, "executed", "event"),
        ),
        (
            "Noise, measured over planned",
            "1",
            cited(f"{ran.noise_rms_over_std:.5f}", "executed", "noise_rms_over_std"),
        ),
        ("Starts", "1", cited(str(ran.n_starts), "executed", "n_starts")),
        (
            "Releases of noise alone",
            "by chance",
            cited(str(ran.n_empty), "executed", "n_empty"),
        ),
    )
    return Table(
        caption="What was planned, and what the log of releases says that ran. The log was on disk"
        " before each noisy sum was used.",
        columns=("What", "Planned", "Ran"),
        rows=rows,
    )


def _mechanism(event: Event) -> str:
    """The mechanisms of an event with how often each ran."""
    words = []
    for part, count in parts_of(event):
        if isinstance(part, RepeatAndSelectEvent):
            words.append(f"{count} × {part.kind.replace('_', ' ')}")
            continue
        name = part.kind.replace("_", " ")
        facts = {
            "noise": getattr(part, "noise_multiplier", None),
            "q": getattr(part, "sampling_prob", None),
        }
        shown = ", ".join(f"{k} {v:.6g}" for k, v in facts.items() if v is not None)
        words.append(f"{count} × {name} ({shown})" if shown else f"{count} × {name}")
    return "; ".join(words) or "nothing"
