"""``insular audit``: does a training stack keep records apart?"""

import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from insular.cli.output import JSON_HELP, end, goes_on, print_json
from insular.cli.spec_options import settings
from insular.recipes.audit.spec import AuditSpec

if TYPE_CHECKING:
    from insular.audit.witnesses.results import WitnessResult

_DEFAULT = AuditSpec()
N_LINES = {"screen": 11, "census": 5, "growth": 11, "localisation": 17, "pair": 6}
"""Lines that a task reports, about, by the first word of its name."""
N_ARM_LINES = 34
"""The same of an arm: cases, checks, and locating what moved."""


def audit(
    context: typer.Context,
    model: Annotated[
        str, typer.Option(help="smollm2, a GGUF file, a model folder, or a hub name.")
    ] = _DEFAULT.model,
    stack: Annotated[str, typer.Option(help="Stack under test; --list shows them.")] = (
        _DEFAULT.stack
    ),
    subject: Annotated[
        str, typer.Option(help="module:factory of a callable under test instead of a stack.")
    ] = "",
    text: Annotated[
        str, typer.Option(help="wikipedia, shakespeare, or a JSONL, CSV, Parquet or text file.")
    ] = _DEFAULT.text,
    text_field: Annotated[str, typer.Option(help="Field that holds the text.")] = "text",
    id_field: Annotated[str, typer.Option(help="Field that holds the record id.")] = "",
    owner_field: Annotated[str, typer.Option(help="Field that holds the owner.")] = "",
    encoding: Annotated[str, typer.Option(help="Encoding of the file.")] = "utf-8",
    batch: Annotated[int, typer.Option(help="Records in the base batch.")] = _DEFAULT.batch,
    tokens: Annotated[
        int, typer.Option(help="Longest record in tokens; longer ones are cut.")
    ] = _DEFAULT.tokens,
    clip_norm: Annotated[float, typer.Option(help="Bound C of a record's gradient.")] = (
        _DEFAULT.clip_norm
    ),
    repairs: Annotated[
        str, typer.Option(help="Stacks to try as repairs, by comma; none for none.")
    ] = ",".join(_DEFAULT.repairs),
    parts: Annotated[
        str,
        typer.Option(help="Parts by comma: isolation (always), census, sensitivity, localisation."),
    ] = ",".join(_DEFAULT.parts),
    candidates: Annotated[
        int, typer.Option(help="Most records that the sensitivity screen adds.")
    ] = _DEFAULT.candidates,
    noise_multiplier: Annotated[
        float, typer.Option(help="Noise of the run to price: its standard deviation over C.")
    ] = _DEFAULT.noise_multiplier,
    sampling_prob: Annotated[float, typer.Option(help="Poisson rate of that run.")] = (
        _DEFAULT.sampling_prob
    ),
    steps: Annotated[int, typer.Option(help="Steps of that run.")] = _DEFAULT.steps,
    delta: Annotated[float, typer.Option(help="Delta of every epsilon.")] = _DEFAULT.delta,
    keep_gradients: Annotated[
        str, typer.Option(help="Gradients to save: all, or pair for the selected pair alone.")
    ] = _DEFAULT.keep_gradients,
    gradients: Annotated[
        str, typer.Option(help="Per-record gradients: hooks, opacus, func or loop.")
    ] = _DEFAULT.gradients,
    loss: Annotated[str, typer.Option(help="record_mean or token_mean.")] = _DEFAULT.loss,
    padding_side: Annotated[str, typer.Option(help="right or left.")] = _DEFAULT.padding_side,
    attention: Annotated[str, typer.Option(help="eager or sdpa.")] = _DEFAULT.attention,
    lora_rank: Annotated[int, typer.Option(help="Rank of the adapters.")] = _DEFAULT.lora_rank,
    lora_targets: Annotated[
        str, typer.Option(help="Layers with adapters, by comma; default: query and value.")
    ] = "",
    lora_b_std: Annotated[
        float, typer.Option(help="Spread of B at the start; at 0 only B has a gradient.")
    ] = _DEFAULT.lora_b_std,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1.")] = _DEFAULT.device,
    threads: Annotated[int, typer.Option(help="Threads of each worker.")] = _DEFAULT.threads,
    seed: Annotated[int, typer.Option(help="Seed of adapters and evaluations.")] = _DEFAULT.seed,
    workers: Annotated[
        int, typer.Option(help="Processes that run arms side by side; 0: one a core.")
    ] = 0,
    config: Annotated[
        Path | None, typer.Option(help="Take all settings from this TOML file.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the evidence.")] = None,
    json: Annotated[str, typer.Option("--json", help=JSON_HELP)] = "",
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
    witness: Annotated[
        bool, typer.Option("--witness", help="Run the constructed witnesses instead.")
    ] = False,
    list_stacks: Annotated[bool, typer.Option("--list", help="List the stacks and stop.")] = False,
) -> None:
    """Audit a training stack: can one record touch another's clipped gradient?

    Exit code 0: isolated on the path that ran. 1: coupled. 2: could not be audited.
    """
    if list_stacks:
        _list_stacks()
        raise typer.Exit
    if witness:
        raise typer.Exit(_witness(device, json))
    given = {f.name: context.params[f.name] for f in fields(AuditSpec) if f.name in context.params}
    given["repairs"] = "" if repairs == "none" else repairs
    spec = settings(AuditSpec, given, context, config)
    folder = out or _default_folder(spec)
    end(
        lambda: _run(spec, folder, workers=workers, json=json, quiet=quiet),
        interrupted=goes_on(folder),
    )


def _default_folder(spec: AuditSpec) -> Path:
    """A new folder under ``runs``, named after what is under test."""
    from insular.evidence import default_run_path

    stem = spec.subject.replace(":", "-") if spec.subject else spec.stack
    return default_run_path(Path("runs"), stem)


def _run(spec: AuditSpec, folder: Path, *, workers: int, json: str, quiet: bool) -> int:
    """Run the audit, print it, and give its exit code."""
    from insular.cli.progress import TaskProgress
    from insular.evidence import available_cores
    from insular.recipes.audit.run import audit_stack
    from insular.recipes.audit.summary import isolation_summary, summary_blocks
    from insular.recipes.run_folder import PAGE
    from insular.reports.terminal import results_console

    with TaskProgress(n_lines, quiet=quiet) as progress:
        result = audit_stack(
            spec,
            folder,
            command=tuple(sys.argv),
            workers=workers or available_cores(),
            progress=progress,
        )
    if not print_json(result, json):
        console = results_console()
        for block in summary_blocks(isolation_summary(result, run_folder=str(folder))):
            console.print(block, soft_wrap=isinstance(block, str))  # a command must not break
        console.print(f"Page:   {folder / PAGE}", soft_wrap=True)
    return result.exit_code


def n_lines(task: str) -> int:
    """About how many lines a task reports.

    Args:
        task: Its name.

    Returns:
        The number.
    """
    return N_LINES.get(task.partition(" ")[0], N_ARM_LINES)


def _list_stacks() -> None:
    """Print every stack with its line."""
    from insular.recipes.audit.spec import STACKS
    from insular.reports.terminal import results_console, table

    results_console().print(table(("Stack", "What it is"), list(STACKS.items())))


def _witness(device: str, json: str) -> int:
    """Run the constructed witnesses and print them."""
    from insular.audit.witnesses.cases import run_witnesses
    from insular.recipes.audit.witness_summary import witness_blocks
    from insular.reports.terminal import results_console

    result: WitnessResult = run_witnesses(device=device)
    if not print_json(result, json):
        console = results_console()
        for block in witness_blocks(result):
            console.print(block)
    return result.exit_code
