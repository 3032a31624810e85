"""The page of any run, made of its evidence alone."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from insular.errors import EvidenceError
from insular.evidence import RunStore

_WRITERS = {
    "attack.attribute": "insular.recipes.attack.attribute.run",
    "attack.extraction": "insular.recipes.attack.extraction.run",
    "attack.membership": "insular.recipes.attack.membership.run",
    "attack.one-run": "insular.recipes.attack.one_run.run",
    "attack.release": "insular.recipes.attack.release.run",
    "attack.training": "insular.recipes.attack.training.run",
    "audit.isolation": "insular.recipes.audit.run",
    "hidden.geometry": "insular.recipes.hidden.geometry.run",
    "hidden.invert": "insular.recipes.hidden.inversion.run",
    "hidden.store": "insular.recipes.hidden.store.run",
    "hidden.sweep": "insular.recipes.hidden.sweep.run",
    "train": "insular.recipes.train.run",
    "train.search": "insular.recipes.train.search.run",
}
"""Kind of a run to the module whose ``write_page`` renders it."""


def write_page_of(run: Path) -> Path:
    """Render a run's page again, after checking that nobody changed its evidence.

    Args:
        run: Folder of a run that ended.

    Returns:
        The page's path.

    Raises:
        EvidenceError: If the run was changed, has not ended, or is of a kind without a page.
    """
    store = RunStore.open(run)
    store.verify()
    kind = store.manifest.kind
    if kind not in _WRITERS:
        raise EvidenceError(
            f"{run} must hold a run with a page, one of {', '.join(_WRITERS)}; got {kind}."
        )
    write: Callable[[RunStore], Path] = import_module(_WRITERS[kind]).write_page
    return write(store)
