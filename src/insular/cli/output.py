"""What every command prints the same way: a result as JSON, to a file or to standard output."""

from pathlib import Path

import typer

JSON_HELP = "Write the result as JSON to this file; - is standard output."


def print_json(result: object, target: str) -> bool:
    """Write a result dataclass as JSON.

    Args:
        result: The result.
        target: A path; ``-`` for standard output; empty for nothing.

    Returns:
        Whether standard output was used, so that nothing else should be printed there.
    """
    from insular.evidence import encode, write_atomic

    if not target:
        return False
    text = encode(result)
    if target == "-":
        typer.echo(text, nl=False)
        return True
    write_atomic(Path(target), text)
    return False
