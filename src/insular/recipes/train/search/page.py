"""A private hyperparameter search as a page: what was promised, what it cost, what may leave."""

from insular.evidence import RunManifest
from insular.recipes._numbers import amount, cited, counted, short
from insular.recipes._page_parts import evidence_files, run_sentence
from insular.recipes.train._words import neighbours
from insular.recipes.train.search._price import price_section
from insular.recipes.train.search._release import ledger_section, release_section, repeat_section
from insular.recipes.train.search._runs import list_section, rests_on_section, runs_section
from insular.recipes.train.search._words import (
    LOSERS,
    SearchAnswer,
    law_words,
    listed_from,
    search_answer,
    settings_words,
    thousandths,
)
from insular.recipes.train.search.results import SearchResult
from insular.reports import Inline, Page, Paragraph, paragraph

_WORDS = {
    "searched": "Guarantee of the whole search",
    "nothing kept": "Nothing kept, and paid for",
    "no promise": "No promise",
}


def search_page(
    result: SearchResult, manifest: RunManifest, *, run_folder: str | None = None
) -> Page:
    """Turn a search into the content of a page. The page is private: it shows all runs.

    Guarantees:
        * The first paragraph says what was kept and what choosing it cost, or why nothing is
          promised.
        * Every epsilon on the first screen is the search's, but one that is called another's.
        * Files are called fit to leave only where the promise holds.
        * No record appears, neither by text nor by id.

    Args:
        result: What was searched; written beside the page as ``results.json``.
        manifest: The search.
        run_folder: Folder that the commands name; by default ``runs/`` and the run's name.

    Returns:
        The page, for :func:`insular.reports.render`.
    """
    folder = run_folder or f"runs/{manifest.name}"
    answer = search_answer(result)
    price, runs = price_section(result, protects=answer.protects), runs_section(result)
    # what is not as planned is what a reader of such a search looks for
    first = (price, runs) if result.as_planned else (runs, price)
    return Page(
        title=f"Private search of settings, chosen on {result.scored_on}",
        verdict=_WORDS[answer.word],
        verdict_kind=answer.kind,
        lead=(
            answer.sentence,
            _promised(result, answer),
            *_chosen(result),
            _drawn(result),
            paragraph(LOSERS),
        ),
        sections=(
            *first,
            list_section(result),
            release_section(result, manifest, folder=folder, protects=answer.protects),
            rests_on_section(result),
            ledger_section(result),
            repeat_section(manifest, folder=folder),
        ),
        evidence=evidence_files(manifest),
        footer=f"{run_sentence(manifest)} This page is private: it tells how many runs there were"
        " and what each of them reached. It holds no text of any record.",
    )


def _promised(result: SearchResult, answer: SearchAnswer) -> Paragraph:
    """Target and cost of the search, for whom, and how far from one run's."""
    delta = cited(short(result.delta), "delta")
    asked: tuple[Inline, ...] = (
        "Noise was given, and no epsilon was asked for. ",
        "The whole search, choice included,",
    )
    if result.target_epsilon is not None:
        asked = (
            "Promised" if answer.protects else "Asked for",
            " was epsilon ",
            cited(short(result.target_epsilon), "target_epsilon"),
            " at delta ",
            delta,
            " for the search as a whole. All of it, choice included,",
        )
    unit = result.cost.unit or "record"
    whom = f", for {neighbours(result.cost.relation, unit)}" if result.cost.relation else ""
    return paragraph(
        *asked,
        " cost epsilon " if answer.protects else " would cost epsilon ",
        cited(thousandths(result.epsilon), "cost", "epsilon"),
        f"{whom}. One run that nobody chose would have cost ",
        cited(thousandths(result.one_run.epsilon), "one_run", "epsilon"),
        ": that is not the price of this adapter.",
    )


def _chosen(result: SearchResult) -> tuple[Paragraph, ...]:
    """The winner's settings and what they reached."""
    if result.winner is None:
        return ()
    best = result.runs[result.winner]
    before: tuple[Inline, ...] = ()
    if result.base_nats is not None:
        before = ("from ", cited(f"{result.base_nats:.4f}", "base_nats"), " ")
    return (
        paragraph(
            "Chosen were ",
            cited(settings_words(best.settings), "runs", result.winner, "settings"),
            f", from {listed_from(result)}. The loss on ",
            cited(result.scored_on, "scored_on"),
            " went ",
            *before,
            "to ",
            cited(f"{best.score_nats:.4f}", "runs", result.winner, "score_nats"),
            " nats per token. Nothing else entered the choice.",
        ),
    )


def _drawn(result: SearchResult) -> Paragraph:
    """How many runs there were, what was deleted, and whether all was as planned."""
    n, odd = len(result.runs), sum(bool(run.differences) for run in result.runs)
    planned: Inline = "No run was made."
    if n:
        planned = "Every run was what was planned." if not odd else f"{odd} of {n} were not"
        planned += "" if not odd else " what was planned."
    return paragraph(
        cited(counted(n, "run"), "runs"),
        f" {'was' if n == 1 else 'were'} drawn at random, before the first one began, from the"
        f" {law_words(result.event.shape)} law with mean ",
        cited(amount(result.event.mean_runs), "event", "mean_runs"),
        ", and ",
        cited(counted(result.n_deleted, "adapter"), "n_deleted"),
        f" {'was' if result.n_deleted == 1 else 'were'} deleted. ",
        planned,
    )
