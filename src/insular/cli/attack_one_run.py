"""``insular attack one-run``: a training run audited by one more run with many canaries."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from insular.cli.output import JSON_HELP, end, goes_on, show
from insular.cli.spec_options import items
from insular.recipes.attack.one_run.spec import OneRunSpec

_DEFAULT = OneRunSpec(run="")


def one_run(
    run: Annotated[Path, typer.Argument(help="Folder of a training run.")],
    canaries: Annotated[int, typer.Option(help="Canaries of the one repetition.")] = (
        _DEFAULT.canaries
    ),
    direction: Annotated[
        str, typer.Option(help="Gradient of a canary: dirac (length C) or long (100 C).")
    ] = _DEFAULT.direction,
    guesses: Annotated[
        str,
        typer.Option(
            help="Numbers of guesses by comma, each paid for; by default the one number that best"
            " shows the excess under the promise."
        ),
    ] = "",
    two_sided: Annotated[
        bool, typer.Option("--two-sided", help="Let low scores speak for presence as well.")
    ] = _DEFAULT.two_sided,
    excess: Annotated[
        float, typer.Option(help="Sensitivity over the promised one that should be seen.")
    ] = _DEFAULT.excess,
    significance: Annotated[
        float, typer.Option(help="Error probability of the whole run.")
    ] = _DEFAULT.significance,
    seed: Annotated[int, typer.Option(help="Coins, draws and noise follow from it.")] = (
        _DEFAULT.seed
    ),
    out: Annotated[Path | None, typer.Option(help="Folder of the evidence.")] = None,
    json: Annotated[str, typer.Option("--json", help=JSON_HELP)] = "",
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Repeat a training run once with many canaries: does one run already break the promise?

    Exit code 0: not refuted. 1: refuted. 2: too small to be seen in one run.
    """
    from insular.evidence import default_run_path

    spec = OneRunSpec(
        run=str(run),
        canaries=canaries,
        direction=direction,  # pyright: ignore[reportArgumentType]
        guesses=items("guesses", guesses, int),
        two_sided=two_sided,
        excess=excess,
        significance=significance,
        seed=seed,
    )
    folder = out or default_run_path(Path("runs"), "attack")
    end(lambda: _one_run(spec, folder, json=json, quiet=quiet), interrupted=goes_on(folder))


def _one_run(spec: OneRunSpec, folder: Path, *, json: str, quiet: bool) -> int:
    """Play, print, and give the exit code."""
    from insular.cli.progress import TaskProgress
    from insular.recipes.attack.one_run.run import attack_one_run
    from insular.recipes.attack.one_run.summary import one_run_blocks

    with TaskProgress(lambda task: 2, quiet=quiet) as progress:
        result = attack_one_run(spec, folder, command=tuple(sys.argv), progress=progress)
    show(result, one_run_blocks, folder, json=json)
    return result.exit_code
