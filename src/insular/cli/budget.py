"""``insular budget``: compute, compare and calibrate privacy cost, and read what it means."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from insular.cli.one_line_group import OneLineGroup
from insular.cli.output import JSON_HELP, print_json
from insular.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable


app = typer.Typer(
    cls=OneLineGroup,
    help="Compute, compare and calibrate privacy cost, and read what it means.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Noise = Annotated[float, typer.Option(help="Noise standard deviation over the clip norm.")]
Sampling = Annotated[float, typer.Option(help="Poisson rate: expected batch over the data.")]
Steps = Annotated[int, typer.Option(help="Steps of the run.")]
Relation = Annotated[str, typer.Option(help="add_or_remove_one or replace_one.")]
Unit = Annotated[str, typer.Option(help="record or owner: what is clipped and sampled as one.")]
Json = Annotated[str, typer.Option("--json", help=JSON_HELP)]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print the number alone.")]


@app.command("epsilon")
def epsilon(
    noise_multiplier: Noise,
    sampling_prob: Sampling,
    steps: Steps,
    delta: Annotated[float, typer.Option(help="Delta of every epsilon.")],
    relation: Relation = "add_or_remove_one",
    unit: Unit = "record",
    records_per_owner: Annotated[
        int, typer.Option(help="Most records of one owner; adds the owner's cost.")
    ] = 1,
    json: Json = "",
    quiet: Quiet = False,
) -> None:
    """Epsilon of a run by every accountant, side by side, and what it means."""
    from insular.recipes.budget.questions import run_epsilon
    from insular.recipes.budget.summary import epsilon_blocks

    run = _run(noise_multiplier, sampling_prob, steps, relation=relation, unit=unit)
    result = run_epsilon(run, delta=delta, records_per_owner=records_per_owner)
    _show(result, epsilon_blocks, json, number=result.headline.epsilon if quiet else None)


@app.command("calibrate")
def calibrate(
    sampling_prob: Sampling,
    steps: Steps,
    epsilon: Annotated[float | None, typer.Option(help="Promise: epsilon at most this.")] = None,
    advantage: Annotated[
        float | None, typer.Option(help="Promise: no attacker's advantage above this.")
    ] = None,
    tpr: Annotated[
        float | None, typer.Option(help="Promise: no true positive rate above this, at --fpr.")
    ] = None,
    fpr: Annotated[float | None, typer.Option(help="False positive rate of --tpr.")] = None,
    delta: Annotated[
        float | None, typer.Option(help="Delta of every epsilon; 1e-5 where none is promised.")
    ] = None,
    relation: Relation = "add_or_remove_one",
    unit: Unit = "record",
    json: Json = "",
    quiet: Quiet = False,
) -> None:
    """The least noise that keeps a promise: epsilon, advantage, or a true positive rate.

    Exit code 2: the promise is out of reach; the line says what is in reach.
    """
    from insular.recipes.budget.questions import calibrated_noise
    from insular.recipes.budget.results import CalibrationSpec
    from insular.recipes.budget.summary import calibration_blocks

    promises = {"epsilon": epsilon, "advantage": advantage, "true_positive_rate": tpr}
    given = [(name, value) for name, value in promises.items() if value is not None]
    if len(given) != 1:
        raise InvalidArgumentError(
            f"one promise must be given, got {len(given)}; choose one of --epsilon, --advantage"
            " and --tpr."
        )
    if (tpr is None) != (fpr is None):
        raise InvalidArgumentError("--tpr and --fpr must be given together, got one of them.")
    if epsilon is not None and delta is None:
        raise InvalidArgumentError("--delta must be given with --epsilon, got none.")
    ((target, value),) = given
    spec = CalibrationSpec(
        target=target,  # pyright: ignore[reportArgumentType]
        value=value,
        false_positive_rate=fpr,
        delta=1e-5 if delta is None else delta,
        sampling_prob=sampling_prob,
        steps=steps,
        relation=relation,  # pyright: ignore[reportArgumentType]
        unit=unit,  # pyright: ignore[reportArgumentType]
    )
    result = calibrated_noise(spec)
    number = result.found.noise_multiplier if quiet else None
    _show(result, calibration_blocks, json, number=number)


@app.command("curve")
def curve(
    noise_multiplier: Noise,
    sampling_prob: Sampling,
    steps: Steps,
    delta: Annotated[
        list[float] | None, typer.Option(help="Once for each delta; by default six of them.")
    ] = None,
    fpr: Annotated[
        list[float] | None, typer.Option(help="Once for each false positive rate.")
    ] = None,
    relation: Relation = "add_or_remove_one",
    unit: Unit = "record",
    figure: Annotated[
        Path | None, typer.Option(help="Draw the trade-off curve into this SVG file.")
    ] = None,
    json: Json = "",
) -> None:
    """Epsilon at each delta, advantage, and the trade-off curve of the best attacker."""
    from insular.evidence import write_atomic
    from insular.recipes.budget.questions import DELTAS, RATES, budget_curve
    from insular.recipes.budget.summary import curve_blocks, curve_svg

    run = _run(noise_multiplier, sampling_prob, steps, relation=relation, unit=unit)
    result = budget_curve(run, deltas=delta or DELTAS, rates=fpr or RATES)
    if figure is not None:
        write_atomic(figure, curve_svg(run))
    _show(result, curve_blocks, json)
    if figure is not None and json != "-":
        typer.echo(f"Figure: {figure}")


@app.command("pair")
def pair(
    distance: Annotated[
        float, typer.Option(help="Distance of the two clipped sums, in clip norms C.")
    ],
    noise_multiplier: Noise = 1.0,
    delta: Annotated[float, typer.Option(help="Delta of every epsilon.")] = 1e-5,
    relation: Relation = "add_or_remove_one",
    repeat_distance: Annotated[
        float, typer.Option(help="Distance of an identical repeat, in clip norms C.")
    ] = 0.0,
    sampling_prob: Annotated[
        float | None, typer.Option(help="Poisson rate of the run to price, with --steps.")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Steps of that run.")] = None,
    json: Json = "",
    quiet: Quiet = False,
) -> None:
    """What a measured sensitivity means in epsilon, beside what an accountant assumes.

    Exit code 0: the distance keeps the bound. 1: it exceeds it, and the claim does not hold.
    """
    from insular.recipes.budget.pair import pair_price
    from insular.recipes.budget.results import PairSpec
    from insular.recipes.budget.summary import pair_blocks

    spec = PairSpec(
        distance=distance,
        noise_multiplier=noise_multiplier,
        delta=delta,
        relation=relation,  # pyright: ignore[reportArgumentType]
        repeat_distance=repeat_distance,
        sampling_prob=sampling_prob,
        steps=steps,
    )
    result = pair_price(spec)
    _show(result, pair_blocks, json, number=result.rows[1].step_epsilon if quiet else None)
    raise typer.Exit(result.exit_code)


@app.command("group")
def group(
    epsilon: Annotated[float, typer.Option(help="Epsilon of one record.")],
    delta: Annotated[float, typer.Option(help="Delta of one record.")],
    records_per_owner: Annotated[int, typer.Option(help="Most records of one owner.")],
    json: Json = "",
    quiet: Quiet = False,
) -> None:
    """What a guarantee for one record means for an owner of several."""
    from insular.recipes.budget.pair import group_price
    from insular.recipes.budget.summary import group_blocks

    result = group_price(epsilon, delta, records_per_owner=records_per_owner)
    _show(result, group_blocks, json, number=result.owner.epsilon if quiet else None)


def _run(
    noise_multiplier: float, sampling_prob: float, steps: int, *, relation: str, unit: str
) -> Any:
    """The run that the options describe."""
    from insular.recipes.budget.results import PlannedRun

    return PlannedRun(
        noise_multiplier=noise_multiplier,
        sampling_prob=sampling_prob,
        steps=steps,
        relation=relation,  # pyright: ignore[reportArgumentType]
        unit=unit,  # pyright: ignore[reportArgumentType]
    )


def _show(
    result: Any, blocks: "Callable[[Any], Any]", json: str, *, number: float | None = None
) -> None:
    """Print a result: as JSON, as one number, or in words."""
    if print_json(result, json):
        return
    if number is not None:
        typer.echo(repr(float(number)))
        return
    from insular.reports.terminal import results_console

    console = results_console()
    for block in blocks(result):
        console.print(block)
