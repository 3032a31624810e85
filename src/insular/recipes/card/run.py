"""``insular card``: the release card of a finished run, from its evidence alone."""

from collections.abc import Sequence
from pathlib import Path

from insular.audit.audit_results import AuditResult
from insular.errors import EvidenceError
from insular.evidence import RunStore, encode, sha256_of, write_atomic
from insular.evidence.card import ReleaseCard
from insular.evidence.files import explained
from insular.recipes.audit.spec import AuditSpec
from insular.recipes.card.attacks import lower_bounds
from insular.recipes.card.audit import audit_card
from insular.recipes.card.markdown import card_markdown
from insular.recipes.card.page import card_page
from insular.recipes.card.search import kept_run, search_card
from insular.recipes.card.statements import NOTHING_STATED, Statements
from insular.recipes.card.training import training_card
from insular.recipes.run_folder import RESULT, read_settings
from insular.recipes.train.results import TrainResult
from insular.recipes.train.search.results import SearchResult
from insular.recipes.train.spec import TrainSpec
from insular.reports.page import render

AUDIT, TRAINING, SEARCH = "audit.isolation", "train", "train.search"
"""The kinds of run that have a card, as their manifests name them."""
CARD_JSON, CARD_MARKDOWN, CARD_PAGE = "card.json", "card.md", "card.html"


def make_card(
    run: Path, *, stated: Statements = NOTHING_STATED, attacks: Sequence[Path] = ()
) -> ReleaseCard:
    """Make the card of a finished run.

    Guarantees:
        * The same evidence and statements give the same card.
        * Evidence that was changed, and an artifact that is no longer what the run made, are
          refused.
        * A fact that nobody stated is missing, and never a default.
        * The epsilon of a search's card is that of the whole search.

    Args:
        run: Its folder.
        stated: What only a person can say.
        attacks: Folders of attacks on this training run.

    Returns:
        The card.

    Raises:
        EvidenceError: If the run is unfinished, has no card, or is not as it was written.
    """
    store = RunStore.open(run)
    manifest = store.manifest
    if manifest.kind not in (AUDIT, TRAINING, SEARCH):
        raise EvidenceError(
            f"{run} must be an audit, a training run or a search to have a card, got"
            f" {manifest.kind}."
        )
    if attacks and manifest.kind != TRAINING:
        what = "an audit" if manifest.kind == AUDIT else "a search of settings"
        raise EvidenceError(f"{run} must be a training run to take --attack, got {what}.")
    # what was not as planned ends as failed, with results that say so
    if manifest.status != "complete" and not _says_why(store):
        raise EvidenceError(
            f"{run} must be a complete run to have a card, it is {manifest.status}; finish it."
        )
    if manifest.kind == AUDIT:
        spec = read_settings(store, AuditSpec)
        return audit_card(store.read_result(RESULT, AuditResult), spec, manifest, stated=stated)
    trained = read_settings(store, TrainSpec)
    if manifest.kind == SEARCH:
        search, winner = kept_run(store)
        _check_artifacts(store, winner)
        audit = _audit_of(store, winner)
        return search_card(search, winner, trained, manifest, stated=stated, audit=audit)
    result = store.read_result(RESULT, TrainResult)
    _check_artifacts(store, result)
    audit = _audit_of(store, result)
    bounds = lower_bounds(attacks, manifest)
    return training_card(result, trained, manifest, stated=stated, audit=audit, lower_bounds=bounds)


def write_card(card: ReleaseCard, run: Path, *, out: Path | None = None) -> tuple[Path, ...]:
    """Write a card as JSON, as Markdown and as a page.

    Args:
        card: The card.
        run: Folder of its run.
        out: Folder to write into; None for the run's, whose manifest then lists the files.

    Returns:
        The paths.
    """
    texts = {
        CARD_JSON: encode(card),
        CARD_MARKDOWN: card_markdown(card),
        CARD_PAGE: render(card_page(card)),
    }
    if out is None:
        store = RunStore.open(run)
        status = store.manifest.status
        store.reopen()
        try:
            for name, text in texts.items():
                store.write_text(name, text)
        finally:
            store.finish(status)
        return tuple(store.path / name for name in texts)
    with explained(out, doing="use"):
        out.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        write_atomic(out / name, text)
    return tuple(out / name for name in texts)


def _says_why(store: RunStore) -> bool:
    """Whether a failed training run or search has results that speak against it."""
    kinds = {TRAINING: TrainResult, SEARCH: SearchResult}
    kind = kinds.get(store.manifest.kind)
    if kind is None or store.manifest.status != "failed" or not store.has_result(RESULT):
        return False
    return not store.read_result(RESULT, kind).as_planned


def _audit_of(store: RunStore, result: TrainResult) -> AuditResult | None:
    """The audit that a training run made of its stack, if it is still there."""
    found = result.isolation
    folder = store.path / found.folder
    if not found.folder or not (folder / "manifest.json").is_file():
        return None
    inner = RunStore.open(folder)
    audit = inner.read_result(RESULT, AuditResult)
    if inner.manifest.files[f"{RESULT}.json"] != found.results_sha256:
        raise EvidenceError(
            f"{folder} is not the audit that {store.path} was made after; put that one back."
        )
    return audit


def _check_artifacts(store: RunStore, result: TrainResult) -> None:
    """Refuse a card that would vouch for other files than the run made."""
    for artifact in result.artifacts:
        place = store.path / artifact.file
        if not place.resolve().is_relative_to(store.path.resolve()):
            raise EvidenceError(f"{store.path} names an artifact outside its folder.")
        if place.is_file() and sha256_of(place) != artifact.sha256:
            raise EvidenceError(
                f"{place} is not the artifact that the run made: its sha256 is not the one in "
                "results.json."
            )
