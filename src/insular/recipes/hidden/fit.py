"""``insular hidden fit``: one mechanism for one layer, scaled to a measured KL, as a file."""

from collections.abc import Sequence
from pathlib import Path

from insular.errors import AccountingError, InvalidArgumentError
from insular.evidence import RunStore
from insular.recipes.hidden.bench import bench_of
from insular.recipes.hidden.session import hidden_run
from insular.recipes.hidden.spec import SweepSpec
from insular.recipes.hidden.sweep._words import STATUS
from insular.recipes.hidden.sweep.cells import cell_tasks
from insular.recipes.hidden.sweep.results import SweepCell
from insular.recipes.inputs import Progress, silent
from insular.recipes.run_folder import RESULT

KIND = "hidden.fit"
RELEASE = "release.safetensors"


def fit_release(
    spec: SweepSpec,
    out: Path,
    *,
    states: Path | None = None,
    command: Sequence[str],
    progress: Progress | None = None,
) -> SweepCell:
    """Fit one mechanism, scale it, measure and attack it, and save it.

    Guarantees:
        * What is saved is what was measured: the same shape at the scale that the cell states.
        * A target that no scale reaches leaves no file.

    Args:
        spec: With one layer, one mechanism, one KL and one repeat.
        out: Folder of the evidence; the release is ``release.safetensors`` in it.
        states: Folder of the states; by default within ``out``.
        command: The command as typed, for the manifest.
        progress: Called from this process.

    Returns:
        What was measured.

    Raises:
        InvalidArgumentError: If the spec names several, or the mechanism cannot be fitted.
        AccountingError: If no scale reaches the target.
    """
    counts = {
        "layer": len(spec.layers),
        "mechanism": len(spec.mechanisms),
        "kl": len(spec.kl_nats),
        "repeats": spec.repeats,
    }
    for name, n in counts.items():
        if n != 1:
            raise InvalidArgumentError(f"{name} must be one to fit a release, got {n}.")
    with hidden_run(
        KIND, spec, out, states=states, command=command, workers=1, report=progress or silent
    ) as run:
        (cell,) = run.run(cell_tasks(spec, run.folder), "fit")
        _save(spec, run.store, run.folder, cell)
        run.store.write_result(RESULT, cell)
    return cell


def _save(spec: SweepSpec, store: RunStore, states: Path, cell: SweepCell) -> None:
    """Write the release at the scale of its cell."""
    from insular.hidden.mechanisms import save_release

    (mechanism,), (kl,) = spec.mechanisms, spec.kl_nats
    if cell.status == "not fitted":
        raise InvalidArgumentError(cell.reason)
    if cell.scale is None:
        raise AccountingError(
            f"{mechanism} must cost a measured KL of {kl:g} nats at layer {cell.layer}, got"
            f" {STATUS[cell.status]}; choose another --kl or --mechanism."
        )
    nominal = bench_of(spec, states).release(cell.layer, mechanism, budget_nats=kl)
    save_release(nominal.scaled(cell.scale**2), store.path / RELEASE)
    store.adopt(RELEASE)
