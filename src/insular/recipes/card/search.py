"""The release card of a private search: the winner's facts at the price of the whole search."""

from dataclasses import fields, replace
from typing import Any

from insular.audit.audit_results import AuditResult
from insular.errors import EvidenceError
from insular.evidence import RunManifest, RunStore
from insular.evidence.card import ReleaseCard
from insular.recipes._numbers import amount
from insular.recipes.card.parts import completed, public_name
from insular.recipes.card.statements import Statements
from insular.recipes.card.training import training_card
from insular.recipes.card.words import NOT_STATED
from insular.recipes.run_folder import PAGE, RESULT
from insular.recipes.train.results import TrainResult
from insular.recipes.train.search._words import law_words, listed_from, settings_words
from insular.recipes.train.search.results import WINNER, SearchResult
from insular.recipes.train.spec import TrainSpec

_UNPROTECTED = (
    "the number of runs of the search, what was drawn for each, their logs and their scores: the"
    " price holds because nobody sees them",
)


def kept_run(store: RunStore) -> tuple[SearchResult, TrainResult]:
    """A search and the run that it kept.

    Guarantees:
        * The run is the one whose files, score and mechanism the search names.

    Args:
        store: The search.

    Returns:
        Both.

    Raises:
        EvidenceError: If the search is unfinished, kept nothing, holds no results of the kept run,
            or holds another run's.
    """
    page = store.path / PAGE
    search = store.read_result(RESULT, SearchResult)
    if search.winner is None or not search.as_planned:
        raise EvidenceError(
            f"{store.path} must have kept an adapter to have a card, got a search that kept none,"
            f" so nothing of it leaves; why is on its page, {page}, which itself is private."
        )
    if not store.has_result(WINNER):
        raise EvidenceError(
            f"{store.path} must hold {WINNER}.json, the results of the run that was kept, to have a"
            " card: an earlier insular deleted them. What may leave and what the search cost is on"
            f" its page, {page}, which itself is private."
        )
    winner = store.read_result(WINNER, TrainResult)
    run, utility = search.runs[search.winner], winner.utility
    same = (
        winner.artifacts == search.artifacts
        and winner.planned.event == search.event.event
        and utility is not None
        and utility.after_nats == run.score_nats
        and winner.executed.n_releases == run.n_releases
    )
    if not same:
        raise EvidenceError(
            f"{store.path / WINNER}.json must be the run that the search kept, got another; put"
            " that one back."
        )
    return search, winner


def search_card(
    search: SearchResult,
    winner: TrainResult,
    spec: TrainSpec,
    manifest: RunManifest,
    *,
    stated: Statements,
    audit: AuditResult | None = None,
) -> ReleaseCard:
    """The card of a search: what a card of a training run says, at the price of the search.

    Guarantees:
        * Its epsilon is that of the whole search; the winner's own, which is less, is nowhere.
        * How many settings could be drawn and how the winner was chosen is said. How many runs were
          drawn is not, nor any loser's score: the price rests on nobody knowing.

    Args:
        search: The search.
        winner: The run that it kept.
        spec: What all its runs share.
        manifest: The search's.
        stated: What only a person can say.
        audit: The audit of the kept run's stack; None if it is not there any more.

    Returns:
        The card.
    """
    paid = replace(
        winner,
        costs=(search.cost,),
        target_epsilon=search.target_epsilon,
        delta=search.delta,
        delta_reason=search.delta_reason,
        ledger=search.ledger,
    )
    card = training_card(paid, spec, manifest, stated=stated, audit=audit)
    part, utility = card.implementation, card.utility
    assert part is not None
    assert utility is not None
    holds = " This is the price of the whole search, choice included, and not of one run."
    changed: dict[str, Any] = {
        "headline": card.headline + (holds if card.claim == "holds" else ""),
        "basic": replace(
            card.basic,
            description=f"Adapter of {public_name(winner.model)}, trained privately on"
            f" {winner.data.name} with settings that a private search chose.",
        ),
        "implementation": replace(
            part,
            composition=f"{part.n_releases} noisy sums in each run, each free to depend on those"
            " before; a random number of such runs, of which the best one alone leaves (Papernot"
            f" and Steinke 2022); {search.cost.method}",
            preprocessing_and_hyperparameter_tuning=_tuning(search, stated),
        ),
        "utility": replace(utility, text=f"{utility.text}, by which the adapter was chosen"),
        "unprotected_quantities": (*_UNPROTECTED, *card.unprotected_quantities),
    }
    given = {field.name: getattr(card, field.name) for field in fields(card)}
    del given["schema_version"], given["missing"]
    return completed(**(given | changed))


def _tuning(search: SearchResult, stated: Statements) -> str:
    """What was searched and how the winner was chosen, then what else somebody said."""
    assert search.winner is not None
    event, best = search.event, search.runs[search.winner].settings
    said = stated.preprocessing_and_hyperparameter_tuning or NOT_STATED
    return (
        f"Searched privately, and paid for in epsilon: {listed_from(search)}, each run with one of"
        " them, drawn evenly and with repetition; a random number of runs"
        f" ({law_words(event.shape)} law, mean {amount(event.mean_runs)}; the number drawn is kept"
        f" secret); kept was the adapter with the least loss on {public_name(search.scored_on)},"
        f" which is declared public. Chosen: {settings_words(best)}. What else was spent on the"
        f" same data: {said}"
    )
