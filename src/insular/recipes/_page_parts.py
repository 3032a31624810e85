"""What every page says of its run: its files, which run it was, and with what it ran."""

import shlex
from collections.abc import Iterable

from insular.evidence import InputFact, RunManifest
from insular.reports import (
    Block,
    Command,
    EvidenceFile,
    Facts,
    Page,
    Points,
    Section,
    VerdictKind,
    paragraph,
)

RECORD_IDS_ONLY = "Records are named by id; their text is not on this page."


def evidence_files(manifest: RunManifest) -> tuple[EvidenceFile, ...]:
    """The files beside a page, other pages left out."""
    return tuple(
        EvidenceFile(name=name, sha256=digest)
        for name, digest in sorted(manifest.files.items())
        if not name.endswith(".html")
    )


def run_sentence(manifest: RunManifest) -> str:
    """Which run made a page."""
    started = manifest.created_utc.strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"Run {manifest.name}, started {started}, insular {manifest.insular_version}."


def framed_page(
    manifest: RunManifest,
    *,
    title: str,
    verdict: str,
    verdict_kind: VerdictKind,
    lead: Iterable[str],
    sections: Iterable[Section],
    method: tuple[str, tuple[str, ...]],
    speeds: Iterable[tuple[str, str]] = (),
    private: str,
) -> Page:
    """The page of a measurement: the answer, what was found, what it rests on, how to repeat it.

    Args:
        manifest: The run.
        title: What was examined.
        verdict: The answer, in a word or two.
        verdict_kind: What it means for the claim.
        lead: The first screen, a paragraph each.
        sections: What was found.
        method: Heading and points of the section on what the numbers rest on.
        speeds: Parts of the work, and how fast each was.
        private: Last sentence: what of the records is on the page.

    Returns:
        The page, for :func:`insular.reports.render`.
    """
    heading, points = method
    return Page(
        title=title,
        verdict=verdict,
        verdict_kind=verdict_kind,
        lead=tuple(map(paragraph, lead)),
        sections=(
            *sections,
            Section(heading=heading, blocks=(Points(items=points),)),
            repeat_attack(manifest, speeds=speeds),
        ),
        evidence=evidence_files(manifest),
        footer=f"{run_sentence(manifest)} {private}",
    )


def circumstances(manifest: RunManifest) -> tuple[tuple[str, str], ...]:
    """Code, machine, packages and inputs, by name."""
    machine = manifest.machine
    memory = f", {machine.memory_bytes / 2**30:.1f} GiB" if machine.memory_bytes else ""
    packages = ", ".join(f"{name} {version}" for name, version in manifest.packages.items())
    revision = f", revision {manifest.code_revision}" if manifest.code_revision else ""
    return (
        ("Code", f"insular {manifest.insular_version}{revision}"),
        ("Python", f"{manifest.python} on {manifest.platform}"),
        ("Machine", f"{machine.cpu_model}, {machine.logical_cores} cores{memory}"),
        ("CUDA devices", ", ".join(machine.cuda_devices) or "none"),
        ("Packages", packages or "none noted"),
        *((f"Input: {fact.name}", _input(fact)) for fact in manifest.inputs),
    )


def repeat_attack(manifest: RunManifest, *, speeds: Iterable[tuple[str, str]]) -> Section:
    """How to run an attack again, and how fast each part of it was."""
    machine = manifest.machine
    facts = Facts(
        pairs=(
            ("Code", f"insular {manifest.insular_version}, revision {manifest.code_revision}"),
            ("Machine", f"{machine.cpu_model}, {machine.logical_cores} cores"),
            ("Packages", ", ".join(f"{k} {v}" for k, v in manifest.packages.items())),
            *(
                (fact.name.capitalize(), f"{fact.source}, sha256 {fact.sha256}")
                for fact in manifest.inputs
            ),
            ("Seed", str(manifest.seed)),
            *((f"Speed, {part}", speed) for part, speed in speeds),
        ),
        source="manifest.json",
    )
    blocks: list[Block] = [paragraph("All settings are in run.toml. The run as typed:")]
    if manifest.command:
        blocks.append(Command(text=shlex.join(manifest.command)))
    return Section(heading="How to repeat it", blocks=(*blocks, facts))


def _input(fact: InputFact) -> str:
    """An input by its source, size and digest."""
    size = "" if fact.n_records is None else f", {fact.n_records} records"
    return f"{fact.source}{size}, sha256 {fact.sha256 or 'not a file'}"
