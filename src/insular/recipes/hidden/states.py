"""States and gradients of a text's prompts, extracted once into a folder that runs can share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, final

import numpy as np

from insular.errors import EvidenceError
from insular.evidence import ArrayRef, InputFact, RunStore
from insular.hidden.states.extraction_results import ExtractionResult
from insular.hidden.states.gradient_results import GradientSummary
from insular.recipes.folder_lock import alone_in
from insular.recipes.hidden.spec import SweepSpec
from insular.recipes.hidden.states_spec import StatesSpec, states_spec
from insular.recipes.hidden.text import Prompts
from insular.recipes.run_folder import SPEC_FILE, begin_run, read_settings, run_status
from insular.records import TokenisedRecord

if TYPE_CHECKING:
    from insular.hidden.states.forward import SplitDecoder
    from insular.models.loading import Decoder

KIND = "hidden.states"
BANK = "bank"
FIT_PROMPTS = 256
"""Fitted prompts of one file; a stopped extraction loses at most one file's work."""


@final
@dataclass(frozen=True, kw_only=True)
class FitPart:
    """States and gradients of some fitted prompts, at every layer."""

    n_prompts: int
    """How many."""
    gradients: tuple[GradientSummary, ...]
    """Facts about the gradients, layer by layer."""
    arrays: ArrayRef | None = None
    """``states-<layer>`` and ``gradients-<layer>``."""


@final
@dataclass(frozen=True, kw_only=True)
class LayerArrays:
    """What a layer's mechanisms are fitted to and attacked on; float32 rows."""

    bank: np.ndarray
    """States of the candidates, in their order."""
    fit: np.ndarray
    """States of the fitted prompts."""
    gradients: np.ndarray
    """Gradients of log p with respect to the state, one row a fitted prompt and label."""


@final
@dataclass(frozen=True, kw_only=True)
class States:
    """An extraction that is complete."""

    store: RunStore
    """Its folder."""
    bank: ExtractionResult
    """What was extracted of the candidates."""
    parts: tuple[FitPart, ...]
    """What was extracted of the fitted prompts."""

    def layer(self, layer: int) -> LayerArrays:
        """Everything of one layer.

        Args:
            layer: One of the extracted ones.

        Returns:
            Its arrays.
        """
        from insular.hidden.states.extraction import read_states

        parts = [self.store.read_arrays(part.arrays) for part in self.parts if part.arrays]
        return LayerArrays(
            bank=read_states(self.store, name=BANK).arrays[layer],
            fit=np.concatenate([part[f"states-{layer}"] for part in parts]),
            gradients=np.concatenate([part[f"gradients-{layer}"] for part in parts]),
        )


def prepare_states(
    spec: SweepSpec,
    folder: Path,
    prompts: Prompts,
    *,
    decoder: "Decoder",
    split: "SplitDecoder",
    command: Sequence[str],
    progress: Callable[[str], None],
) -> States:
    """Extract what a sweep needs, or read what an earlier run extracted.

    Guarantees:
        * A folder of other settings, another text or another model is refused.
        * An extraction that was stopped goes on at its first missing file.
        * Of two runs that extract into one folder, the second is refused and writes nothing.

    Args:
        spec: The sweep.
        folder: Folder of the states: new, or of an extraction of the same settings.
        prompts: The prompts in their roles.
        decoder: The model.
        split: The same, cut at its layers.
        command: The command as typed.
        progress: Called with one line per file.

    Returns:
        The states.

    Raises:
        EvidenceError: If the folder holds something else, or another run is extracting into it.
    """
    model = InputFact(name="model", source=spec.model, sha256=decoder.digest)

    def opened() -> RunStore:
        return _opened(folder, states_spec(spec), prompts, model, command=command)

    if _complete(folder):
        opened()
    else:
        with alone_in(folder, doing="extracting into", option="--states"):
            store = opened()
            if store.manifest.status != "complete":  # who held it until now may have done it
                with run_status(store, stage="states"):
                    _extract(spec, store, prompts, decoder=decoder, split=split, progress=progress)
                    store.finish("complete")
    return open_states(folder)


def open_states(folder: Path) -> States:
    """The states of a complete extraction.

    Args:
        folder: Its folder.

    Returns:
        The states; arrays are read when asked for, and refused if they were changed.
    """
    store = RunStore.open(folder)
    parts = []
    while store.has_result(_part(len(parts))):
        parts.append(store.read_result(_part(len(parts)), FitPart))
    return States(store=store, bank=store.read_result(BANK, ExtractionResult), parts=tuple(parts))


def _extract(
    spec: SweepSpec,
    store: RunStore,
    prompts: Prompts,
    *,
    decoder: "Decoder",
    split: "SplitDecoder",
    progress: Callable[[str], None],
) -> None:
    """Candidates, then fitted prompts file by file."""
    from insular.hidden.states.extraction import extract_states
    from insular.hidden.states.extraction_spec import ExtractionSpec

    extract_states(
        split,
        prompts.candidates(),
        ExtractionSpec(layers=spec.layers, batch_tokens=spec.batch_tokens),
        model_digest=decoder.digest,
        pad_token_id=decoder.pad_token_id,
        store=store,
        name=BANK,
        progress=progress,
    )
    for index, start in enumerate(range(0, len(prompts.fit), FIT_PROMPTS)):
        if store.has_result(_part(index)):
            continue
        part, arrays = _fit_part(
            spec, prompts.fit[start : start + FIT_PROMPTS], index, decoder=decoder, split=split
        )
        ref = store.write_arrays(_part(index), arrays)
        store.write_result(
            _part(index),
            FitPart(n_prompts=part.n_prompts, gradients=part.gradients, arrays=ref),
        )
        progress(f"gradients of {start + part.n_prompts} of {len(prompts.fit)} prompts")


def _fit_part(
    spec: SweepSpec,
    records: Sequence[TokenisedRecord],
    index: int,
    *,
    decoder: "Decoder",
    split: "SplitDecoder",
) -> tuple[FitPart, dict[str, np.ndarray]]:
    """One forward of some prompts, and their gradients at every layer."""
    from insular.hidden.states.gradients import hidden_gradients
    from insular.hidden.states.prompts import hold_prompts

    held = hold_prompts(
        split,
        records,
        layers=spec.layers,
        labels="last_token",
        pad_token_id=decoder.pad_token_id,
        batch_tokens=spec.batch_tokens,
    )
    arrays, summaries = {}, []
    for layer in spec.layers:
        found = hidden_gradients(
            split,
            held,
            layer=layer,
            kind="true",
            labels_per_prompt=spec.labels,
            seed=spec.seed + index,
        )
        arrays[f"states-{layer}"] = held.states(layer).cpu().numpy()
        arrays[f"gradients-{layer}"] = found.rows.cpu().numpy()
        summaries.append(found.summary)
    return FitPart(n_prompts=held.n_prompts, gradients=tuple(summaries)), arrays


def _part(index: int) -> str:
    """Name of a file of fitted prompts."""
    return f"fit-{index:04d}"


def _complete(folder: Path) -> bool:
    """Whether a folder needs no more writing, whatever it holds."""
    held = (folder / "manifest.json").is_file()
    return held and RunStore.open(folder).manifest.status == "complete"


def _opened(
    folder: Path,
    wanted: StatesSpec,
    prompts: Prompts,
    model: InputFact,
    *,
    command: Sequence[str],
) -> RunStore:
    """The folder, made now or by an earlier run of the same settings."""
    inputs = (prompts.fact, model)
    if not (folder / "manifest.json").is_file():
        return begin_run(KIND, folder, wanted, command=command, inputs=inputs)
    store = RunStore.open(folder)
    same = store.manifest.kind == KIND and read_settings(store, StatesSpec) == wanted
    if not same or store.manifest.inputs != inputs or not _holds(store, prompts):
        raise EvidenceError(
            f"{folder} must hold states of the same model, text and prompts "
            f"({folder / SPEC_FILE}), got others; choose another --states."
        )
    if store.manifest.finished and store.manifest.status != "complete":
        store.reopen()
    return store


def _holds(store: RunStore, prompts: Prompts) -> bool:
    """Whether what is there of the candidates is theirs: versions may choose different prompts."""
    from insular.hidden.states.prompts import prompt_digest

    if not store.has_result(BANK):
        return True
    there = store.read_result(BANK, ExtractionResult).prompt_digests
    return there == tuple(prompt_digest(record.tokens) for record in prompts.candidates())
