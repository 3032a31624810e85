"""``insular hidden invert``: prompts read exactly out of their stored states."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from insular.cli.output import JSON_HELP, end, goes_on, show
from insular.cli.spec_options import settings, with_options
from insular.recipes.hidden.inversion.spec import HiddenInversionSpec

_OPTIONS = {
    "kl_nats": "kl",
    "layers": "layer",
    "mechanisms": "mechanism",
    "storages": "storage",
}
"""Options that are not named as their field."""


@with_options(HiddenInversionSpec, options=_OPTIONS)
def invert(
    context: typer.Context,
    config: Annotated[
        Path | None, typer.Option(help="Take all settings from this TOML file.")
    ] = None,
    workers: Annotated[int, typer.Option(help="Processes; 0: one a core.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder of the evidence.")] = None,
    json: Annotated[str, typer.Option("--json", help=JSON_HELP)] = "",
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
    **given: Any,
) -> None:
    """Read prompts exactly out of their stored states, token by token.

    Every layer, mechanism and storage is a cell of its own, over the same prompts.

    Exit code 0: no prompt was read. 1: at least one was. 2: nothing shows whether one was.
    """
    from insular.evidence import default_run_path

    spec = settings(HiddenInversionSpec, given, context, config)
    folder = out or default_run_path(Path("runs"), "hidden-invert")
    end(
        lambda: _invert(spec, folder, workers=workers, json=json, quiet=quiet),
        interrupted=goes_on(folder),
    )


def _invert(
    spec: HiddenInversionSpec, folder: Path, *, workers: int, json: str, quiet: bool
) -> int:
    """Invert, print, and give the exit code."""
    from insular.cli.progress import TaskProgress
    from insular.evidence import available_cores
    from insular.recipes.hidden.inversion.run import invert_hidden
    from insular.recipes.hidden.inversion.summary import inversion_blocks

    cells = len(spec.layers) * len(spec.chosen) * len(spec.storages)
    lines = {
        "releases": len(spec.layers) * len(spec.chosen),
        "prompts": cells * spec.prompts,
    }
    with TaskProgress(lambda task: lines[task], quiet=quiet) as progress:
        result = invert_hidden(
            spec,
            folder,
            command=tuple(sys.argv),
            workers=workers or available_cores(),
            progress=progress,
        )
    show(result, inversion_blocks, folder, json=json)
    return result.exit_code
