"""``insular hidden``: what a released hidden state gives away, and what protects it."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from insular.cli.hidden_invert import invert
from insular.cli.hidden_store import store
from insular.cli.one_line_group import OneLineGroup
from insular.cli.output import JSON_HELP, end, goes_on, print_json, show
from insular.cli.spec_options import settings, with_options
from insular.recipes.hidden.spec import MECHANISM_KINDS, SweepSpec

app = typer.Typer(
    cls=OneLineGroup,
    help="Measure what released hidden states tell of their prompts, and at what use.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


app.command("invert")(invert)
app.command("store")(store)

_States = Annotated[
    Path | None,
    typer.Option(help="Folder of extracted states, to share between runs; else within --out."),
]
_NO_RELEASE = ("mechanisms", "evaluation", "repeats", "agreement", "delta")
"""Settings that say nothing of layers before any release."""


@app.command("geometry")
@with_options(SweepSpec, options={"kl_nats": "kl"}, without=_NO_RELEASE)
def geometry(
    context: typer.Context,
    config: Annotated[
        Path | None, typer.Option(help="Take all settings from this TOML file.")
    ] = None,
    states: _States = None,
    workers: Annotated[int, typer.Option(help="Processes; 0: one a core.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder of the evidence.")] = None,
    json: Annotated[str, typer.Option("--json", help=JSON_HELP)] = "",
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
    **given: Any,
) -> None:
    """Measure what a model reads of its states and how prompts differ, before any release.

    Exit code 0: measured. 2: not.
    """
    from insular.evidence import default_run_path

    given["evaluation"] = min(SweepSpec.evaluation, given["queries"])  # plays no part
    spec = settings(SweepSpec, given, context, config)
    folder = out or default_run_path(Path("runs"), "hidden-geometry")
    end(
        lambda: _geometry(spec, folder, states, workers=workers, json=json, quiet=quiet),
        interrupted=goes_on(folder),
    )


@app.command("sweep")
@with_options(SweepSpec, options={"kl_nats": "kl"})
def sweep(
    context: typer.Context,
    config: Annotated[
        Path | None, typer.Option(help="Take all settings from this TOML file.")
    ] = None,
    states: _States = None,
    workers: Annotated[int, typer.Option(help="Processes; 0: one a core.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder of the evidence.")] = None,
    json: Annotated[str, typer.Option("--json", help=JSON_HELP)] = "",
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
    list_mechanisms: Annotated[
        bool, typer.Option("--list", help="List the mechanisms and stop.")
    ] = False,
    **given: Any,
) -> None:
    """Release states by every mechanism at equal measured KL, and attack them.

    Exit code 0: each layer has a release that is useful and private. 1: a layer has none. 2:
    nothing could be measured.
    """
    from insular.evidence import default_run_path

    if list_mechanisms:
        from insular.reports.terminal import results_console, table

        rows = list(MECHANISM_KINDS.items())
        results_console().print(table(("Mechanism", "What it does"), rows))
        raise typer.Exit
    spec = settings(SweepSpec, given, context, config)
    folder = out or default_run_path(Path("runs"), "hidden")
    end(
        lambda: _sweep(spec, folder, states, workers=workers, json=json, quiet=quiet),
        interrupted=goes_on(folder),
    )


@app.command("fit")
@with_options(SweepSpec, options={"kl_nats": "kl", "layers": "layer", "mechanisms": "mechanism"})
def fit(
    context: typer.Context,
    config: Annotated[
        Path | None, typer.Option(help="Take all settings from this TOML file.")
    ] = None,
    states: _States = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the evidence, with release.safetensors in it.")
    ] = None,
    json: Annotated[str, typer.Option("--json", help=JSON_HELP)] = "",
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
    **given: Any,
) -> None:
    """Fit one mechanism to one layer, scale it to a measured KL, attack it and save it.

    Exit code 0: it is useful and private. 1: it is saved, but is not. 2: it could not be made.
    """
    from insular.evidence import default_run_path

    spec = settings(SweepSpec, given, context, config)
    folder = out or default_run_path(Path("runs"), "hidden-fit")
    end(
        lambda: _fit(spec, folder, states, json=json, quiet=quiet),
        interrupted=goes_on(folder),
    )


def _geometry(
    spec: SweepSpec, folder: Path, states: Path | None, *, workers: int, json: str, quiet: bool
) -> int:
    """Measure, print, and give the exit code."""
    from insular.cli.progress import TaskProgress
    from insular.evidence import available_cores
    from insular.recipes.hidden.geometry.run import layer_blocks, measure_layers

    lines = {**_lines(spec), "layers": 2 * len(spec.layers) + 1}
    with TaskProgress(lambda task: lines[task], quiet=quiet) as progress:
        result = measure_layers(
            spec,
            folder,
            states=states,
            command=tuple(sys.argv),
            workers=workers or available_cores(),
            progress=progress,
        )
    show(result, layer_blocks, folder, json=json)
    return 0


def _lines(spec: SweepSpec) -> dict[str, int]:
    """About how many lines the extraction of states reports."""
    return {"states": -(-spec.bank // 256) + -(-spec.fit // 256)}


def _fit(spec: SweepSpec, folder: Path, states: Path | None, *, json: str, quiet: bool) -> int:
    """Fit, print, and give the exit code."""
    from insular.cli.progress import TaskProgress
    from insular.recipes.hidden.fit import RELEASE, fit_release
    from insular.recipes.hidden.sweep._words import cell_words
    from insular.reports.terminal import results_console

    lines = {**_lines(spec), "fit": 1}
    with TaskProgress(lambda task: lines[task], quiet=quiet) as progress:
        cell = fit_release(spec, folder, states=states, command=tuple(sys.argv), progress=progress)
    if not print_json(cell, json):
        console = results_console()
        console.print(f"Layer {cell.layer}: {cell_words(cell)} among {spec.bank:,} candidates.")
        console.print(f"Release: {folder / RELEASE}", soft_wrap=True)
    assert cell.agreement is not None and cell.top1 is not None
    return 0 if cell.agreement >= spec.agreement and cell.top1 <= spec.top1 else 1


def _sweep(
    spec: SweepSpec, folder: Path, states: Path | None, *, workers: int, json: str, quiet: bool
) -> int:
    """Sweep, print, and give the exit code."""
    from insular.cli.progress import TaskProgress
    from insular.evidence import available_cores
    from insular.recipes.hidden.sweep.run import sweep_hidden
    from insular.recipes.hidden.sweep.summary import sweep_blocks

    lines = {
        **_lines(spec),
        "layers": len(spec.layers),
        "cells": len(spec.layers) * len(spec.chosen) * len(spec.kl_nats) * spec.repeats,
    }
    with TaskProgress(lambda task: lines[task], quiet=quiet) as progress:
        result = sweep_hidden(
            spec,
            folder,
            states=states,
            command=tuple(sys.argv),
            workers=workers or available_cores(),
            progress=progress,
        )
    show(result, sweep_blocks, folder, json=json)
    return result.exit_code
