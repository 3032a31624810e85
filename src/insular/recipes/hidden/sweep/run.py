"""``insular hidden sweep``: every mechanism at equal measured KL, against every attacker."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from insular.evidence import RunStore, write_atomic
from insular.recipes.hidden.session import hidden_run
from insular.recipes.hidden.spec import SweepSpec
from insular.recipes.hidden.sweep.cells import cell_tasks
from insular.recipes.hidden.sweep.layers import layer_tasks
from insular.recipes.hidden.sweep.page import sweep_page
from insular.recipes.hidden.sweep.results import SweepCell, SweepResult
from insular.recipes.hidden.sweep.winners import winners
from insular.recipes.inputs import Progress, silent
from insular.recipes.run_folder import RESULT, write_run_page

KIND = "hidden.sweep"
CELLS = "cells.parquet"


def sweep_hidden(
    spec: SweepSpec,
    out: Path,
    *,
    states: Path | None = None,
    command: Sequence[str],
    workers: int = 1,
    progress: Progress | None = None,
) -> SweepResult:
    """Measure what each release mechanism keeps of a state's use and of its prompt.

    Guarantees:
        * Mechanisms are compared at equal measured KL, never at equal noise.
        * No prompt that shaped or scaled a release is evaluated on or attacked.
        * A cell that is done is not done again; given the states, the numbers do not depend on
          ``workers``.
        * No file of the run holds record text; the states' folder holds states, from which text can
          be recovered, and is as private as the text.

    Args:
        spec: What to sweep.
        out: Folder of the evidence: new, empty, or an unfinished run of the same spec.
        states: Folder of the states, which later runs can share; by default within ``out``.
        command: The command as typed, for the manifest.
        workers: Processes that work side by side, of one thread each.
        progress: Called from this process.

    Returns:
        The result.

    Raises:
        InvalidArgumentError: If a layer is none of the model's, its states are too small for the
            rank, or its context for the prompts.
        RecordError: If the text has too few prompts.
        EvidenceError: If a folder holds something else.
    """
    with hidden_run(
        KIND,
        spec,
        out,
        states=states,
        command=command,
        workers=workers,
        report=progress or silent,
    ) as run:
        layers = run.run(layer_tasks(spec, run.folder), "layers")
        cells: list[SweepCell] = run.run(cell_tasks(spec, run.folder), "cells")
        result = SweepResult(
            model=spec.model,
            model_digest=run.model_digest,
            text=spec.text,
            n_candidates=len(run.states.bank.record_ids),
            n_queries=spec.queries,
            n_evaluation=spec.evaluation,
            agreement=spec.agreement,
            top1=spec.top1,
            delta=spec.delta,
            significance=spec.significance,
            layers=tuple(layers),
            cells=tuple(cells),
            winners=winners(cells),
        )
        _write_cells(run.store, cells)
        run.store.write_result(RESULT, result)
    write_page(run.store)
    return result


def write_page(store: RunStore) -> Path:
    """Render the page of a finished run from its evidence alone.

    Args:
        store: The run.

    Returns:
        The page's path.
    """
    result = store.read_result(RESULT, SweepResult)
    return write_run_page(store, lambda manifest: sweep_page(result, manifest))


def _write_cells(store: RunStore, cells: Sequence[SweepCell]) -> None:
    """One row a cell and attacker, as Parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist([row for cell in cells for row in _rows(cell)]), sink)
    write_atomic(store.path / CELLS, sink.getvalue().to_pybytes())
    store.adopt(CELLS)


def _rows(cell: SweepCell) -> list[dict[str, Any]]:
    """A cell once for each attacker, or once without."""
    plain = {
        field.name: getattr(cell, field.name)
        for field in fields(cell)
        if field.name not in ("utility", "attacks")
    }
    utility = cell.utility
    plain |= {
        "kl_nats": utility.kl_nats.mean if utility else None,
        "agreement": utility.agreement.mean if utility else None,
        "perplexity_ratio": utility.perplexity.ratio if utility and utility.perplexity else None,
    }
    attacks = cell.attacks or (None,)
    return [
        plain
        | {
            "attacker": attack.attacker if attack else None,
            "top_1": attack.top_1.value if attack else None,
            "top_1_lower": attack.top_1.lower if attack else None,
            "top_1_upper": attack.top_1.upper if attack else None,
            "top_10": attack.top_10.value if attack else None,
            "median_rank": attack.median_rank if attack else None,
        }
        for attack in attacks
    ]
