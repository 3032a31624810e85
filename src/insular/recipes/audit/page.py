"""An isolation audit as a page: the answer first, then what it rests on."""

import shlex

from insular.audit.audit_results import AuditResult
from insular.evidence import RunManifest
from insular.recipes._page_parts import (
    RECORD_IDS_ONLY,
    circumstances,
    evidence_files,
    run_sentence,
)
from insular.recipes.audit import _tables as tables
from insular.recipes.audit._advice import not_tested, repair_sentence
from insular.recipes.audit._census_section import census_section
from insular.recipes.audit._checks_section import checks_section
from insular.recipes.audit._localisation_section import localisation_blocks
from insular.recipes.audit._price_section import lead_price, price_section
from insular.recipes.audit._sensitivity_section import sensitivity_section
from insular.recipes.audit._words import (
    KINDS,
    Arm,
    arms_of,
    headline,
    path_sentence,
    rounding_sentence,
)
from insular.reports import (
    Block,
    Code,
    Command,
    Facts,
    Page,
    Points,
    Section,
    paragraph,
)

_WORDS = {
    "isolated": "Isolated on the path that ran",
    "coupled": "Coupled",
    "undecided": "Undecided",
}


def isolation_page(
    result: AuditResult, manifest: RunManifest, *, run_folder: str | None = None
) -> Page:
    """Turn an isolation audit into the content of a page.

    Guarantees:
        * The first paragraph is the answer in one sentence.
        * An undecided audit gives no price and names the check that failed.
        * Records appear by id only.

    Args:
        result: What was found; written beside the page as ``results.json``.
        manifest: The run that found it.
        run_folder: Folder that the replay command names; by default ``runs/`` and the run's name.

    Returns:
        The page, for :func:`insular.reports.render`.
    """
    arms = arms_of(result)
    lead = [headline(result), path_sentence(arms[0]), lead_price(result)]
    if result.verdict == "isolated" and (rounding := rounding_sentence(arms[0])):
        lead.insert(2, rounding)
    if result.verdict != "isolated":
        lead.append(repair_sentence(result))
    checks = checks_section(result, arms)
    sections = [
        _movements(result, arms[0], folder=run_folder or f"runs/{manifest.name}"),
        _repairs(result, arms),
        *sensitivity_section(result),
        price_section(result),
        _axes(arms),
        *census_section(result),
        _entry(result, arms),
        checks,
        Section(heading="What was not tested", blocks=(Points(items=not_tested(result)),)),
        _path(arms, clip_norm=result.clip_norm),
        _cases(arms),
        _repeat(manifest, folder=run_folder or f"runs/{manifest.name}"),
    ]
    if result.verdict == "undecided":
        sections.remove(checks)
        sections.insert(0, checks)
    return Page(
        title=f"Isolation audit: {result.subject.arm} on {result.subject.manifest.model}",
        verdict=_WORDS[result.verdict],
        verdict_kind=KINDS[result.verdict],
        lead=tuple(lead),
        sections=tuple(sections),
        evidence=evidence_files(manifest),
        footer=f"{run_sentence(manifest)} {RECORD_IDS_ONLY}",
    )


def _movements(result: AuditResult, arm: Arm, *, folder: str) -> Section:
    """The counter-example, or the largest movement that is none."""
    blocks: list[Block] = []
    coupled = tables.movements_table(arm, verdict="coupled")
    rounding = tables.movements_table(arm, verdict="rounding")
    if result.verdict == "undecided":
        blocks.append(paragraph("A check failed, so the movements below do not count as evidence."))
    if coupled.rows:
        blocks.append(coupled)
    if rounding.rows:
        if coupled.rows and (sentence := rounding_sentence(arm)):
            blocks.append(sentence)
        blocks.append(rounding)
    if not coupled.rows and not rounding.rows:
        blocks.append(paragraph("Nothing moved, whatever changed around a record."))
    blocks.append(paragraph("The same distances come out again, on the same path, with:"))
    blocks.append(Command(text=f"insular replay {shlex.quote(folder)}"))
    heading = "Counter-example" if result.verdict == "coupled" else "What moved"
    return Section(heading=heading, blocks=tuple(blocks))


def _repairs(result: AuditResult, arms: tuple[Arm, ...]) -> Section:
    """What else was tried, and which of it to take."""
    blocks: list[Block] = []
    if result.verdict == "isolated":
        blocks.append(paragraph("This stack needs no repair on the path that ran."))
    if result.repairs or result.verdict != "isolated":
        blocks.append(repair_sentence(result))
    blocks.append(tables.repairs_table(arms))
    if drawing := tables.time_drawing(arms):
        blocks.append(drawing)
    return Section(heading="Repairs", blocks=tuple(blocks))


def _axes(arms: tuple[Arm, ...]) -> Section:
    """What moved in which arm."""
    drawing = tables.influence_drawing(arms)
    return Section(
        heading="What moves a record, and how far",
        blocks=(
            *((drawing,) if drawing else ()),
            *(tables.axes_table(arm, folded=arm is not arms[0]) for arm in arms),
        ),
    )


def _entry(result: AuditResult, arms: tuple[Arm, ...]) -> Section:
    """Where the difference enters; for the selected pair, all modules that it comes from."""
    mine = tables.entry_table(arms[:1], folded=False)
    others = tables.entry_table(arms[1:], folded=True)
    found = tuple(table for table in (mine, others) if table is not None)
    if not found:
        text = paragraph("No difference was located: nothing moved, or no module can be observed.")
        return Section(heading="Where it enters", blocks=(text, *localisation_blocks(result)))
    text = paragraph(
        "A record computes the same as in its base run up to this module. Later layers amplify an"
        " early difference, so the module is where the coupling enters and not the whole of it;"
        " the same mechanism may act again further on."
    )
    blocks = (text, *found, *localisation_blocks(result))
    return Section(heading="Where it enters", blocks=blocks)


def _path(arms: tuple[Arm, ...], *, clip_norm: float) -> Section:
    """Everything that the verdict holds for."""
    repairs = [tables.paths_table([arm for arm in arms if arm is not arms[0]])]
    return Section(
        heading="The path that it holds for",
        blocks=(
            path_sentence(arms[0]),
            tables.path_facts(arms[0], clip_norm=clip_norm),
            *(table for table in repairs if table.rows),
        ),
    )


def _cases(arms: tuple[Arm, ...]) -> Section:
    """Every comparison."""
    text = paragraph(
        "One line for each changed batch, with the record that moved furthest. Every record of"
        " every batch is in ",
        Code(text="results.json"),
        ".",
    )
    blocks = (text, *(tables.cases_table(arm) for arm in arms))
    return Section(heading="All comparisons", blocks=blocks)


def _repeat(manifest: RunManifest, *, folder: str) -> Section:
    """How to run it again."""
    seed = "none" if manifest.seed is None else str(manifest.seed)
    facts = Facts(pairs=(*circumstances(manifest), ("Seed", seed)), source="manifest.json")
    lines: list[Block] = [paragraph("The run as typed, and its replay:")]
    if manifest.command:
        lines.append(Command(text=shlex.join(manifest.command)))
    lines.append(Command(text=f"insular replay {shlex.quote(folder)}"))
    return Section(heading="How to repeat it", blocks=(*lines, facts))
