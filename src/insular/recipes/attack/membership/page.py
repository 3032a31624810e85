"""A membership attack as a page: answer first, then rates, the curve, the areas, the data."""

from insular.audit.membership.results import MembershipResult, MembershipVerdict
from insular.evidence import RunManifest
from insular.recipes._numbers import cited, place, short
from insular.recipes._page_parts import RECORD_IDS_ONLY, framed_page
from insular.recipes.attack.membership._words import (
    KINDS,
    area_text,
    method_sentences,
    rate_text,
    score_name,
    verdict_sentences,
    warning_sentences,
)
from insular.recipes.attack.release._words import confidence
from insular.reports import (
    Cell,
    Figure,
    Page,
    Points,
    RocRow,
    Section,
    Table,
    paragraph,
    roc_figure,
)

_WORDS: dict[MembershipVerdict, str] = {
    "refuted": "Refuted: the model tells more than is promised",
    "not refuted": "Not refuted",
    "undecided": "Undecided",
    "no promise": "Measured: nothing is promised",
}


def membership_page(result: MembershipResult, manifest: RunManifest) -> Page:
    """Turn a membership attack into the content of a page.

    Guarantees:
        * The first paragraphs say what is promised, what was found and what that does not show.
        * Areas come last, beside the area that needs no model.
        * Records appear by their ids only.

    Args:
        result: What was found; written beside the page as ``results.json``.
        manifest: The run that found it.

    Returns:
        The page, for :func:`insular.reports.render`.
    """
    return framed_page(
        manifest,
        title=f"Membership attack on {result.name}",
        verdict=_WORDS[result.verdict],
        verdict_kind=KINDS[result.verdict],
        lead=verdict_sentences(result),
        sections=(
            _rates(result),
            _promise(result),
            Section(
                heading="What weakens these numbers",
                blocks=(Points(items=warning_sentences(result)), *_copies(result)),
            ),
            _areas(result),
        ),
        method=("What was scored, and what it rests on", method_sentences(result)),
        speeds=(("scoring", f"{_speed(result):.1f} records a second"),),
        private=RECORD_IDS_ONLY,
    )


def _rates(result: MembershipResult) -> Section:
    """Members found at the wanted false positive rates, and the whole curve."""
    rows: list[tuple[Cell, ...]] = [
        (
            score_name(one.score, result.lowest_percent),
            f"{100 * point.wanted_fpr:g}%" + ("" if point.resolved else ", not resolved"),
            cited(f"{point.fpr.count}/{point.fpr.n}", "scores", i, "points", j, "fpr"),
            cited(rate_text(point), "scores", i, "points", j, "tpr"),
            "none promised" if point.allowed is None else f"{100 * point.allowed:.2f}",
        )
        for i, one in enumerate(result.scores)
        for j, point in enumerate(one.points)
    ]
    table = Table(
        caption=f"Members found, with {confidence(result.significance)} intervals.",
        columns=("Score", "False positives", "Non-members above", "Members found, %",
                 "Allowed, %"),
        rows=tuple(rows),
        numeric=(2, 3, 4),
        source=place("scores"),
    )  # fmt: skip
    text = paragraph(
        "Each threshold is set by the non-members alone: at most the wanted share of them lies"
        " above it. What is allowed is read off the promise at the upper bound of the false"
        " positive rate."
    )
    return Section(
        heading="Members found at few false positives", blocks=(text, table, _roc(result))
    )


def _roc(result: MembershipResult) -> Figure:
    """All scores, the promise, and chance."""
    rows = [
        RocRow(
            attack=score_name(one.score, result.lowest_percent),
            false_positive_rate=point.fpr,
            true_positive_rate=point.tpr,
        )
        for one in result.scores
        for point in one.roc
    ]
    best = result.best
    rows += [
        RocRow(
            attack=score_name(best.score, result.lowest_percent),
            false_positive_rate=point.fpr.count / point.fpr.n,
            true_positive_rate=point.tpr.count / point.tpr.n,
            lower=point.tpr.lower,
            upper=point.tpr.upper,
        )
        for point in best.points
    ]
    promised: tuple[tuple[float, float], ...] = ()
    if result.claim is not None:
        curve = result.claim.curve
        promised = tuple(zip(curve.false_positive_rates, curve.true_positive_rates, strict=True))
    last = best.points[-1]
    return Figure(
        svg=roc_figure(rows, promised=promised),
        caption=(
            "Every threshold of every score. Bars are intervals of the best score; a line above the"
            " thick one refutes nothing by itself, its lower bound does."
            if promised
            else "Every threshold of every score. Bars are intervals of the best score."
        ),
        alt=(
            f"At a false positive rate of {100 * last.wanted_fpr:g}%, the best score finds"
            f" {rate_text(last)} per cent of the members."
        ),
        source=place("scores"),
    )


def _promise(result: MembershipResult) -> Section:
    """What held-out records prove, against what is promised."""
    rows: list[tuple[Cell, ...]] = []
    for i, one in enumerate(result.scores):
        at = ("scores", i)
        rows.append(
            (
                score_name(one.score, result.lowest_percent),
                cited(f"{100 * one.tradeoff.fpr.upper:.2f}", *at, "tradeoff/fpr/upper"),
                cited(f"{100 * one.tradeoff.tpr.lower:.2f}", *at, "tradeoff/tpr/lower"),
                "none"
                if one.allowed is None
                else cited(f"{100 * one.allowed:.2f}", *at, "allowed"),
                cited(
                    f"{one.epsilon.epsilon_lower_bound:.3f}", *at, "epsilon", "epsilon_lower_bound"
                ),
                cited(f"{one.advantage.value:.3f}", *at, "advantage", "value"),
                "refuted" if one.refutes else "not refuted" if result.claim else "no promise",
            )
        )
    delta = short(result.scores[0].epsilon.delta)
    table = Table(
        caption=f"Bounds on held-out records; epsilon in nats at delta {delta}.",
        columns=("Score", "False positives at most, %", "Members found at least, %", "Allowed, %",
                 "Epsilon at least", "Advantage", "Promise"),
        rows=tuple(rows),
        numeric=(1, 2, 3, 4, 5),
        source=place("scores"),
    )  # fmt: skip
    text = paragraph(
        "One half of the records chooses a threshold and a direction, the other half judges them."
        " Advantage is the true minus the false positive rate of a threshold chosen so."
    )
    return Section(heading="What that proves", blocks=(text, table))


def _areas(result: MembershipResult) -> Section:
    """Areas under the curves, beside the one of a classifier that never saw the model."""
    rows: list[tuple[Cell, ...]] = [
        (
            score_name(one.score, result.lowest_percent),
            cited(area_text(one.auc), "scores", i, "auc"),
            "yes" if one.auc.area > result.shift.auc.area else "no: proves nothing",
        )
        for i, one in enumerate(result.scores)
    ]
    rows.append(("texts alone, no model", cited(area_text(result.shift.auc), "shift", "auc"), ""))
    table = Table(
        caption="Area under the curve: an average over thresholds that no attacker would use.",
        columns=("Score", "Area, with interval", "Above the texts alone"),
        rows=tuple(rows),
        numeric=(1,),
        source=place("scores"),
    )
    return Section(heading="Areas, last", blocks=(table,))


def _copies(result: MembershipResult) -> tuple[Table, ...]:
    """Non-members that were left out."""
    if not result.overlap.found:
        return ()
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            one.non_member,
            one.seen,
            cited(f"{one.similarity:.3f}", "overlap", "found", i, "similarity"),
        )
        for i, one in enumerate(result.overlap.found)
    )
    return (
        Table(
            caption="Non-members left out, each with the most similar record that was learnt from.",
            columns=("Non-member", "Learnt from", "Similarity"),
            rows=rows,
            numeric=(2,),
            folded=True,
            source=place("overlap", "found"),
        ),
    )


def _speed(result: MembershipResult) -> float:
    """Records a second."""
    scored = result.members.scored + result.non_members.scored
    return scored / result.seconds if result.seconds else 0.0
