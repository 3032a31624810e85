"""What a training run rests on: records that were found apart, and tensors that were trained."""

from insular.recipes._numbers import amount, cited, counted, place, short
from insular.recipes.train._words import linked, path_sentence
from insular.recipes.train.results import TrainResult
from insular.reports import Block, Cell, Code, Facts, Inline, Section, paragraph

_MOST_NAMES = 8


def isolation_section(result: TrainResult) -> Section:
    """The audit of this very stack, with a way to its evidence."""
    found = result.isolation
    facts: list[tuple[str, Cell]] = [
        ("Verdict", cited(found.verdict, "isolation", "verdict")),
        ("Frozen layers", result.backbone),
        ("Path", found.path),
        ("Its page", linked(f"{found.folder}/report.html", f"{found.folder}/report.html")),
        ("SHA-256 of its results", Code(text=found.results_sha256)),
    ]
    if found.accepted:
        facts.append(("Accepted because", cited(found.accepted, "isolation", "accepted")))
    blocks: list[Block] = [
        paragraph("Before the first step, the stack that trains was audited: ", found.sentence),
        path_sentence(result),
    ]
    influence = result.planned.influence
    if influence > 1:
        blocks.append(
            paragraph(
                "The sum is taken to move by up to ",
                cited(f"{short(influence)}\u00a0C", "planned", "influence"),
                " for one unit: (2m + 1) C, where one record can change the contributions of m ="
                f" {amount((influence - 1) / 2)} others in its forward. The noise is that many"
                " times larger than isolated records would need.",
            )
        )
    blocks.append(Facts(pairs=tuple(facts), source=place("isolation")))
    return Section(heading="Whether the stack keeps records apart", blocks=tuple(blocks))


def liveness_section(result: TrainResult) -> Section:
    """What moved, what had gradients, what was saved."""
    found = result.liveness
    n = cited(counted(found.n_tensors, "trainable tensor"), "liveness", "n_tensors")
    if found.alive:
        text = paragraph(
            "All ", n, " had a gradient from some record, moved, and were saved bit for bit."
        )
        return Section(heading="Whether training happened", blocks=(text,))
    lists = (
        ("No record gave a gradient to", "without_gradient", found.without_gradient),
        ("Bit for bit as at the start", "unmoved", found.unmoved),
        ("Not in the saved adapter as trained", "saved_differs", found.saved_differs),
    )
    pairs = tuple((words, _names(names)) for words, _, names in lists if names)
    text = paragraph("Of ", n, ", not all were trained and saved:")
    facts = Facts(pairs=pairs, source=place("liveness"))
    return Section(heading="Whether training happened", blocks=(text, facts))


def _names(names: tuple[str, ...]) -> Cell:
    """Some tensors by name."""
    parts: list[Inline] = [f"{len(names)}: "]
    for i, name in enumerate(names[:_MOST_NAMES]):
        parts += [", "] if i else []
        parts.append(Code(text=name))
    if len(names) > _MOST_NAMES:
        parts.append(f" and {len(names) - _MOST_NAMES} more")
    return tuple(parts)
