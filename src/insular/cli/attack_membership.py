"""``insular attack membership``: options of one command."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from insular.cli.output import JSON_HELP, end, goes_on, show
from insular.cli.spec_options import items, names
from insular.recipes.attack.membership.spec import MembershipSpec

_DEFAULT = MembershipSpec(run="", members="-", non_members="-")


def membership(
    run: Annotated[Path, typer.Argument(help="Training run, adapter folder or model.")],
    members: Annotated[Path, typer.Option(help="Records that the model learnt from.")],
    non_members: Annotated[Path, typer.Option(help="Like records that it did not learn from.")],
    model: Annotated[str, typer.Option(help="Base model of an adapter; else as it names.")] = "",
    reference: Annotated[
        str, typer.Option(help="Reference model; by default an adapter's own base.")
    ] = "",
    text_field: Annotated[str, typer.Option(help="Field of the text.")] = _DEFAULT.text_field,
    id_field: Annotated[
        str, typer.Option(help="Field of the record id; empty for file and position.")
    ] = _DEFAULT.id_field,
    unit: Annotated[
        str, typer.Option(help="Field of the owner; by default as the run promises.")
    ] = "",
    encoding: Annotated[str, typer.Option(help="Encoding of the files.")] = _DEFAULT.encoding,
    tokens: Annotated[
        int, typer.Option(help="Longest scored beginning of a record; 0: as trained, else 512.")
    ] = _DEFAULT.tokens,
    lowest_percent: Annotated[
        int, typer.Option(help="Share of least likely tokens in the min-k score, in per cent.")
    ] = _DEFAULT.lowest_percent,
    similarity: Annotated[
        float, typer.Option(help="Share of word 5-grams in common that makes a copy.")
    ] = _DEFAULT.similarity,
    overlap: Annotated[
        str, typer.Option(help="Copies among the non-members: refuse, or drop.")
    ] = _DEFAULT.overlap,
    shadow: Annotated[
        list[str] | None,
        typer.Option(
            help="Shadow models: training runs, several times or by comma; or one JSONL of losses:"
            " id, shadow, member, loss."
        ),
    ] = None,
    fprs: Annotated[str, typer.Option(help="False positive rates by comma.")] = ",".join(
        map(str, _DEFAULT.fprs)
    ),
    epsilon: Annotated[
        float, typer.Option(help="Promise of a model without a training run, in nats.")
    ] = _DEFAULT.epsilon,
    delta: Annotated[float, typer.Option(help="Delta of that promise.")] = _DEFAULT.delta,
    significance: Annotated[
        float, typer.Option(help="Error probability of the whole run.")
    ] = _DEFAULT.significance,
    physical_tokens: Annotated[
        int, typer.Option(help="Most tokens of one forward.")
    ] = _DEFAULT.physical_tokens,
    block_records: Annotated[
        int, typer.Option(help="Records of a block, which a stopped run keeps.")
    ] = _DEFAULT.block_records,
    device: Annotated[str, typer.Option(help="Where the model computes.")] = _DEFAULT.device,
    seed: Annotated[
        int, typer.Option(help="Says which half of the records chooses thresholds.")
    ] = _DEFAULT.seed,
    out: Annotated[Path | None, typer.Option(help="Folder of the evidence.")] = None,
    json: Annotated[str, typer.Option("--json", help=JSON_HELP)] = "",
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Score what a model learnt from, and what it did not: does it tell them apart?

    Exit code 0: the promise is not refuted, or there is none. 1: refuted. 2: undecided, since the
    two files differ without the model, or are too small.
    """
    from insular.evidence import default_run_path

    losses, shadow_runs = _shadows(shadow or [])
    spec = MembershipSpec(
        run=str(run),
        members=str(members),
        non_members=str(non_members),
        model=model,
        reference=reference,
        text_field=text_field,
        id_field=id_field,
        unit=unit,
        encoding=encoding,
        tokens=tokens,
        lowest_percent=lowest_percent,
        similarity=similarity,
        overlap=overlap,  # pyright: ignore[reportArgumentType]
        shadow=losses,
        shadow_runs=shadow_runs,
        fprs=items("fprs", fprs, float),
        epsilon=epsilon,
        delta=delta,
        significance=significance,
        physical_tokens=physical_tokens,
        block_records=block_records,
        device=device,
        seed=seed,
    )
    folder = out or default_run_path(Path("runs"), "attack")
    end(
        lambda: _attacked(spec, folder, json=json, quiet=quiet),
        interrupted=goes_on(folder),
    )


def _shadows(given: list[str]) -> tuple[str, tuple[str, ...]]:
    """One file of losses, or folders of runs."""
    alone = len(given) == 1 and not Path(given[0]).is_dir()
    if alone and (Path(given[0]).is_file() or "," not in given[0]):
        return given[0], ()
    return "", tuple(name for one in given for name in names(one))


def _attacked(spec: MembershipSpec, folder: Path, *, json: str, quiet: bool) -> int:
    """Attack, print, and give the exit code."""
    from insular.cli.progress import TaskProgress
    from insular.recipes.attack.membership.run import attack_membership
    from insular.recipes.attack.membership.summary import membership_blocks

    with TaskProgress(lambda task: 20, quiet=quiet) as progress:
        result = attack_membership(spec, folder, command=tuple(sys.argv), progress=progress)
    show(result, membership_blocks, folder, json=json)
    return result.exit_code
