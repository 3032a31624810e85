"""Is the guarantee the one that ran, and what is it? The answer, and all that speaks against it."""

import math
from dataclasses import dataclass
from typing import final

from insular.recipes._numbers import cited, counted, short
from insular.recipes.audit._words import ended
from insular.recipes.train._words import noise_sources, pair
from insular.recipes.train.results import TrainResult
from insular.reports import Inline, Paragraph, VerdictKind, paragraph


@final
@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a reader must know first."""

    word: str
    """In a few words."""
    kind: VerdictKind
    """What it means for the guarantee."""
    sentence: Paragraph
    """In a sentence."""
    protects: bool
    """Whether the guarantee holds for what ran, planned or not."""


def answers(result: TrainResult) -> tuple[Answer, ...]:
    """The answer, and every further reason why the guarantee is not the planned one.

    Guarantees:
        * What takes the guarantee away stands before what changes it, and both before a guarantee
          that holds.
        * A finite epsilon is called differentially private only where noise was secret, covers
          the stack and was counted by an accountant that guarantees.

    Args:
        result: What ran.

    Returns:
        At least one; the first is the headline.
    """
    found = (
        *_nothing_protected(result),
        *_not_as_planned(result),
        *_not_alive(result),
        *_undecided(result),
    )
    return found or (_holds(result),)


def _holds(result: TrainResult) -> Answer:
    """The guarantee that ran, with isolated records or with noise for coupled ones."""
    ran, planned = result.executed, result.planned
    start = (
        "This adapter is ",
        *pair(result),
        f"-differentially private for each {result.unit}: ",
        cited(f"{ran.n_releases} of {planned.steps}", "executed", "n_releases"),
        " planned releases ran as planned, on a stack that ",
    )
    if result.isolation.verdict == "isolated":
        sentence = paragraph(*start, "kept records apart.")
        return Answer(word="Guarantee as planned", kind="good", sentence=sentence, protects=True)
    coupled = result.isolation.verdict == "coupled"
    accepted = result.isolation.accepted
    sentence = paragraph(
        "Records are coupled on this stack" if coupled else "Whether records are coupled is open",
        f"; that was accepted (“{accepted}”)" if accepted else "",
        ", and the noise is scaled to ",
        cited(f"{short(planned.influence)}\u00a0C", "planned", "influence"),
        ", the furthest that one of them can then move the sum. So this adapter is ",
        *pair(result),
        f"-differentially private for each {result.unit}: ",
        cited(f"{ran.n_releases} of {planned.steps}", "executed", "n_releases"),
        " planned releases ran as planned.",
    )
    word = "Guarantee by a bound: records are coupled" if coupled else "Guarantee by a bound"
    return Answer(word=word, kind="good", sentence=sentence, protects=True)


def _nothing_protected(result: TrainResult) -> tuple[Answer, ...]:
    """Reasons for which no guarantee is left."""
    found: list[Paragraph] = []
    sources = noise_sources(result)
    if "seeded" in sources or result.planned.noise_source == "seeded":
        found.append(
            paragraph(
                "Nothing is protected: the noise came from a ",
                cited("seed", "planned", "noise_source"),
                ", and whoever knows the seed can take it away. This is a run for a test; do not"
                " release its adapter as private.",
            )
        )
    elif "not_drawn" in sources:
        found.append(
            paragraph(
                "Nothing is protected: by the ",
                cited("log", "executed", "event"),
                ", no noise was drawn.",
            )
        )
    if not result.costs:
        found.append(paragraph("Nothing is promised: no accountant has counted what ran."))
    elif math.isinf(result.epsilon) or result.delta >= 1:
        numbers = pair(result)
        found.append(paragraph("Nothing is protected: what ran costs ", *numbers, "."))
    elif result.costs[0].standing == "estimate":
        how = cited(result.costs[0].caveat, "costs", 0, "caveat")
        found.append(
            paragraph("Nothing is promised: ", *pair(result), " is an estimate; ", how, ".")
        )
    if result.isolation.verdict == "coupled" and result.planned.influence <= 1:
        found.append(
            paragraph(
                "Nothing is promised: records are ",
                cited("coupled", "isolation", "verdict"),
                " on this stack, and the noise was scaled as if they were not (",
                cited("1 C", "planned", "influence"),
                ").",
            )
        )
    return tuple(
        Answer(word=text.plain.partition(":")[0], kind="bad", sentence=text, protects=False)
        for text in found
    )


def _not_as_planned(result: TrainResult) -> tuple[Answer, ...]:
    """What the log has and the plan has not."""
    n = len(result.executed.differences)
    if n == 0:
        return ()
    spent = (" By the log alone, what ran costs ", *pair(result), ".") if result.costs else ()
    sentence = paragraph(
        "The planned guarantee is not the one that ran: log and plan differ in ",
        cited(counted(n, "point"), "executed", "differences"),
        ", the first: ",
        cited(ended(result.executed.differences[0]), "executed", "differences", 0),
        *spent,
    )
    return (Answer(word="Not as planned", kind="bad", sentence=sentence, protects=False),)


def _not_alive(result: TrainResult) -> tuple[Answer, ...]:
    """What was trained, and what was not."""
    found = result.liveness
    if found.alive:
        return ()
    lists = (
        ("without_gradient", found.without_gradient, "had no gradient from any record"),
        ("unmoved", found.unmoved, "did not move"),
        ("saved_differs", found.saved_differs, "are not in the saved adapter as trained"),
    )
    parts: list[Inline] = []
    for name, tensors, words in lists:
        if tensors:
            parts += [", " if parts else "", cited(str(len(tensors)), "liveness", name)]
            parts.append(f" {words}")
    sentence = paragraph(
        "Training did not happen as it should: of ",
        cited(counted(found.n_tensors, "trainable tensor"), "liveness", "n_tensors"),
        ", ",
        *parts,
        ". What ran is paid for all the same",
        *((": ", *pair(result)) if result.costs else ()),
        ".",
    )
    # noise covers a dead tensor too; a file with other values was not made by the run
    protects = not found.saved_differs
    return (Answer(word="Training failed", kind="bad", sentence=sentence, protects=protects),)


def _undecided(result: TrainResult) -> tuple[Answer, ...]:
    """A stack on which no verdict was reached."""
    if result.isolation.verdict != "undecided" or result.planned.influence > 1:
        return ()
    sentence = paragraph(
        "Undecided: whether this stack keeps records apart is ",
        cited("not known", "isolation", "verdict"),
        ", so ",
        *pair(result),
        " is not proven.",
    )
    return (Answer(word="Undecided", kind="open", sentence=sentence, protects=False),)
