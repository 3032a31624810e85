"""What every command does the same way: print its result as JSON, and end."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import typer

from insular.cli import interrupts

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


def show(
    result: Any, blocks: Callable[[Any], tuple[object, ...]], folder: Path, *, json: str
) -> None:
    """Print a result at most 80 columns wide, and name its page; or print it as JSON.

    Args:
        result: The result.
        blocks: What to print of it, in order.
        folder: Folder of the evidence.
        json: As for ``print_json``.
    """
    from insular.recipes.run_folder import PAGE
    from insular.reports.terminal import results_console

    if print_json(result, json):
        return
    console = results_console()
    for block in blocks(result):
        console.print(block)
    console.print(f"Page:   {folder / PAGE}", soft_wrap=True)


def end(run: Callable[[], int], *, interrupted: str | Callable[[], str]) -> NoReturn:
    """Run a command to its end and leave with its exit code.

    Args:
        run: Gives the exit code.
        interrupted: How to go on, if it is interrupted; the exit code is then 130.
    """
    code = None
    try:
        code = run()
    except KeyboardInterrupt:
        pass
    except Exception:
        if not interrupts.noticed():
            raise
    if code is None or interrupts.noticed():
        code = interrupts.leave(interrupted if isinstance(interrupted, str) else interrupted())
    raise typer.Exit(code)


def goes_on(folder: Path) -> Callable[[], str]:
    """How a run goes on that keeps what it had finished.

    Args:
        folder: Its folder.

    Returns:
        Gives the end of a sentence, by what the folder holds by then.
    """

    def how() -> str:
        from insular.errors import InsularError
        from insular.evidence import RunStore

        try:
            complete = RunStore.open(folder).manifest.status == "complete"
        except InsularError:  # nothing was begun, or it cannot be read
            complete = False
        if complete:
            return f"the run in {folder} was complete."
        return f"the same command with --out {folder} goes on from here."

    return how
