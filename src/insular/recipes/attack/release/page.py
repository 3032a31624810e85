"""An attack on releases as a page: the answer first, then the bounds, the draws, how to repeat."""

from insular.accounting import GaussianEvent, tradeoff_curve
from insular.evidence import RunManifest
from insular.recipes._numbers import cited, place, short
from insular.recipes._page_parts import RECORD_IDS_ONLY, framed_page
from insular.recipes.attack.release._words import (
    KINDS,
    confidence,
    count,
    method_sentences,
    needed_sentence,
    points_sentences,
    stack_sentence,
)
from insular.recipes.attack.release.results import ReleaseResult, StackRelease
from insular.reports import (
    Figure,
    Page,
    Points,
    Section,
    Table,
    TradeoffPoint,
    paragraph,
    tradeoff_figure,
)

_WORDS = {
    "refuted": "Refuted: the release tells more than is promised",
    "not refuted": "Not refuted",
    "undecided": "Undecided: too few draws",
}
_RATES = tuple(10 ** (-k / 8) for k in range(33))


def release_page(result: ReleaseResult, manifest: RunManifest) -> Page:
    """Turn an attack on releases into the content of a page.

    Guarantees:
        * The first paragraphs say of each stack which claim was tested, and whether it is refuted.
        * The curve and the single points are told apart.
        * The record appears by its id only.

    Args:
        result: What was found; written beside the page as ``results.json``.
        manifest: The run that found it.

    Returns:
        The page, for :func:`insular.reports.render`.
    """
    return framed_page(
        manifest,
        title=f"Release attack on {manifest.inputs[0].source}",
        verdict=_WORDS[result.verdict],
        verdict_kind=KINDS[result.verdict],
        lead=map(stack_sentence, result.stacks),
        sections=(
            _curves(result),
            _points(result),
            _draws(result),
        ),
        method=("What was drawn, and what it rests on", method_sentences(result)),
        speeds=(
            (stack.stack, f"{stack.releases_per_second:.0f} releases a second and process")
            for stack in result.stacks
        ),
        private=RECORD_IDS_ONLY,
    )


def _curves(result: ReleaseResult) -> Section:
    """The bound on the whole curve, for each stack."""
    rows = tuple(
        (
            stack.stack,
            cited(f"{stack.ratio:.6f}", "stacks", i, "ratio"),
            cited(f"{stack.claimed_mu:.4g}", "stacks", i, "claimed_mu"),
            cited(f"{stack.tradeoff.mu_lower_bound:.4f}", "stacks", i, "tradeoff/mu_lower_bound"),
            cited(f"{stack.tradeoff.fpr.upper:.5f}", "stacks", i, "tradeoff/fpr/upper"),
            cited(f"{stack.tradeoff.tpr.lower:.5f}", "stacks", i, "tradeoff/tpr/lower"),
            stack.verdict,
        )
        for i, stack in enumerate(result.stacks)
    )
    columns = ("Stack", "Audited ratio", "Promised mu", "Proven mu", "False positives at most",
               "True positives at least", "Verdict")  # fmt: skip
    sure = confidence(result.stacks[0].tradeoff.significance)
    table = Table(
        caption="An attacker whose point lies below the promised curve refutes all of it.",
        columns=columns,
        rows=rows,
        numeric=(1, 2, 3, 4, 5),
        source=place("stacks"),
    )
    text = paragraph(
        f"What is promised is a curve: at each false positive rate, the most that an attacker may"
        f" find. The rates below are exact bounds on held-out draws, {sure} sure for each stack."
        " A refuted curve does not say which single (epsilon, delta) fails."
    )
    drawings = (_drawing(stack, i) for i, stack in enumerate(result.stacks))
    return Section(heading="The whole trade-off curve", blocks=(text, table, *drawings))


def _drawing(stack: StackRelease, i: int) -> Figure:
    """The promised curve, that of the audited distance, and the attacker's point."""
    rate = stack.tradeoff.fpr.upper
    rates = sorted({*_RATES, rate})
    promised = f"promised: mu {stack.claimed_mu:.4g}"
    rows = []
    for name, mu in ((promised, stack.claimed_mu), (f"audited: mu {stack.mu:.4g}", stack.mu)):
        event = GaussianEvent(noise_multiplier=1 / mu, relation="add_or_remove_one", unit="record")
        curve = tradeoff_curve(event, false_positive_rates=rates)
        rows += [
            TradeoffPoint(curve=name, false_positive_rate=x, true_positive_rate=y)
            for x, y in zip(curve.false_positive_rates, curve.true_positive_rates, strict=True)
        ]
    rows.append(
        TradeoffPoint(
            curve=f"proven on {stack.stack}"[:40],
            false_positive_rate=rate,
            true_positive_rate=stack.tradeoff.tpr.lower,
        )
    )
    return Figure(
        svg=tradeoff_figure(rows, marked=rate),
        caption=(
            f"{stack.stack}: the last mark is what an attacker is proven to reach, the first one"
            " what is promised there. Above it, the promise is refuted."
        ),
        alt=(
            f"At false positive rate {rate:.4f} an attacker on {stack.stack} finds at least"
            f" {stack.tradeoff.tpr.lower:.4f}; promised mu {stack.claimed_mu:.4g}."
        ),
        source=place("stacks", i, "tradeoff"),
    )


def _points(result: ReleaseResult) -> Section:
    """The bound at each delta."""
    rows = []
    for i, stack in enumerate(result.stacks):
        for j, (bound, claimed, refuted) in enumerate(
            zip(stack.points, stack.claimed_epsilons, stack.points_refuted, strict=True)
        ):
            at = ("stacks", i, "points", j)
            rows.append(
                (
                    stack.stack,
                    short(bound.delta),
                    cited(f"{claimed:.4f}", "stacks", i, "claimed_epsilons", j),
                    cited(f"{bound.epsilon_lower_bound:.4f}", *at, "epsilon_lower_bound"),
                    f"{bound.positive} the record",
                    cited(f"{bound.p.count}/{bound.p.n}", *at, "p"),
                    cited(f"{bound.q.count}/{bound.q.n}", *at, "q"),
                    "refuted" if refuted else "not refuted",
                )
            )
    columns = ("Stack", "Delta", "Promised epsilon", "Proven epsilon", "p is", "p", "q",
               "Verdict")  # fmt: skip
    table = Table(
        caption="One point (epsilon, delta) at a time, in nats; a weaker test of the same draws.",
        columns=columns,
        rows=tuple(rows),
        numeric=(1, 2, 3, 5, 6),
        source=place("stacks"),
    )
    sentences = Points(items=points_sentences(result))
    return Section(heading="Single points (epsilon, delta)", blocks=(sentences, table))


def _draws(result: ReleaseResult) -> Section:
    """How many draws there were, and how many it takes."""
    rows = tuple(
        (
            shard.stack,
            "with" if shard.with_record else "without",
            str(shard.shard + 1),
            count(shard.n),
            cited(f"{shard.mean:.4f}", "stacks", i, "shards", j, "mean"),
            cited(f"{shard.std:.4f}", "stacks", i, "shards", j, "std"),
            str(shard.seed),
            shard.digest[:12],
        )
        for i, stack in enumerate(result.stacks)
        for j, shard in enumerate(stack.shards)
    )
    table = Table(
        caption="Every shard; the statistic is in standard deviations of the noise.",
        columns=("Stack", "Record", "Shard", "Draws", "Mean", "Spread", "Seed", "Digest"),
        rows=rows,
        numeric=(2, 3, 4, 5),
        folded=True,
        source=place("stacks"),
    )
    sentences = Points(items=tuple(needed_sentence(stack) for stack in result.stacks))
    return Section(heading="Draws", blocks=(sentences, table))
