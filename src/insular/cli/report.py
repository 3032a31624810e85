"""``insular report``: render the page of a run again, from its evidence alone."""

from pathlib import Path
from typing import Annotated

import typer


def report(
    run: Annotated[Path, typer.Argument(help="Folder of a complete run.")],
) -> None:
    """Render a run's page again from its evidence, and print where it lies."""
    from insular.recipes.pages import write_page_of

    typer.echo(str(write_page_of(run)))
