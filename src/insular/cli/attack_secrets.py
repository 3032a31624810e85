"""``insular attack canaries``, ``extraction`` and ``attribute``: secrets that are known to us."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from insular.cli.output import JSON_HELP, end, goes_on, print_json, show
from insular.cli.spec_options import items, names
from insular.recipes.attack.attribute.spec import AttributeSpec
from insular.recipes.attack.extraction.canaries_spec import CanarySpec
from insular.recipes.attack.extraction.spec import ExtractionSpec

_CANARIES = CanarySpec(text="")
_EXTRACTION = ExtractionSpec(run="", canaries="")
_LINES = _CANARIES.secrets
"""About how many lines a ranking reports: one for each secret."""


def canaries(
    text: Annotated[Path, typer.Argument(help="File of records among which secrets are planted.")],
    secrets: Annotated[
        int, typer.Option(help="Secrets; half of them are controls, planted nowhere.")
    ] = _CANARIES.secrets,
    repeat: Annotated[
        str, typer.Option(help="How often a planted secret stands in the file, by comma.")
    ] = ",".join(map(str, _CANARIES.repeat)),
    template: Annotated[
        str, typer.Option(help="Sentence with {N digits} or {N letters}, and {name} if wanted.")
    ] = _CANARIES.template,
    text_field: Annotated[str, typer.Option(help="Field of the text.")] = _CANARIES.text_field,
    id_field: Annotated[
        str, typer.Option(help="Field of the record id; empty for line numbers.")
    ] = _CANARIES.id_field,
    owner_field: Annotated[
        str, typer.Option(help="Field of the owner; all rows of a secret get one owner.")
    ] = _CANARIES.owner_field,
    encoding: Annotated[str, typer.Option(help="Encoding of the file.")] = _CANARIES.encoding,
    seed: Annotated[
        int, typer.Option(help="Secrets follow from it: who knows it knows them.")
    ] = _CANARIES.seed,
    out: Annotated[Path | None, typer.Option(help="Folder of the file and the plan.")] = None,
    json: Annotated[
        str, typer.Option("--json", help="Write the counts as JSON to this file, or - .")
    ] = "",
) -> None:
    """Plant secrets of known randomness in a training file, half held out as controls."""
    from insular.evidence import default_run_path
    from insular.recipes.attack.extraction.canaries import plant_canaries
    from insular.recipes.attack.extraction.canaries_spec import without_secrets
    from insular.recipes.attack.extraction.summary import canaries_blocks
    from insular.reports.terminal import results_console

    spec = CanarySpec(
        text=str(text),
        secrets=secrets,
        repeat=items("repeat", repeat, int),
        template=template,
        text_field=text_field,
        id_field=id_field,
        owner_field=owner_field,
        encoding=encoding,
        seed=seed,
    )
    folder = out or default_run_path(Path("runs"), "canaries")
    plan = plant_canaries(spec, folder, command=tuple(sys.argv))
    counts = without_secrets(plan)
    if not print_json(counts, json):
        console = results_console()
        for block in canaries_blocks(counts, str(folder)):
            console.print(block)


def extraction(
    run: Annotated[Path, typer.Argument(help="Training run, adapter or model.")],
    canaries: Annotated[Path, typer.Option(help="Folder that insular attack canaries wrote.")],
    model: Annotated[str, typer.Option(help="Base model of an adapter.")] = "",
    rank: Annotated[
        str, typer.Option(help="auto, exact or sampled: how a secret's rank is found.")
    ] = _EXTRACTION.rank,
    candidates: Annotated[
        int, typer.Option(help="Candidates of a sampled rank.")
    ] = _EXTRACTION.candidates,
    prefixes: Annotated[
        int, typer.Option(help="Most beginnings that auto asks about for one exact rank.")
    ] = _EXTRACTION.prefixes,
    epsilon: Annotated[
        float, typer.Option(help="Promise for all rows of a secret, where no run states one.")
    ] = _EXTRACTION.epsilon,
    delta: Annotated[float, typer.Option(help="Delta of that promise.")] = _EXTRACTION.delta,
    significance: Annotated[
        float, typer.Option(help="Error probability of the whole run.")
    ] = _EXTRACTION.significance,
    device: Annotated[str, typer.Option(help="Where it computes.")] = _EXTRACTION.device,
    seed: Annotated[
        int, typer.Option(help="Sampled candidates follow from it.")
    ] = _EXTRACTION.seed,
    out: Annotated[Path | None, typer.Option(help="Folder of the evidence.")] = None,
    json: Annotated[str, typer.Option("--json", help=JSON_HELP)] = "",
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """How exposed are planted secrets, and does that agree with what the run promises?

    Exit code 0: not refuted, or nothing is promised. 1: refuted. 2: undecided, since so few
    secrets could refute nothing or the controls do not look random.
    """
    from insular.evidence import default_run_path

    spec = ExtractionSpec(
        run=str(run),
        canaries=str(canaries),
        model=model,
        rank=rank,  # pyright: ignore[reportArgumentType]
        candidates=candidates,
        prefixes=prefixes,
        epsilon=epsilon,
        delta=delta,
        significance=significance,
        device=device,
        seed=seed,
    )
    folder = out or default_run_path(Path("runs"), "attack")
    end(lambda: _extraction(spec, folder, json=json, quiet=quiet), interrupted=goes_on(folder))


def attribute(
    run: Annotated[Path, typer.Argument(help="Training run, adapter or model.")],
    records: Annotated[
        Path, typer.Option(help="JSON lines with each record's fields and true value.")
    ],
    template: Annotated[
        str, typer.Option(help="How a record is written, with {field} for each field.")
    ],
    attribute: Annotated[str, typer.Option(help="Field that is guessed.")],
    values: Annotated[str, typer.Option(help="Every value that it can have, by comma.")],
    population: Annotated[
        str, typer.Option(help="JSON lines of other records, for the most common value.")
    ] = "",
    model: Annotated[str, typer.Option(help="Base model of an adapter.")] = "",
    id_field: Annotated[
        str, typer.Option(help="Field of the record id; empty for line numbers.")
    ] = "",
    significance: Annotated[float, typer.Option(help="Error probability of the verdict.")] = 0.05,
    device: Annotated[str, typer.Option(help="Where it computes.")] = "cpu",
    out: Annotated[Path | None, typer.Option(help="Folder of the evidence.")] = None,
    json: Annotated[str, typer.Option("--json", help=JSON_HELP)] = "",
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Does the model tell more of an attribute than the population and its base model do?

    Exit code 0: not shown. 1: it tells more. 2: too few records to show anything.
    """
    from insular.evidence import default_run_path

    spec = AttributeSpec(
        run=str(run),
        records=str(records),
        template=template,
        attribute=attribute,
        values=names(values),
        population=population,
        model=model,
        id_field=id_field,
        significance=significance,
        device=device,
    )
    folder = out or default_run_path(Path("runs"), "attack")
    end(lambda: _attribute(spec, folder, json=json, quiet=quiet), interrupted=goes_on(folder))


def _extraction(spec: ExtractionSpec, folder: Path, *, json: str, quiet: bool) -> int:
    """Rank, print, and give the exit code."""
    from insular.cli.progress import TaskProgress
    from insular.recipes.attack.extraction.run import attack_extraction
    from insular.recipes.attack.extraction.summary import extraction_blocks

    with TaskProgress(lambda task: _LINES, quiet=quiet) as progress:
        result = attack_extraction(spec, folder, command=tuple(sys.argv), progress=progress)
    show(result, extraction_blocks, folder, json=json)
    return result.exit_code


def _attribute(spec: AttributeSpec, folder: Path, *, json: str, quiet: bool) -> int:
    """Guess, print, and give the exit code."""
    from insular.cli.progress import TaskProgress
    from insular.recipes.attack.attribute.run import attack_attribute
    from insular.recipes.attack.attribute.summary import attribute_blocks

    with TaskProgress(lambda task: 1, quiet=quiet) as progress:
        result = attack_attribute(spec, folder, command=tuple(sys.argv), progress=progress)
    show(result, attribute_blocks, folder, json=json)
    return result.exit_code
