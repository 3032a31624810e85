"""An inversion as a page: the answer, where it fails, every prompt, how to repeat it."""

from collections import Counter

from insular.evidence import RunManifest
from insular.hidden.inversion_results import InversionResult
from insular.recipes._inversion_words import (
    KINDS,
    METHOD,
    answer_sentences,
    interval_words,
    verdict_words,
)
from insular.recipes._numbers import cited, percent, place
from insular.recipes._page_parts import evidence_files, repeat_attack, run_sentence
from insular.reports import (
    Block,
    Figure,
    Page,
    Points,
    PositionPoint,
    Section,
    Table,
    inversion_figure,
    paragraph,
)


def inversion_page(result: InversionResult, manifest: RunManifest) -> Page:
    """Turn an inversion into the content of a page.

    Guarantees:
        * The first paragraph says how many prompts were read, under which release and storage.
        * Text stands on the page only if the run was asked to show it.

    Args:
        result: What was read; written beside the page as ``results.json``.
        manifest: The run that read it.

    Returns:
        The page, for :func:`insular.reports.render`.
    """
    shown = any(one.recovered_text is not None for one in result.prompts)
    words = "It holds text, as asked for." if shown else "No record text is on this page."
    return Page(
        title=f"Inversion of layer {result.layer} of {result.model}",
        verdict=verdict_words(result),
        verdict_kind=KINDS[result.exit_code],
        lead=tuple(paragraph(sentence) for sentence in answer_sentences(result)),
        sections=(
            _counts(result),
            *((_positions(result),) if result.n_exact is not None else ()),
            _prompts(result),
            *((_texts(result),) if shown else ()),
            Section(heading="What was done", blocks=(Points(items=METHOD),)),
            repeat_attack(
                manifest, speeds=(("a token", f"{result.seconds_per_token:.3f} s, median"),)
            ),
        ),
        evidence=evidence_files(manifest),
        footer=f"{run_sentence(manifest)} {words}",
    )


def _counts(result: InversionResult) -> Section:
    """The numbers, each with its place."""
    counts = Counter(status for one in result.prompts for status in one.statuses)
    rows = []
    if result.exact_match is not None and result.token_accuracy is not None:
        rows += [
            ("Prompts read exactly", cited(interval_words(result.exact_match), "exact_match")),
            ("Tokens right", cited(interval_words(result.token_accuracy), "token_accuracy")),
        ]
    if result.ranked_first is not None:
        rows.append(
            ("True token ranked first", cited(percent(result.ranked_first), "ranked_first"))
        )
    rows += [
        (
            "Tokens tried at a position, mean",
            cited(f"{result.candidates_per_token:.1f}", "candidates_per_token"),
        ),
        ("Rounding of the model itself", cited(f"{result.rounding:.2g}", "rounding")),
        *((f"Tokens {status}", str(n)) for status, n in sorted(counts.items())),
    ]
    table = Table(
        caption="What was read, and how sure the attacker is of it.",
        columns=("What", "How much"),
        rows=tuple(rows),
        numeric=(1,),
        source=place("prompts"),
    )
    return Section(heading="What was read", blocks=(table,))


def _positions(result: InversionResult) -> Section:
    """Share of right tokens along the prompt."""
    longest = max(one.n_tokens for one in result.prompts)
    points = []
    for position in range(longest):
        right = [one.correct[position] for one in result.prompts if one.correct and
                 position < one.n_tokens]  # fmt: skip
        ranks = [
            one.true_ranks[position]
            for one in result.prompts
            if position < one.n_tokens and one.true_ranks[position] is not None
        ]
        if right:
            points.append(
                PositionPoint(
                    position=position,
                    right=sum(right) / len(right),
                    first=sum(rank == 1 for rank in ranks) / len(ranks) if ranks else None,
                )
            )
    if not points:
        return Section(heading="Along the prompt", blocks=(paragraph("There is no position."),))
    blocks: tuple[Block, ...] = (
        Figure(
            svg=inversion_figure(points),
            caption="Share of tokens read right, and of true tokens that the ranking alone puts"
            " first, by position. What lies between was won by trying several tokens, by the"
            " language model, or by going back.",
            alt=f"Right at the last position: {percent(points[-1].right)}.",
            source=place("prompts"),
        ),
    )
    return Section(heading="Along the prompt", blocks=blocks)


def _prompts(result: InversionResult) -> Section:
    """Every prompt by id."""
    rows = tuple(
        (
            one.record_id,
            str(one.n_tokens),
            "" if one.correct is None else cited(str(sum(one.correct)), "prompts", i, "correct"),
            str(sum(status == "accepted" for status in one.statuses)),
            str(max(one.tried, default=0)),
            str(one.opened),
        )
        for i, one in enumerate(result.prompts)
    )
    table = Table(
        caption="Every prompt: tokens, how many are right, and how hard it was.",
        columns=("Id", "Tokens", "Right", "Accepted", "Most tried at a position", "Reopened"),
        rows=rows,
        numeric=(1, 2, 3, 4, 5),
        folded=True,
        source=place("prompts"),
    )
    return Section(heading="Every prompt", blocks=(table,))


def _texts(result: InversionResult) -> Section:
    """Recovered against true text."""
    rows = tuple(
        (one.record_id, one.recovered_text or "", one.true_text or "unknown")
        for one in result.prompts
    )
    table = Table(
        caption="What was read out of the states, beside what the prompt said.",
        columns=("Id", "Recovered", "True"),
        rows=rows,
        source=place("prompts"),
    )
    return Section(heading="Recovered text", blocks=(table,))
