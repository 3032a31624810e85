"""``insular train``: private fine-tuning whose guarantee is the one that ran."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from insular.cli.output import JSON_HELP, end, print_json
from insular.cli.spec_options import settings, with_options
from insular.errors import InvalidArgumentError
from insular.recipes.train.spec import BACKBONES, TrainSpec

N_AUDIT_LINES = 34
"""Lines that the short audit reports, about."""


@with_options(TrainSpec)
def train(
    context: typer.Context,
    config: Annotated[
        Path | None, typer.Option(help="Take all settings from this TOML file.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run whose run.toml --config names.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Folder of the run.")] = None,
    json: Annotated[str, typer.Option("--json", help=JSON_HELP)] = "",
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
    search: Annotated[
        Path | None,
        typer.Option(
            help="TOML file of a private hyperparameter search: mean_runs, shape, and lists of"
            " values to try."
        ),
    ] = None,
    list_backbones: Annotated[
        bool, typer.Option("--list", help="List the backbones and stop.")
    ] = False,
    **given: Any,
) -> None:
    """Fine-tune adapters on protected text with differential privacy.

    Exit code 0: the guarantee is the one that ran. 1: it is not, or nothing is protected. 2:
    refused or stopped, with the reason; what was released before that is in the log.
    """
    if list_backbones:
        from insular.reports.terminal import results_console, table

        results_console().print(table(("Backbone", "What it is"), list(BACKBONES.items())))
        raise typer.Exit
    folder = out or _folder(config, resume=resume)
    spec = settings(TrainSpec, given, context, config)

    def run() -> int:
        if search is not None or (resume and (folder / "search.toml").is_file()):
            where = search or folder / "search.toml"
            return _search(spec, where, folder, resume=resume, json=json, quiet=quiet)
        return _run(spec, folder, resume=resume, json=json, quiet=quiet)

    end(
        run,
        interrupted="what was released is in the log. Go on with"
        f" insular train --config {folder / 'run.toml'} --resume",
    )


def _folder(config: Path | None, *, resume: bool) -> Path:
    """The folder of the run that is resumed, or a new one under ``runs``."""
    from insular.evidence import default_run_path

    if not resume:
        return default_run_path(Path("runs"), "train")
    if config is None:
        raise InvalidArgumentError(
            "--resume must know its run, got neither --config nor --out; give --config"
            " RUN/run.toml."
        )
    return config.parent


def _run(spec: TrainSpec, folder: Path, *, resume: bool, json: str, quiet: bool) -> int:
    """Train, print what came out, and give the exit code."""
    from insular.cli.progress import TaskProgress
    from insular.recipes.run_folder import PAGE
    from insular.recipes.train.run import train_privately
    from insular.recipes.train.summary import summary_blocks, train_summary
    from insular.reports.terminal import results_console

    def n_lines(task: str) -> int:
        return spec.steps if task == "train" else N_AUDIT_LINES

    with TaskProgress(n_lines, quiet=quiet) as progress:
        result = train_privately(
            spec, folder, command=tuple(sys.argv), resume=resume, progress=progress
        )
    if not print_json(result, json):
        console = results_console()
        for block in summary_blocks(train_summary(result, run_folder=str(folder))):
            console.print(block, soft_wrap=isinstance(block, str))
        console.print(f"Page:   {folder / PAGE}", soft_wrap=True)
    return result.exit_code


def _search(
    spec: TrainSpec, search: Path, folder: Path, *, resume: bool, json: str, quiet: bool
) -> int:
    """Search, print what was kept and what it cost, and give the exit code."""
    from insular.cli.progress import TaskProgress
    from insular.recipes.train.search.run import read_search, search_privately
    from insular.recipes.train.search.summary import search_blocks
    from insular.reports.terminal import results_console

    def n_lines(task: str) -> int:
        return spec.steps if task.endswith("train") else N_AUDIT_LINES

    with TaskProgress(n_lines, quiet=quiet) as progress:
        result = search_privately(
            spec,
            read_search(search),
            folder,
            command=tuple(sys.argv),
            resume=resume,
            progress=progress,
        )
    if not print_json(result, json):
        console = results_console()
        for block in search_blocks(result, run_folder=str(folder)):
            console.print(block, soft_wrap=isinstance(block, str))
    return result.exit_code
