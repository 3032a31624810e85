"""What of a training run may leave, what must not, what the ledger holds, how to repeat it."""

import shlex
from collections.abc import Sequence

from insular.evidence import RunManifest
from insular.recipes._numbers import cited, counted, place
from insular.recipes._page_parts import circumstances
from insular.recipes.train._words import linked
from insular.recipes.train.results import Artifact, LedgerEntryRef, TrainResult
from insular.reports import Block, Cell, Code, Command, Facts, Points, Section, Table, paragraph

_PRIVATE = (
    "the log of releases: how many units each step drew, and the length of its noise",
    "results and telemetry: losses, lengths, counts of the private text",
    "checkpoints: what was seen of gradients before noise hid it",
    "the audit of the stack: it read records without noise",
    "this page: it shows all of these",
)
_PUBLIC_FILES = ("run.toml", "card.json", "card.md", "card.html")


def release_section(
    result: TrainResult, manifest: RunManifest, *, folder: str, protects: bool
) -> Section:
    """What may leave with its digests, and what must not."""
    blocks: list[Block] = []
    if not result.artifacts:
        blocks.append(paragraph("Nothing was made that may leave."))
    else:
        if not protects:
            blocks.append(
                paragraph(
                    "The guarantee does not hold as planned, so nothing is cleared to leave. These"
                    " files were made:"
                )
            )
        caption = (
            "May leave: the guarantee covers all that was computed from the noisy sums."
            if protects
            else "Made by the run, not cleared."
        )
        blocks.append(artifact_table(result.artifacts, caption=caption))
    inside = sorted(
        name
        for name in manifest.files
        if name not in {a.file for a in result.artifacts} and name not in _PUBLIC_FILES
    )
    blocks.append(paragraph("Not to leave, for none of it is covered by the guarantee:"))
    blocks.append(Points(items=_PRIVATE))
    if inside:
        files: list[Cell] = [linked(name, name) for name in inside]
        blocks.append(
            Table(
                caption=f"{counted(len(files), 'file')} of the run that must stay.",
                columns=("File",),
                rows=tuple((file,) for file in files),
                folded=True,
            )
        )
    blocks.append(paragraph("What may be said of the run in public is on its release card:"))
    blocks.append(Command(text=f"insular card {shlex.quote(folder)}"))
    return Section(heading="What may leave, and what must not", blocks=tuple(blocks))


def ledger_section(result: TrainResult) -> Section:
    """What the ledger holds for this run."""
    heading, entry = "Budget ledger", result.ledger
    if entry is None:
        text = paragraph(
            "No ledger was named, so nothing keeps this run and others on the same text within one"
            " budget: epsilons of several runs add up."
        )
        return Section(heading=heading, blocks=(text,))
    text = paragraph(
        "Reserved before the first release, committed after the last."
        if entry.committed_epsilon
        else "Reserved before the first release, and not committed: the whole reservation stays."
    )
    return Section(heading=heading, blocks=(text, ledger_facts(entry)))


def repeat_section(result: TrainResult, manifest: RunManifest, *, folder: str) -> Section:
    """How to run it again, and what that costs."""
    config = shlex.quote(f"{folder}/run.toml")
    lines: list[Block] = [
        paragraph(
            "The same settings make a new run: with other noise, another adapter, and its own cost"
            " in epsilon on top of this one. This page comes again from the evidence, at no cost:"
        ),
        Command(text=f"insular report {shlex.quote(folder)}"),
        paragraph("The run as typed, and from its settings:"),
    ]
    if manifest.command:
        lines.append(Command(text=shlex.join(manifest.command)))
    lines.append(Command(text=f"insular train --config {config}"))
    return Section(heading="How to repeat it", blocks=(*lines, _circumstances(result, manifest)))


def artifact_table(artifacts: Sequence[Artifact], *, caption: str) -> Table:
    """Files with digest and size; ``artifacts`` in the results."""
    rows: list[tuple[Cell, ...]] = []
    for i, one in enumerate(artifacts):
        size = cited(f"{one.size_bytes:,}", "artifacts", i, "size_bytes")
        rows.append((linked(one.file, one.file), size, Code(text=one.sha256)))
    return Table(
        caption=caption,
        columns=("File", "Bytes", "SHA-256"),
        rows=tuple(rows),
        numeric=(1,),
        source=place("artifacts"),
    )


def ledger_facts(entry: LedgerEntryRef) -> Facts:
    """What a ledger holds for a run; ``ledger`` in the results."""

    def numbers(kind: str) -> Cell:
        return (
            "epsilon ",
            cited(getattr(entry, f"{kind}_epsilon"), "ledger", f"{kind}_epsilon"),
            ", delta ",
            cited(getattr(entry, f"{kind}_delta"), "ledger", f"{kind}_delta"),
        )

    return Facts(
        pairs=(
            ("Ledger", Code(text=entry.ledger)),
            ("Population", entry.population),
            ("Release", entry.release),
            ("Reserved", numbers("reserved")),
            ("Committed", numbers("committed") if entry.committed_epsilon else "nothing"),
            ("Head after it", Code(text=entry.head)),
        ),
        source=place("ledger"),
    )


def _circumstances(result: TrainResult, manifest: RunManifest) -> Facts:
    """Code, machine, packages and inputs."""
    return Facts(
        pairs=(
            ("Model", f"{result.model}, digest {result.model_digest}"),
            ("Frozen layers", result.backbone),
            ("Optimiser", result.optimiser),
            ("Trained coordinates", cited(f"{result.n_trainable:,}", "n_trainable")),
            ("Time in steps", cited(f"{result.seconds:.0f} s", "seconds")),
            *circumstances(manifest),
        ),
        source="manifest.json",
    )
