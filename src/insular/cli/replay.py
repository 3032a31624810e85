"""``insular replay``: run recorded evidence again and compare every distance."""

from pathlib import Path
from typing import Annotated

import typer

from insular.cli.output import JSON_HELP, print_json


def replay(
    run: Annotated[Path, typer.Argument(help="Folder of a complete run.")],
    subject_only: Annotated[
        bool, typer.Option("--subject-only", help="Leave the repairs out.")
    ] = False,
    workers: Annotated[int, typer.Option(help="Processes; 0: one a core.")] = 0,
    json: Annotated[str, typer.Option("--json", help=JSON_HELP)] = "",
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Repeat a run from its evidence and compare every recorded distance.

    Exit code 0: all the same. 1: not the same, on the same path. 2: the path differs, or the
    evidence cannot be replayed.
    """
    from insular.cli.audit import n_lines
    from insular.cli.progress import TaskProgress
    from insular.evidence import available_cores
    from insular.recipes.audit.replay import replay as repeat
    from insular.reports.terminal import results_console, verdict_panel

    with TaskProgress(n_lines, quiet=quiet) as progress:
        result = repeat(
            run,
            only_subject=subject_only,
            workers=workers or available_cores(),
            progress=progress,
        )
    if not print_json(result, json):
        lines = [f"{result.n_reproduced} of {result.n_distances} recorded distances are the same."]
        if result.first_mismatch:
            lines.append(f"First difference: {result.first_mismatch}.")
        if result.path_differences:
            lines.append("The path differs: " + "; ".join(result.path_differences) + ".")
        word = "reproduced" if result.reproduced else "not reproduced"
        kind = "good" if result.reproduced else "open" if result.path_differences else "bad"
        results_console().print(verdict_panel(word, kind=kind, lines=lines))
    raise typer.Exit(result.exit_code)
