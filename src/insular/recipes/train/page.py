"""A private training run as a page: the answer first, then what it rests on."""

from insular.evidence import RunManifest
from insular.recipes._page_parts import evidence_files, run_sentence
from insular.recipes.train._answers import answers
from insular.recipes.train._learning import (
    data_section,
    noise_section,
    telemetry_section,
    utility_section,
)
from insular.recipes.train._promise import plan_section, promise_section
from insular.recipes.train._release import ledger_section, release_section, repeat_section
from insular.recipes.train._stack import isolation_section, liveness_section
from insular.recipes.train._words import not_covered, path_sentence, protected_sentence
from insular.recipes.train.results import TrainResult
from insular.reports import Page


def train_page(
    result: TrainResult, manifest: RunManifest, *, run_folder: str | None = None
) -> Page:
    """Turn a training run into the content of a page. The page is private: it shows telemetry.

    Guarantees:
        * The first paragraph says whether the guarantee is the one that ran, and what it is.
        * Where noise was seeded, the log differs from the plan, training failed or records are
          coupled, that comes first, and the same words are in the frame above it.
        * No record appears, neither by text nor by id, but those that the audit's sentence names.
        * Files are called fit to leave only where the guarantee holds.

    Args:
        result: What ran; written beside the page as ``results.json``.
        manifest: The run.
        run_folder: Folder that the commands name; by default ``runs/`` and the run's name.

    Returns:
        The page, for :func:`insular.reports.render`.
    """
    folder = run_folder or f"runs/{manifest.name}"
    found = answers(result)
    protects = all(answer.protects for answer in found)
    promise, plan = promise_section(result, protects=protects), plan_section(result)
    stack, liveness = isolation_section(result), liveness_section(result)
    first = [promise, plan, stack, liveness]
    # what is not as planned is what a reader of such a run looks for
    if not result.liveness.alive:
        first = [liveness, promise, plan, stack]
    if result.executed.differences:
        first = [plan, *(section for section in first if section is not plan)]
    sections = [
        *first,
        release_section(result, manifest, folder=folder, protects=protects),
        data_section(result),
        utility_section(result),
        noise_section(result),
        telemetry_section(result),
        ledger_section(result),
        repeat_section(result, manifest, folder=folder),
    ]
    return Page(
        title=f"Training run: {result.model} on {result.data.name}",
        verdict=found[0].word,
        verdict_kind=found[0].kind,
        lead=(
            *(answer.sentence for answer in found),
            protected_sentence(result, protects=protects),
            path_sentence(result),
            not_covered(result),
        ),
        sections=tuple(sections),
        evidence=evidence_files(manifest),
        footer=f"{run_sentence(manifest)} This page is private: it shows what the guarantee does"
        " not cover. It holds no text of any record.",
    )
