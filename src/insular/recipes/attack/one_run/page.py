"""An audit by one run as a page: answer first, then point, curve, guesses, how to repeat."""

from insular.audit.one_run.results import OneRunResult, OneRunVerdict
from insular.evidence import RunManifest
from insular.recipes._numbers import cited, place, short
from insular.recipes._page_parts import framed_page
from insular.recipes.attack.one_run._words import (
    VERDICT_KINDS,
    chance_sentence,
    curve_sentence,
    epsilon_sentence,
    guessed,
    limits_sentence,
    method_sentences,
    verdict_sentences,
)
from insular.reports import (
    Figure,
    GuessedBound,
    Page,
    Points,
    Section,
    Table,
    guesses_figure,
    paragraph,
)

_WORDS: dict[OneRunVerdict, str] = {
    "refuted": "Refuted: the run tells more than it promises",
    "not refuted": "Not refuted",
    "too small to be seen": "Too small to be seen in one run",
}


def one_run_page(result: OneRunResult, manifest: RunManifest) -> Page:
    """Turn an audit by one run into the content of a page.

    Guarantees:
        * The first paragraphs say which promise was tested, what was found, and what that shows.
        * The lower bound on epsilon stands beside the promised one and the most provable one.

    Args:
        result: What was found; written beside the page as ``results.json``.
        manifest: The run that found it.

    Returns:
        The page, for :func:`insular.reports.render`.
    """
    return framed_page(
        manifest,
        title=f"One-run attack on {result.run}",
        verdict=_WORDS[result.verdict],
        verdict_kind=VERDICT_KINDS[result.verdict],
        lead=verdict_sentences(result),
        sections=(
            _point(result),
            _curve(result),
            _guesses(result),
        ),
        method=("What was repeated, and what it rests on", method_sentences(result)),
        speeds=(("one repetition", f"{result.played.seconds:.1f} s"),),
        private="No record was read.",
    )


def _point(result: OneRunResult) -> Section:
    """The bound at the promised delta, with the figure."""
    bound, best = result.bound, result.bound.best
    rows = tuple(
        (
            f"{guessed(one.counts)}{', reversed' if one.reversed else ''}",
            cited(str(one.correct), "bound", "attempts", i, "correct"),
            cited(f"{one.epsilon_lower_bound:.4f}", "bound", "attempts", i, "epsilon_lower_bound"),
            cited(f"{result.claimed_epsilon:.4f}", "claimed_epsilon"),
            cited(f"{one.largest_epsilon:.4f}", "bound", "attempts", i, "largest_epsilon"),
            "refuted" if one.epsilon_lower_bound > result.claimed_epsilon else "not refuted",
        )
        for i, one in enumerate(bound.attempts)
    )
    table = Table(
        caption=f"Epsilon in nats at delta {short(bound.delta)}: proven from below, promised from"
        " above.",
        columns=("Guesses", "Right", "At least", "Promised", "Most provable", "Verdict"),
        rows=rows,
        numeric=(1, 2, 3, 4),
        source=place("bound", "attempts"),
    )
    figure = Figure(
        svg=guesses_figure(
            [
                GuessedBound(
                    guesses=point.n,
                    epsilon=point.epsilon_lower_bound,
                    ceiling=point.largest_epsilon,
                )
                for point in result.points
            ],
            claimed=result.claimed_epsilon,
            fixed=best.counts.n,
        ),
        caption="What each number of guesses would have proven, had it been fixed before the run,"
        " below what it could prove at most. The marked one was; the others are for the eye.",
        alt=(
            f"With {best.counts.n} guesses epsilon is at least {best.epsilon_lower_bound:.3f};"
            f" at most {best.largest_epsilon:.3f} could be proven, and"
            f" {result.claimed_epsilon:.3f} is promised."
        ),
        source=place("points"),
    )
    sentences = Points(items=(epsilon_sentence(result), limits_sentence(result)))
    return Section(heading="The one point (epsilon, delta)", blocks=(sentences, figure, table))


def _curve(result: OneRunResult) -> Section:
    """The bound on the whole curve."""
    rows = tuple(
        (
            f"{guessed(one.counts)}{', reversed' if one.reversed else ''}",
            cited(f"{one.mu_lower_bound:.4f}", "bound", "attempts", i, "mu_lower_bound"),
            "not one Gaussian"
            if result.claimed_mu is None
            else cited(f"{result.claimed_mu:.4f}", "claimed_mu"),
            cited(f"{one.largest_mu:.4f}", "bound", "attempts", i, "largest_mu"),
            cited(f"{one.claim_p_value:.3g}", "bound", "attempts", i, "claim_p_value"),
        )
        for i, one in enumerate(result.bound.attempts)
    )
    table = Table(
        caption="Mu of the smallest Gaussian promise that is left, and the most probable chance of"
        " so many right guesses under the promised curve.",
        columns=("Guesses", "Mu at least", "Promised", "Most provable", "Chance if promised"),
        rows=rows,
        numeric=(1, 2, 3, 4),
        source=place("bound", "attempts"),
    )
    return Section(
        heading="The whole trade-off curve", blocks=(paragraph(curve_sentence(result)), table)
    )


def _guesses(result: OneRunResult) -> Section:
    """What the guesses could have shown, and what others would have."""
    chances = Table(
        caption="Simulated before the run, under the promise with a unit that weighs"
        f" {result.excess:g} times what it may, or noise that much smaller: the lesser of both.",
        columns=("Guesses", "Right ones that refute the curve", "Probability"),
        rows=tuple(
            (
                guessed(one.counts),
                "none" if one.needed is None else cited(str(one.needed), "chances", i, "needed"),
                cited(f"{one.chance:.3f}", "chances", i, "chance"),
            )
            for i, one in enumerate(result.chances)
        ),
        numeric=(1, 2),
        source=place("chances"),
    )
    others = Table(
        caption="Other numbers of guesses, each as if it alone had been fixed: no proof.",
        columns=("Guesses", "Right", "At least", "Most provable"),
        rows=tuple(
            (
                cited(str(one.n), "points", i, "n"),
                cited(str(one.correct), "points", i, "correct"),
                cited(f"{one.epsilon_lower_bound:.4f}", "points", i, "epsilon_lower_bound"),
                cited(f"{one.largest_epsilon:.4f}", "points", i, "largest_epsilon"),
            )
            for i, one in enumerate(result.points)
        ),
        numeric=(0, 1, 2, 3),
        folded=True,
        source=place("points"),
    )
    text = paragraph(chance_sentence(result))
    return Section(heading="Guesses", blocks=(text, chances, others))
