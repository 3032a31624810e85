"""The ``insular`` command. Heavy imports wait until a command needs them."""

import sys
from typing import Annotated

import typer

from insular import __version__
from insular.cli import attack, audit, budget, card, fetch, hidden, ledger, replay, report, train
from insular.errors import InsularError

app = typer.Typer(
    name="insular",
    help="Every record an island: evidence for privacy claims about language models.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("audit")(audit.audit)
app.command("train")(train.train)
app.command("replay")(replay.replay)
app.command("report")(report.report)
app.command("card")(card.card)
app.command("fetch")(fetch.fetch)
app.add_typer(attack.app, name="attack")
app.add_typer(budget.app, name="budget")
app.add_typer(hidden.app, name="hidden")
app.add_typer(ledger.commands, name="ledger")


def _version(value: bool) -> None:
    """Print the version and stop."""
    if value:
        typer.echo(f"insular {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Every record an island: evidence for privacy claims about language models."""


def main() -> None:
    """Run the command line; a known error is one line on standard error, and exit code 2."""
    try:
        app(standalone_mode=True)
    except InsularError as error:
        typer.echo(f"insular: {error}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    from insular.cli.process import main as process

    process()
