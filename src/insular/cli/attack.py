"""``insular attack``: what a release really tells, from below."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from insular.cli.attack_membership import membership
from insular.cli.attack_one_run import one_run
from insular.cli.attack_secrets import attribute, canaries, extraction
from insular.cli.one_line_group import OneLineGroup
from insular.cli.output import JSON_HELP, end, goes_on, print_json, show
from insular.cli.spec_options import names
from insular.recipes.attack.release.spec import ReleaseSpec
from insular.recipes.attack.training.spec import TrainingAttackSpec

T = TypeVar("T")

_DEFAULT = ReleaseSpec(run="")
_TRAINING = TrainingAttackSpec(run="")

app = typer.Typer(
    cls=OneLineGroup,
    help="Bound from below what a release tells, and plan how many draws that takes.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command("membership")(membership)
app.command("one-run")(one_run)
app.command("canaries")(canaries)
app.command("extraction")(extraction)
app.command("attribute")(attribute)


@app.command("power")
def power(
    ratio: Annotated[
        float, typer.Option(help="Distance of the two clipped sums over the promised bound.")
    ],
    draws: Annotated[int, typer.Option(help="Draws of each neighbour.")] = _DEFAULT.draws,
    noise_multiplier: Annotated[
        float, typer.Option(help="Noise standard deviation over the clip norm.")
    ] = 1.0,
    delta: Annotated[float, typer.Option(help="Delta of every epsilon.")] = 1e-5,
    significance: Annotated[
        float, typer.Option(help="Error probability of each procedure.")
    ] = _DEFAULT.significance,
    power: Annotated[
        float, typer.Option(help="Wanted probability to refute, for the draws needed.")
    ] = 0.95,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the figure: expected bound against draws.")
    ] = None,
    json: Annotated[str, typer.Option("--json", help=JSON_HELP)] = "",
) -> None:
    """What an attack with so many draws can be expected to prove, before it runs."""
    from insular.audit.release.power import attack_power
    from insular.evidence import write_atomic
    from insular.evidence.files import explained
    from insular.recipes.attack.release.summary import power_blocks, power_svg
    from insular.reports.terminal import results_console

    result = attack_power(
        ratio,
        draws=draws,
        noise_multiplier=noise_multiplier,
        delta=delta,
        significance=significance,
        wanted=power,
    )
    if out is not None:
        with explained(out, doing="use"):
            out.mkdir(parents=True, exist_ok=True)
        write_atomic(out / "power.svg", power_svg(result))
    if print_json(result, json):
        return
    console = results_console()
    for block in power_blocks(result):
        console.print(block)
    if out is not None:
        typer.echo(f"Figure: {out / 'power.svg'}")


@app.command("release")
def release(
    run: Annotated[Path, typer.Argument(help="Folder of an audit with its sensitivity part.")],
    draws: Annotated[int, typer.Option(help="Releases of each neighbour.")] = _DEFAULT.draws,
    stack: Annotated[
        str,
        typer.Option(help="Stacks by comma; by default the one under test and its first repair."),
    ] = "",
    statistic: Annotated[
        str, typer.Option(help="full-vector, or exact-scalar: the ideal mechanism in one number.")
    ] = _DEFAULT.statistic,
    noise_multiplier: Annotated[
        float | None, typer.Option(help="Noise over the clip norm; else as the audit priced it.")
    ] = None,
    expected_batch_size: Annotated[
        float | None, typer.Option(help="Divisor of the noisy sum; else the audit's batch.")
    ] = None,
    learning_rate: Annotated[float, typer.Option(help="Of the SGD step.")] = (
        _DEFAULT.learning_rate
    ),
    significance: Annotated[
        float, typer.Option(help="Error probability of the whole run.")
    ] = _DEFAULT.significance,
    shard_draws: Annotated[
        int, typer.Option(help="Releases of a shard, which a stopped run keeps.")
    ] = _DEFAULT.shard_draws,
    seed: Annotated[int, typer.Option(help="Every shard's seed follows from it.")] = _DEFAULT.seed,
    workers: Annotated[int, typer.Option(help="Processes; 0: one a core.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder of the evidence.")] = None,
    json: Annotated[str, typer.Option("--json", help=JSON_HELP)] = "",
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Release an audited pair many times: does what comes out keep the promise?

    Exit code 0: not refuted. 1: refuted. 2: undecided, since the draws would often not show the
    measured excess.
    """
    from insular.evidence import default_run_path

    spec = ReleaseSpec(
        run=str(run),
        stacks=names(stack),
        draws=draws,
        statistic=statistic,  # pyright: ignore[reportArgumentType]
        noise_multiplier=noise_multiplier,
        expected_batch_size=expected_batch_size,
        learning_rate=learning_rate,
        significance=significance,
        shard_draws=shard_draws,
        seed=seed,
    )
    folder = out or default_run_path(Path("runs"), "attack")
    end(
        lambda: _release(spec, folder, workers=workers, json=json, quiet=quiet),
        interrupted=goes_on(folder),
    )


@app.command("training")
def training(
    run: Annotated[Path, typer.Argument(help="Folder of a training run.")],
    canaries: Annotated[int, typer.Option(help="Canaries of each repetition.")] = (
        _TRAINING.canaries
    ),
    repetitions: Annotated[int, typer.Option(help="How often training is repeated.")] = (
        _TRAINING.repetitions
    ),
    direction: Annotated[
        str, typer.Option(help="Gradient of a canary: dirac (length C) or long (100 C).")
    ] = _TRAINING.direction,
    excess: Annotated[
        float, typer.Option(help="Sensitivity over the promised one that should be seen.")
    ] = _TRAINING.excess,
    significance: Annotated[
        float, typer.Option(help="Error probability of the whole run.")
    ] = _TRAINING.significance,
    audit: Annotated[str, typer.Option(help="Folder of an audit whose pair is played too.")] = "",
    stack: Annotated[
        str, typer.Option(help="Stack of that audit; by default the one under test.")
    ] = "",
    pair_repetitions: Annotated[int, typer.Option(help="Repetitions on the pair.")] = (
        _TRAINING.pair_repetitions
    ),
    shard_games: Annotated[
        int, typer.Option(help="Repetitions of a shard, which a stopped run keeps.")
    ] = _TRAINING.shard_games,
    seed: Annotated[int, typer.Option(help="Coins, draws and noise follow from it.")] = (
        _TRAINING.seed
    ),
    workers: Annotated[int, typer.Option(help="Processes; 0: one a core.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder of the evidence.")] = None,
    json: Annotated[str, typer.Option("--json", help=JSON_HELP)] = "",
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Repeat a training run with canaries: do all its noisy sums together keep the promise?

    Exit code 0: not refuted. 1: refuted. 2: undecided, since so many scores would often not show
    the excess.
    """
    from insular.evidence import default_run_path

    spec = TrainingAttackSpec(
        run=str(run),
        canaries=canaries,
        repetitions=repetitions,
        direction=direction,  # pyright: ignore[reportArgumentType]
        excess=excess,
        significance=significance,
        audit=audit,
        stack=stack,
        pair_repetitions=pair_repetitions,
        shard_games=shard_games,
        seed=seed,
    )
    folder = out or default_run_path(Path("runs"), "attack")
    end(
        lambda: _training(spec, folder, workers=workers, json=json, quiet=quiet),
        interrupted=goes_on(folder),
    )


def _release(spec: ReleaseSpec, folder: Path, *, workers: int, json: str, quiet: bool) -> int:
    """Draw, print, and give the exit code."""
    from insular.recipes.attack.release.run import attack_releases
    from insular.recipes.attack.release.summary import release_blocks

    attack = partial(attack_releases, spec, folder)
    lines = spec.shard_draws // 1024 + 1
    result = _attacked(attack, lines, workers=workers, quiet=quiet)
    show(result, release_blocks, folder, json=json)
    return result.exit_code


def _training(
    spec: TrainingAttackSpec, folder: Path, *, workers: int, json: str, quiet: bool
) -> int:
    """Play, print, and give the exit code."""
    from insular.recipes.attack.training.games import LINES
    from insular.recipes.attack.training.run import attack_training
    from insular.recipes.attack.training.summary import training_blocks

    attack = partial(attack_training, spec, folder)
    result = _attacked(attack, LINES + 1, workers=workers, quiet=quiet)
    show(result, training_blocks, folder, json=json)
    return result.exit_code


def _attacked(attack: Callable[..., T], lines: int, *, workers: int, quiet: bool) -> T:
    """The result of an attack whose shards report so many lines."""
    from insular.cli.progress import TaskProgress
    from insular.evidence import available_cores

    with TaskProgress(lambda task: lines, quiet=quiet) as progress:
        return attack(
            command=tuple(sys.argv), workers=workers or available_cores(), progress=progress
        )
