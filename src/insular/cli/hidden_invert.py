"""``insular hidden invert`` and ``insular hidden store``: exact inversion, and a store's price."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from insular.cli.output import JSON_HELP, end, print_json, show
from insular.cli.spec_options import settings, with_options
from insular.recipes.hidden_inversion_spec import HiddenInversionSpec

_AGAIN = "nothing was kept but the token table; the same command with a new --out starts again."


@with_options(HiddenInversionSpec, options={"kl_nats": "kl"})
def invert(
    context: typer.Context,
    config: Annotated[
        Path | None, typer.Option(help="Take all settings from this TOML file.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the evidence.")] = None,
    json: Annotated[str, typer.Option("--json", help=JSON_HELP)] = "",
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
    **given: Any,
) -> None:
    """Read prompts exactly out of their stored states, token by token.

    Exit code 0: no prompt was read. 1: at least one was. 2: nothing shows whether one was.
    """
    from insular.evidence import default_run_path

    spec = settings(HiddenInversionSpec, given, context, config)
    folder = out or default_run_path(Path("runs"), "hidden-invert")
    end(lambda: _invert(spec, folder, json=json, quiet=quiet), interrupted=_AGAIN)


def store(
    states: Annotated[Path, typer.Argument(help="Safetensors file with one matrix of states.")],
    release: Annotated[
        Path | None, typer.Option(help="A file of insular hidden fit; else states stay clean.")
    ] = None,
    storage: Annotated[
        str, typer.Option(help="How states are kept: float32, bf16, int8, int4.")
    ] = "float32",
    queries: Annotated[int, typer.Option(help="States that are searched with, the first ones.")] = (
        200
    ),
    k: Annotated[int, typer.Option("--k", help="Neighbours of a search.")] = 10,
    seed: Annotated[int, typer.Option(help="Of the noise and the intervals.")] = 0,
    json: Annotated[str, typer.Option("--json", help=JSON_HELP)] = "",
) -> None:
    """Write states to a vector index through a mechanism: search quality lost, rows still told.

    Exit code 0: measured. 2: it could not be.
    """
    from insular.hidden.store import measure_store
    from insular.recipes.hidden_inversion_prompts import read_matrix
    from insular.recipes.hidden_inversion_summary import store_blocks
    from insular.reports.terminal import results_console

    def run() -> int:
        from insular.hidden.mechanisms import load_release

        matrix = read_matrix(states)
        result = measure_store(
            matrix,
            matrix[:queries],
            release=None if release is None else load_release(release),
            storage=storage,  # pyright: ignore[reportArgumentType]
            k=k,
            seed=seed,
        )
        if not print_json(result, json):
            for block in store_blocks(result):
                results_console().print(block)
        return 0

    end(run, interrupted="nothing was kept.")


def _invert(spec: HiddenInversionSpec, folder: Path, *, json: str, quiet: bool) -> int:
    """Invert, print, and give the exit code."""
    from insular.cli.progress import TaskProgress
    from insular.recipes.hidden_inversion import invert_hidden
    from insular.recipes.hidden_inversion_summary import inversion_blocks

    with TaskProgress(lambda task: spec.prompts, quiet=quiet) as progress:
        result = invert_hidden(spec, folder, command=tuple(sys.argv), progress=progress)
    show(result, inversion_blocks, folder, json=json)
    return result.exit_code
