"""What a private hyperparameter search promises, kept and hides, in words. Torch-free."""

import math
from dataclasses import dataclass
from typing import final

from insular.recipes._numbers import amount, cited, counted, short
from insular.recipes.audit._words import ended
from insular.recipes.train.search.results import SearchResult
from insular.recipes.train.search.spec import Candidate
from insular.reports import Paragraph, VerdictKind, paragraph

_LAWS = {math.inf: "Poisson", 1.0: "geometric", 0.0: "logarithmic"}
LOSERS = (
    "The other runs are not paid for: their adapters are deleted, and their number, scores and logs"
    " in this folder must not leave."
)
"""What the price of the search does not cover."""


@final
@dataclass(frozen=True, kw_only=True)
class SearchAnswer:
    """What a reader must know first."""

    word: str
    """In two words."""
    kind: VerdictKind
    """What it means for the guarantee."""
    sentence: Paragraph
    """In a sentence or two; tells neither the number of runs nor a loser's score."""
    protects: bool
    """Whether the promise holds for what is kept, if anything is."""


def search_answer(result: SearchResult) -> SearchAnswer:
    """Say whether the search is what was promised, and what was kept.

    Guarantees:
        * A run that was not as planned, noise that is no secret and an infinite price each take
          the promise away.
        * A search that kept nothing has cost what a search costs.

    Args:
        result: What was searched.

    Returns:
        The answer.
    """
    if problem := _problem(result):
        return SearchAnswer(word="no promise", kind="bad", sentence=problem, protects=False)
    if result.winner is None:
        nothing = paragraph(
            "No run gave an adapter to keep: none was drawn, or no loss was a number. The cost is"
            " that of the search all the same: epsilon ",
            cited(thousandths(result.epsilon), "cost", "epsilon"),
            " at delta ",
            cited(short(result.delta), "delta"),
            ".",
        )
        return SearchAnswer(word="nothing kept", kind="open", sentence=nothing, protects=True)
    kept = paragraph(
        "The adapter with the least loss on ",
        cited(result.scored_on, "scored_on"),
        ", which is declared public, is kept. Choosing it cost epsilon ",
        cited(thousandths(result.epsilon), "cost", "epsilon"),
        " at delta ",
        cited(short(result.delta), "delta"),
        ", whatever number of runs was drawn.",
    )
    return SearchAnswer(word="searched", kind="good", sentence=kept, protects=True)


def law_words(shape: float) -> str:
    """The law of the number of runs by its name.

    Args:
        shape: Of the truncated negative binomial; infinite for Poisson.

    Returns:
        The name.
    """
    return _LAWS.get(shape, f"truncated negative binomial, shape {amount(shape)}")


def settings_words(one: Candidate) -> str:
    """What a run was drawn to use.

    Args:
        one: A candidate.

    Returns:
        All of its settings.
    """
    return (
        f"learning rate {amount(one.learning_rate)}, clip norm {amount(one.clip_norm)},"
        f" {one.optimiser}, weight decay {amount(one.weight_decay)}, rank {one.lora_rank}"
    )


def thousandths(epsilon: float) -> str:
    """An epsilon rounded up to three decimals.

    Args:
        epsilon: In nats.

    Returns:
        The text, never below the number.
    """
    return f"{math.ceil(epsilon * 1000 - 1e-9) / 1000:.3f}" if math.isfinite(epsilon) else "inf"


def listed_from(result: SearchResult) -> str:
    """Where settings were drawn from.

    Args:
        result: What was searched.

    Returns:
        The public list and its length.
    """
    return f"a public list of {counted(len(result.candidates), 'candidate')}"


def _problem(result: SearchResult) -> Paragraph | None:
    """What takes the promise away; None if nothing does."""
    for place, run in enumerate(result.runs):
        if run.differences:
            return paragraph(
                "A run was not what was planned, so nothing is kept: ",
                cited(ended(run.differences[0]), "runs", place, "differences", 0),
            )
    if result.cost.standing != "guarantee":
        return paragraph("Nothing is protected: ", cited(result.cost.caveat, "cost", "caveat"), ".")
    if not math.isfinite(result.epsilon):
        return paragraph(
            "Nothing is protected: the search costs ",
            cited("an infinite epsilon", "cost", "epsilon"),
            ".",
        )
    return None
