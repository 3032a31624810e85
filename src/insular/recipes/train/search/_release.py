"""What of a search may leave, what must not, what the ledger holds, how to repeat it."""

import shlex

from insular.evidence import RunManifest
from insular.recipes._numbers import counted
from insular.recipes._page_parts import circumstances
from insular.recipes.train._release import artifact_table, ledger_facts
from insular.recipes.train._words import linked
from insular.recipes.train.search.results import SearchResult
from insular.reports import Block, Command, Facts, Points, Section, Table, paragraph

_SETTINGS = ("run.toml", "search.toml")
_PUBLIC_FILES = (*_SETTINGS, "card.json", "card.md", "card.html")
_PRIVATE = (
    "the draws, which tell the number of runs",
    "the logs of all runs, the kept one's too: how many units each step drew",
    "the results: scores of runs that are not paid for",
    "the kept run's own results and audit, which read records without noise",
    "this page: it shows all of these",
)


def release_section(
    result: SearchResult, manifest: RunManifest, *, folder: str, protects: bool
) -> Section:
    """What may leave with its digests, and what must not."""
    blocks: list[Block] = []
    if not result.artifacts:
        blocks.append(paragraph("Nothing was kept that may leave."))
    else:
        if not protects:
            blocks.append(
                paragraph("The promise does not hold, so nothing is cleared to leave. Left are:")
            )
        caption = (
            "May leave: the adapter of the run that was chosen, at the price of the search."
            if protects
            else "Kept by the search, not cleared."
        )
        blocks.append(artifact_table(result.artifacts, caption=caption))
    blocks.append(
        paragraph(
            "May be said of it in public: the settings in run.toml and search.toml, epsilon and"
            " delta of the search, the chosen settings and their public loss."
            if protects
            else "May be said in public: the settings in run.toml and search.toml."
        )
    )
    if protects and result.artifacts:
        blocks.append(paragraph("The release card says that, and whether the claim holds:"))
        blocks.append(Command(text=f"insular card {shlex.quote(folder)}"))
    blocks.append(paragraph("Not to leave, for the price does not cover it:"))
    blocks.append(Points(items=_PRIVATE))
    made = {artifact.file for artifact in result.artifacts}
    inside = sorted(set(manifest.files) - made - set(_PUBLIC_FILES))
    if inside:
        blocks.append(
            Table(
                caption=f"{counted(len(inside), 'file')} of the search that must stay.",
                columns=("File",),
                rows=tuple((linked(name, name),) for name in inside),
                folded=True,
            )
        )
    return Section(heading="What may leave, and what must not", blocks=tuple(blocks))


def ledger_section(result: SearchResult) -> Section:
    """What the ledger holds for the search."""
    heading, entry = "Budget ledger", result.ledger
    if entry is None:
        text = paragraph(
            "No ledger was named, so nothing keeps this search and other runs on the same text"
            " within one budget: their epsilons add up."
        )
        return Section(heading=heading, blocks=(text,))
    text = paragraph(
        "One entry for the whole search, reserved before the first run",
        " and committed after the last."
        if entry.committed_epsilon
        else "; it was not committed, so the whole reservation stays.",
    )
    return Section(heading=heading, blocks=(text, ledger_facts(entry)))


def repeat_section(manifest: RunManifest, *, folder: str) -> Section:
    """How to search again, and what that costs."""
    config, listed = (shlex.quote(f"{folder}/{name}") for name in _SETTINGS)
    blocks: list[Block] = [
        paragraph("This page comes again from the evidence, at no cost:"),
        Command(text=f"insular report {shlex.quote(folder)}"),
        paragraph(
            "The same settings make a new search: other draws, other noise, another adapter, and"
            " its own price on top of this one. The search as typed, and from its settings:"
        ),
    ]
    if manifest.command:
        blocks.append(Command(text=shlex.join(manifest.command)))
    blocks.append(Command(text=f"insular train --config {config} --search {listed}"))
    facts = Facts(pairs=circumstances(manifest), source="manifest.json")
    return Section(heading="How to repeat it", blocks=(*blocks, facts))
