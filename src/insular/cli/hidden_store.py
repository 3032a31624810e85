"""``insular hidden store``: a vector index whose writes are released states."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from insular.cli.output import JSON_HELP, end, goes_on, show
from insular.cli.spec_options import settings, with_options
from insular.recipes.hidden.spec import NO_MECHANISM
from insular.recipes.hidden.store.spec import HiddenStoreSpec

_OPTIONS = {
    "kl_nats": "kl",
    "layers": "layer",
    "mechanisms": "mechanism",
    "storages": "storage",
}
"""Options that are not named as their field."""


@with_options(HiddenStoreSpec, options=_OPTIONS, without=("states",))
def store(
    context: typer.Context,
    matrix: Annotated[
        Path | None,
        typer.Argument(
            metavar="[STATES]",
            show_default=False,
            help="A safetensors file with one matrix of states, instead of a text.",
        ),
    ] = None,
    states: Annotated[
        Path | None,
        typer.Option(
            help="Folder of extracted states, to share between runs; or the file of STATES."
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="Take all settings from this TOML file.")
    ] = None,
    workers: Annotated[int, typer.Option(help="Processes; 0: one a core.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder of the evidence.")] = None,
    json: Annotated[str, typer.Option("--json", help=JSON_HELP)] = "",
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
    **given: Any,
) -> None:
    """Write states to a vector index through mechanisms: neighbours lost, rows still told.

    Each layer, mechanism and storage is an index of its own, over the same prompts.

    Exit code 0: every index was measured. 2: one could not be.
    """
    from insular.evidence import default_run_path

    if matrix is None and states is not None and _is_matrix(states):
        matrix, states = states, None
    if config is None:
        given["states"] = "" if matrix is None else str(matrix)
    spec = settings(HiddenStoreSpec, given, context, config)
    if matrix is not None and config is not None:
        spec = replace(spec, states=str(matrix))
    folder = out or default_run_path(Path("runs"), "hidden-store")
    end(
        lambda: _store(spec, folder, states, workers=workers, json=json, quiet=quiet),
        interrupted=goes_on(folder),
    )


def _is_matrix(path: Path) -> bool:
    """Whether a path is a file of states rather than a folder."""
    return path.is_file() or path.suffix == ".safetensors"


def _store(
    spec: HiddenStoreSpec,
    folder: Path,
    states: Path | None,
    *,
    workers: int,
    json: str,
    quiet: bool,
) -> int:
    """Measure, print, and give the exit code."""
    from insular.cli.progress import TaskProgress
    from insular.evidence import available_cores
    from insular.recipes.hidden.store.run import store_hidden
    from insular.recipes.hidden.store.summary import store_blocks

    fitted = sum(name != NO_MECHANISM for name in spec.mechanisms)
    lines = {
        "states": -(-spec.bank // 256) + -(-spec.fit // 256),
        "indexes": len(spec.layers) * (1 + fitted * len(spec.kl_nats)),
    }
    with TaskProgress(lambda task: lines.get(task, 1), quiet=quiet) as progress:
        result = store_hidden(
            spec,
            folder,
            states=states,
            command=tuple(sys.argv),
            workers=workers or available_cores(),
            progress=progress,
        )
    show(result, store_blocks, folder, json=json)
    return result.exit_code
