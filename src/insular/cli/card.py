"""``insular card``: what a finished run lets out, what it costs, whether the claim holds."""

from pathlib import Path
from typing import Annotated

import typer

from insular.cli.output import JSON_HELP, print_json


def card(
    run: Annotated[
        Path, typer.Argument(help="Folder of a complete audit, training run or search.")
    ],
    stated: Annotated[
        Path | None,
        typer.Option(help="TOML file of what only you can say: curator, use, access."),
    ] = None,
    attack: Annotated[
        list[Path] | None,
        typer.Option(help="Folder of an attack on this training run; may come several times."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the card; by default the run's.")
    ] = None,
    json: Annotated[str, typer.Option("--json", help=JSON_HELP)] = "",
) -> None:
    """Write the release card of a run: card.json, card.md for a model card, card.html.

    Exit code 0: the claim holds. 1: it does not. 2: undecided, or there is no card to make.
    """
    from insular.recipes.card.run import make_card, write_card
    from insular.recipes.card.statements import NOTHING_STATED, read_statements
    from insular.recipes.card.words import card_summary

    made = make_card(
        run,
        stated=read_statements(stated) if stated else NOTHING_STATED,
        attacks=attack or (),
    )
    files = write_card(made, run, out=out)
    if not print_json(made, json):
        from insular.reports.terminal import results_console

        console = results_console()
        for block in card_summary(made):
            console.print(block)
        for file in files:
            console.print(f"Card: {file}", soft_wrap=True)
    raise typer.Exit(made.exit_code)
