"""The runs of a search, the public list that they were drawn from, and what the promise needs."""

from collections import Counter

from insular.recipes._numbers import amount, cited, place
from insular.recipes.train._words import linked
from insular.recipes.train.search._words import listed_from
from insular.recipes.train.search.results import SearchResult
from insular.recipes.train.search.spec import Candidate
from insular.reports import Block, Cell, Points, Section, Table, paragraph

_SETTINGS = ("Learning rate", "Clip norm", "Optimiser", "Weight decay", "Rank")
_LONG = 12


def runs_section(result: SearchResult) -> Section:
    """Each run with its settings, its public loss and its differences."""
    heading = "The runs: private, outside the guarantee"
    if not result.runs:
        text = paragraph(
            "No run was drawn, so nothing was trained. The price is paid all the same."
        )
        return Section(heading=heading, blocks=(text,))
    table = Table(
        caption="Private. Every run that was drawn, in order; the kept one is marked. Loss is the"
        " mean next-token loss on the public text.",
        columns=("Run", *_SETTINGS, "Public loss, nats per token", "Releases", "Differences",
                 "Log"),
        rows=tuple(_run(result, i) for i in range(len(result.runs))),
        numeric=(1, 2, 4, 5, 6, 7, 8),
        folded=len(result.runs) > _LONG,
        source=place("runs"),
    )  # fmt: skip
    found: list[Cell] = [
        (f"Run {i + 1}: ", cited(text, "runs", i, "differences", j))
        for i, run in enumerate(result.runs)
        for j, text in enumerate(run.differences)
    ]
    blocks: list[Block] = [table]
    if found:
        blocks = [paragraph("Not as planned:"), Points(items=tuple(found)), table]
    if result.base_nats is not None:
        before = cited(f"{result.base_nats:.4f}", "base_nats")
        blocks.append(paragraph("Before training, that loss was ", before, "."))
    return Section(heading=heading, blocks=tuple(blocks))


def list_section(result: SearchResult) -> Section:
    """What could have been drawn, and how often it was."""
    drawn = Counter(run.settings for run in result.runs)
    table = Table(
        caption=f"What settings were drawn from: {listed_from(result)}, each as likely as another,"
        " with repetition.",
        columns=(*_SETTINGS, "Times drawn"),
        rows=tuple(
            (*_settings(one, "candidates", i), cited(str(drawn[one]), "runs"))
            for i, one in enumerate(result.candidates)
        ),
        numeric=(0, 1, 3, 4, 5),
        folded=len(result.candidates) > _LONG,
        source=place("candidates"),
    )
    return Section(heading="What could be drawn", blocks=(table,))


def rests_on_section(result: SearchResult) -> Section:
    """What must be true for the price to hold, and what it does not cover."""
    items: tuple[Cell, ...] = (
        ("The text of the choice, ", cited(result.scored_on, "scored_on"), ", is public: whoever"
         " named it has said so. A text with a record of the protected one is refused."),
        "The public list was written without looking at the protected text, or at runs on it.",
        "Every run is the same mechanism: sampler, batch, steps and noise are not searched. Each"
        " log was compared with the plan.",
        "Every run audited its own stack first. One that couples records is refused unless run.toml"
        " accepts that in writing, and the noise then covers it.",
        "The number of runs, the losers and their scores stay hidden: this page, the logs, the"
        " draws and the results do not leave.",
        "Not covered: what the base model learnt before.",
    )  # fmt: skip
    return Section(heading="What this rests on", blocks=(Points(items=items),))


def _run(result: SearchResult, i: int) -> tuple[Cell, ...]:
    """One run as a row."""
    run = result.runs[i]
    return (
        f"{i + 1}, kept" if i == result.winner else str(i + 1),
        *_settings(run.settings, "runs", i, "settings"),
        cited(f"{run.score_nats:.4f}", "runs", i, "score_nats"),
        cited(str(run.n_releases), "runs", i, "n_releases"),
        cited(str(len(run.differences)), "runs", i, "differences"),
        linked(run.log_file, run.log_file),
    )


def _settings(one: Candidate, *path: str | int) -> tuple[Cell, ...]:
    """Settings as cells."""
    return (
        cited(amount(one.learning_rate), *path, "learning_rate"),
        cited(amount(one.clip_norm), *path, "clip_norm"),
        cited(one.optimiser, *path, "optimiser"),
        cited(amount(one.weight_decay), *path, "weight_decay"),
        cited(str(one.lora_rank), *path, "lora_rank"),
    )
