"""``insular ledger``: a budget that a team cannot overspend."""

from typing import Annotated, Any

import typer

from insular.cli.output import JSON_HELP

commands = typer.Typer(
    name="ledger",
    help="Reserve privacy budget before a run, commit what it spent, see what is left.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Where = Annotated[
    str,
    typer.Option(
        "--ledger",
        envvar="INSULAR_LEDGER",
        help="File of the ledger, or postgresql://USER@HOST/DATABASE.",
    ),
]
Name = Annotated[str, typer.Argument(metavar="RELEASE", help="Name of the release.")]
Epsilon = Annotated[str, typer.Option("--epsilon", help="In nats, as a decimal.")]
Delta = Annotated[str, typer.Option("--delta", help="As a decimal, such as 1e-6.")]
Note = Annotated[str, typer.Option("--note", help="A remark to keep; one line.")]
Json = Annotated[str, typer.Option("--json", help=JSON_HELP)]


@commands.command("init")
def init(
    ledger: Where,
    population: Annotated[str, typer.Option("--population", help="Name of the population.")],
    unit: Annotated[str, typer.Option("--unit", help="Protected unit: record or owner.")],
    relation: Annotated[str, typer.Option("--relation", help="add_or_remove_one or replace_one.")],
    epsilon_cap: Annotated[str, typer.Option("--epsilon-cap", help="Most that a unit may lose.")],
    delta_cap: Annotated[str, typer.Option("--delta-cap", help="Likewise for delta.")],
    partition: Annotated[
        str,
        typer.Option(
            "--partition", help="Populations of one partition are declared to share no unit."
        ),
    ] = "",
    note: Note = "",
    json: Json = "",
) -> None:
    """Make a ledger, or add a population to one; each has its own cap."""
    from insular.evidence.ledger import Amount, Ledger

    cap = Amount.of(epsilon_cap, delta_cap)
    receipt = _granted(
        lambda: Ledger(ledger).declare(
            population,
            unit=unit,  # pyright: ignore[reportArgumentType] - checked by the ledger
            relation=relation,  # pyright: ignore[reportArgumentType]
            cap=cap,
            partition=partition,
            note=note,
        ),
        json,
    )
    _tell(receipt, f"Population {population} may be charged {cap}.", json=json)


@commands.command("reserve")
def reserve(
    release: Name,
    ledger: Where,
    epsilon: Epsilon,
    delta: Delta,
    population: Annotated[
        str, typer.Option("--population", help="Whose units the run reads.")
    ] = "",
    extend: Annotated[
        bool, typer.Option("--extend", help="Add to a reservation that exists.")
    ] = False,
    note: Note = "",
    json: Json = "",
) -> None:
    """Set budget aside before a run. Exit code 1: refused, a cap would be exceeded."""
    from insular.errors import InvalidArgumentError
    from insular.evidence.ledger import Amount, Ledger

    amount, book = Amount.of(epsilon, delta), Ledger(ledger)
    if extend == bool(population):
        raise InvalidArgumentError(
            "reserve needs --population NAME for a new release, or --extend for a reserved one."
        )
    receipt = _granted(
        lambda: (
            book.extend(release, amount=amount, note=note)
            if extend
            else book.reserve(release, population=population, amount=amount, note=note)
        ),
        json,
    )
    _tell(receipt, f"Reserved {amount} for {release}.", json=json)


@commands.command("commit")
def commit(
    release: Name,
    ledger: Where,
    epsilon: Epsilon = "",
    delta: Delta = "",
    artifact: Annotated[
        list[str] | None,
        typer.Option("--artifact", help="SHA-256 of an artifact that this pays for; repeatable."),
    ] = None,
    note: Note = "",
    json: Json = "",
) -> None:
    """State what a run really spent, and which artifacts that pays for.

    Without --epsilon and --delta, the artifacts are added to a committed release at no cost: they
    come from the transcript that it paid for.
    """
    from insular.errors import InvalidArgumentError
    from insular.evidence.ledger import Amount, Ledger

    book, digests = Ledger(ledger), tuple(artifact or ())
    if bool(epsilon) != bool(delta) or not (epsilon or digests):
        raise InvalidArgumentError(
            "commit needs --epsilon and --delta, or only --artifact for a committed release."
        )
    if not epsilon:
        receipt = book.cover(release, artifacts=digests, note=note)
        _tell(receipt, f"{release} covers {len(digests)} more, at no cost.", json=json)
        return
    amount = Amount.of(epsilon, delta)
    receipt = book.commit(release, amount=amount, artifacts=digests, note=note)
    _tell(receipt, f"{release} spent {amount}.", json=json)


@commands.command("abort")
def abort(
    release: Name,
    ledger: Where,
    reason: Annotated[
        str, typer.Option("--reason", help="Why nobody saw anything that the run computed.")
    ],
    json: Json = "",
) -> None:
    """Free a reservation whose run let nothing out. Otherwise commit what it spent."""
    from insular.evidence.ledger import Ledger

    receipt = Ledger(ledger).abort(release, reason=reason)
    _tell(receipt, f"{release} is aborted; its reservation is free.", json=json)


@commands.command("status")
def status(ledger: Where, json: Json = "") -> None:
    """Show caps, what is spent, what is reserved, what is left, and which releases wait."""
    from insular.evidence.ledger import Ledger

    found = Ledger(ledger).status()
    if _print_json(found, json):
        return
    from insular.cli.ledger_tables import status_lines

    typer.echo("\n".join(status_lines(found)))


@commands.command("history")
def history(
    ledger: Where,
    last: Annotated[int, typer.Option("--last", help="Most entries.")] = 20,
    release: Annotated[str, typer.Option("--release", help="Those of one release only.")] = "",
    json: Json = "",
) -> None:
    """Show the last entries, oldest first."""
    from insular.evidence.ledger import Ledger

    entries = Ledger(ledger).history(last=last, release=release)
    if _print_json(entries, json):
        return
    from insular.cli.ledger_tables import history_lines

    typer.echo("\n".join(history_lines(entries)))


@commands.command("verify")
def verify(
    ledger: Where,
    head: Annotated[
        str, typer.Option("--head", help="A head that was kept elsewhere, NUMBER:SHA256.")
    ] = "",
    json: Json = "",
) -> None:
    """Read every entry. Exit code 1: one was edited, deleted, added or moved.

    Only a head that was kept elsewhere shows that the chain was not cut short or written anew.
    """
    from insular.evidence.ledger import Ledger

    found = Ledger(ledger).verify(head=head)
    from insular.cli.ledger_tables import counted

    if not _print_json(found, json):
        for fault in found.faults:
            typer.echo(fault)
        word = "intact" if found.intact else "not as it was written"
        typer.echo(f"{counted(found.n_entries, 'entry', 'entries')}: {word}. Head {found.head}")
        if found.n_clock_behind:
            many = counted(found.n_clock_behind, "entry was", "entries were")
            typer.echo(f"{many} written under a clock set back.")
    raise typer.Exit(0 if found.intact else 1)


def _granted(ask: Any, json: str) -> Any:
    """What was asked for; a refusal is one line, or one JSON object, and exit code 1."""
    from insular.errors import BudgetExceededError

    try:
        return ask()
    except BudgetExceededError as error:
        if not _print_json({"refused": str(error)}, json):
            typer.echo(f"insular: {error}", err=True)
        raise typer.Exit(1) from None


def _tell(receipt: Any, line: str, *, json: str) -> None:
    """Print a receipt, and on standard error that the clock was behind."""
    if receipt.clock_behind_s >= 1:
        typer.echo(
            f"insular: this machine's clock is {receipt.clock_behind_s:.0f} s before the ledger's "
            "last entry; the entry took that entry's time and keeps the clock's.",
            err=True,
        )
    if not _print_json(receipt, json):
        typer.echo(f"Entry {receipt.entry.number}: {line}")
        typer.echo(f"Left for {receipt.entry.population}: {receipt.left}.")


def _print_json(result: Any, target: str) -> bool:
    """Write a result as JSON; whether standard output was used."""
    from pathlib import Path

    from insular.evidence import write_atomic
    from insular.evidence.ledger import as_json

    if not target:
        return False
    if target == "-":
        typer.echo(as_json(result), nl=False)
        return True
    write_atomic(Path(target), as_json(result))
    return False
