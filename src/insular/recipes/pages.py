"""The page of any run, made of its evidence alone."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from insular.errors import EvidenceError
from insular.evidence import RunStore

_WRITERS = {
    "attack.attribute": "insular.recipes.attack_attribute",
    "attack.extraction": "insular.recipes.attack_extraction",
    "attack.membership": "insular.recipes.attack_membership",
    "attack.one-run": "insular.recipes.attack_one_run",
    "attack.release": "insular.recipes.attack",
    "attack.training": "insular.recipes.attack_training",
    "audit.isolation": "insular.recipes.audit",
    "hidden.geometry": "insular.recipes.hidden_geometry",
    "hidden.invert": "insular.recipes.hidden_inversion",
    "hidden.store": "insular.recipes.hidden_store",
    "hidden.sweep": "insular.recipes.hidden_sweep",
    "train": "insular.recipes.train",
    "train.search": "insular.recipes.train_search",
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
