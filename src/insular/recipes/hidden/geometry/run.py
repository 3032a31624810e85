"""``insular hidden geometry``: what a model reads of its states, before any release."""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from insular.evidence import RunManifest, RunStore
from insular.recipes._page_parts import evidence_files, repeat_attack, run_sentence
from insular.recipes.hidden.geometry._components_sections import (
    components_section,
    numerics_section,
)
from insular.recipes.hidden.geometry._components_words import component_sentences, rounding_sentence
from insular.recipes.hidden.geometry.components import component_tasks, numerics_task
from insular.recipes.hidden.session import hidden_run
from insular.recipes.hidden.spec import SweepSpec
from insular.recipes.hidden.sweep._layers_section import layers_section
from insular.recipes.hidden.sweep.layers import layer_tasks
from insular.recipes.hidden.sweep.results import LayersResult
from insular.recipes.inputs import Progress, silent
from insular.recipes.run_folder import RESULT, write_run_page
from insular.recipes.tasks import Task
from insular.reports import Page, paragraph

if TYPE_CHECKING:
    from rich.console import RenderableType

KIND = "hidden.geometry"


def measure_layers(
    spec: SweepSpec,
    out: Path,
    *,
    states: Path | None = None,
    command: Sequence[str],
    workers: int = 1,
    progress: Progress | None = None,
) -> LayersResult:
    """Measure what a model reads of its states and how prompts differ, layer by layer.

    Guarantees:
        * A sweep with the same settings and ``states`` takes these states as they are.

    Args:
        spec: The settings of a sweep; its mechanisms and targets play no part.
        out: Folder of the evidence: new, empty, or an unfinished run of the same spec.
        states: Folder of the states; by default within ``out``.
        command: The command as typed, for the manifest.
        workers: Processes that work side by side, of one thread each.
        progress: Called from this process.

    Returns:
        The result.
    """
    with hidden_run(
        KIND, spec, out, states=states, command=command, workers=workers, report=progress or silent
    ) as run:
        numerics, *found = run.run(_tasks(spec, run.folder), "layers")
        result = LayersResult(
            model=spec.model,
            model_digest=run.model_digest,
            text=spec.text,
            n_candidates=len(run.states.bank.record_ids),
            n_queries=spec.queries,
            layers=tuple(found[::2]),
            components=tuple(found[1::2]),
            numerics=numerics,
        )
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
    result = store.read_result(RESULT, LayersResult)
    return write_run_page(store, lambda manifest: layers_page(result, manifest))


def layers_page(result: LayersResult, manifest: RunManifest) -> Page:
    """Turn the layers into the content of a page.

    Args:
        result: What was found; written beside the page as ``results.json``.
        manifest: The run that found it.

    Returns:
        The page, for :func:`insular.reports.render`.
    """
    return Page(
        title=f"Hidden states of {result.model}",
        verdict="Measured, nothing released",
        verdict_kind="open",
        lead=tuple(map(paragraph, layer_sentences(result))),
        sections=(
            layers_section(result.layers),
            *((components_section(result.components),) if result.components else ()),
            *(
                (numerics_section(result.numerics, result.components),)
                if result.numerics and result.components
                else ()
            ),
            repeat_attack(manifest, speeds=()),
        ),
        evidence=evidence_files(manifest),
        footer=f"{run_sentence(manifest)} No record text is on this page.",
    )


def layer_sentences(result: LayersResult) -> tuple[str, ...]:
    """What each layer is, in a sentence.

    Args:
        result: The layers.

    Returns:
        Sentences.
    """
    found = []
    for layer in result.layers:
        gain, top1 = layer.geometry.adaptive_gain, layer.clean[0].top_1.value
        known = "beyond" if gain.beyond_null else "within"
        found.append(
            f"Layer {layer.layer}: a state that is released as it is gives its prompt away in "
            f"{top1:.1%} of {result.n_queries:,} cases among {result.n_candidates:,} candidates. "
            f"The best Gaussian shape hides prompts {gain.value:.2f} times as well as isotropic "
            f"noise of equal first-order cost, on average; that is {known} what data without "
            f"structure gives ({gain.null.lowest:.2f} to {gain.null.highest:.2f})."
        )
    return tuple(found)


def state_sentences(result: LayersResult) -> tuple[str, ...]:
    """What each layer's states are made of, and how far rounding moves them.

    Args:
        result: The layers.

    Returns:
        Paragraphs; none for a run that did not measure it.
    """
    return tuple(
        words
        for found in result.components
        for words in (
            " ".join(component_sentences(found)),
            *((rounding_sentence(result.numerics, found),) if result.numerics else ()),
        )
    )


def layer_blocks(result: LayersResult) -> "tuple[RenderableType, ...]":
    """The sentences and a table for the terminal.

    Args:
        result: The layers.

    Returns:
        What the console prints, in order.
    """
    from insular.reports import terminal

    rows = [
        (
            str(layer.layer),
            *(
                text
                for name in ("adaptive_gain", "fisher_energy", "effective_rank")
                for number in [getattr(layer.geometry, name)]
                for text in (f"{number.value:.3g}", f"{number.null.mean:.3g}")
            ),
        )
        for layer in result.layers
    ]
    return (
        *layer_sentences(result),
        *state_sentences(result),
        terminal.table(
            ("Layer", "G_mah", "null", "E_k", "null", "r_95/d", "null"),
            rows,
            numeric=(0, 1, 2, 3, 4, 5, 6),
            title="Each number beside what data without structure gives",
        ),
    )


def _tasks(spec: SweepSpec, states: Path) -> list[Task]:
    """The certificate, then for each layer its geometry and its parts, while it is in memory."""
    pairs = zip(layer_tasks(spec, states), component_tasks(spec, states), strict=True)
    return [numerics_task(spec, states), *chain.from_iterable(pairs)]
