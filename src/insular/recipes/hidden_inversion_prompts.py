"""The trajectories that an inversion reads: prompts run here, or states from a file."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, final

import torch
from torch import Tensor

from insular.errors import InvalidArgumentError, RecordError
from insular.evidence import InputFact, sha256_of
from insular.recipes.hidden_inversion_spec import HiddenInversionSpec
from insular.recipes.spec import PACKAGED_TEXTS
from insular.recipes.text import check_context
from insular.records import read_corpus, read_packaged
from insular.records.batches import collate
from insular.records.tokens import TokenisedRecord

if TYPE_CHECKING:
    from insular.hidden.forward import SplitDecoder
    from insular.models.loading import Decoder

CALIBRATION_LENGTH = 64
_CALIBRATION_RECORDS = 132
_TRUTH = "tokens:"


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Trajectory:
    """Clean or stored states of one prompt."""

    id: str
    """The record's id, or the matrix's name."""
    states: Tensor
    """One row a position."""
    truth: tuple[int, ...] | None
    """True tokens, where they are known."""


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class InversionInputs:
    """What is inverted, and what a mechanism may be fitted on."""

    trajectories: tuple[Trajectory, ...]
    """What is inverted."""
    others: tuple[TokenisedRecord, ...]
    """Prompts that are not inverted, in public order."""
    fact: InputFact
    """For the manifest."""


def calibration_records(
    decoder: "Decoder", *, progress: Callable[[str], None] | None = None
) -> list[TokenisedRecord]:
    """Public text for token tables: starts of every seventh Wikipedia paragraph.

    Args:
        decoder: The model.
        progress: Called before a download.

    Returns:
        Records of 64 tokens.
    """
    found: list[TokenisedRecord] = []
    for record in read_packaged("wikipedia", progress=progress).records[::7]:
        ids = decoder.encode(record.text)[:CALIBRATION_LENGTH]
        if len(ids) == CALIBRATION_LENGTH:
            found.append(TokenisedRecord(id=record.id, owner=record.owner, tokens=tuple(ids)))
        if len(found) == _CALIBRATION_RECORDS:
            break
    return found


def read_inputs(
    spec: HiddenInversionSpec,
    decoder: "Decoder",
    split: "SplitDecoder",
    *,
    reserved: frozenset[str],
    progress: Callable[[str], None],
) -> InversionInputs:
    """Read what is to be inverted.

    Guarantees:
        * No prompt whose id is reserved is inverted, nor is one that comes twice.

    Args:
        spec: The run.
        decoder: The model.
        split: The same, cut at its layers.
        reserved: Ids of the token table's calibration records.
        progress: Called before long steps.

    Returns:
        The inputs.

    Raises:
        RecordError: If the text has no prompt.
    """
    if spec.states:
        return _from_file(spec, split)
    if spec.text in PACKAGED_TEXTS:
        corpus = read_packaged(spec.text, progress=progress)
    else:
        corpus = read_corpus(
            spec.text,
            text_field=spec.text_field,
            id_field=spec.id_field or None,
            encoding=spec.encoding,
        )
    check_context(spec.tokens, context_tokens=decoder.context_tokens)
    extra = 0 if spec.mechanism == "none" else spec.fit + spec.calibration
    cut: dict[tuple[int, ...], TokenisedRecord] = {}
    # across the whole text: paragraphs of one article are alike
    stride = max(1, len(corpus.records) // (2 * (spec.prompts + extra)))
    for start in range(stride):
        for record in corpus.records[start::stride]:
            tokens = tuple(decoder.encode(record.text)[: spec.tokens])
            if record.id not in reserved and tokens and tokens not in cut:
                cut[tokens] = TokenisedRecord(id=record.id, owner=record.owner, tokens=tokens)
            if len(cut) == spec.prompts + extra:
                break
        if len(cut) == spec.prompts + extra:
            break
    records = list(cut.values())
    if len(records) < extra + 1:
        raise RecordError(
            f"{spec.text} must hold {extra + 1} different prompts or more, got {len(records)}; give"
            " more text or smaller --fit and --calibration."
        )
    chosen = records[: len(records) - extra]
    return InversionInputs(
        trajectories=tuple(
            Trajectory(id=one.id, states=_states(split, one, spec.layer), truth=one.tokens)
            for one in chosen
        ),
        others=tuple(records[len(records) - extra :]),
        fact=InputFact(
            name="text",
            source=spec.text,
            sha256=corpus.source.sha256 if corpus.source else corpus.digest,
            n_records=corpus.n_records,
        ),
    )


def _states(split: "SplitDecoder", record: TokenisedRecord, layer: int) -> Tensor:
    """States of one prompt, run alone."""
    batch = collate([record], pad_token_id=0, device=split.device)
    return split.states(batch, layers=[layer])[layer][0]


def _from_file(spec: HiddenInversionSpec, split: "SplitDecoder") -> InversionInputs:
    """Every matrix of a safetensors file as a prompt."""
    tensors = _tensors(Path(spec.states))
    size = int(split.model.get_input_embeddings().weight.shape[1])  # pyright: ignore
    found = []
    for name, matrix in sorted(tensors.items()):
        if name.startswith(_TRUTH):
            continue
        if not matrix.is_floating_point() or matrix.ndim != 2 or matrix.shape[1] != size:
            raise InvalidArgumentError(
                f"states {name} must be a matrix of floats with {size} columns, one row a position,"
                f" got {str(matrix.dtype).removeprefix('torch.')} of shape {tuple(matrix.shape)}."
            )
        truth = tensors.get(_TRUTH + name)
        if truth is not None and truth.shape != (len(matrix),):
            raise InvalidArgumentError(
                f"{_TRUTH}{name} must hold one token id a row of {name}, got shape "
                f"{tuple(truth.shape)} for {len(matrix)} rows."
            )
        tokens = None if truth is None else tuple(int(token) for token in truth)
        found.append(Trajectory(id=name, states=matrix.float(), truth=tokens))
    fact = InputFact(
        name="states",
        source=spec.states,
        sha256=sha256_of(Path(spec.states)),
        n_records=len(found),
    )
    return InversionInputs(trajectories=tuple(found[: spec.prompts]), others=(), fact=fact)


def read_matrix(path: Path) -> Tensor:
    """The one matrix of a safetensors file.

    Args:
        path: The file.

    Returns:
        Float32 rows.

    Raises:
        RecordError: If it cannot be read, or holds none or several.
    """
    found = [one for one in _tensors(path).values() if one.ndim == 2 and one.is_floating_point()]
    if len(found) != 1:
        raise RecordError(f"{path} must hold one matrix of states, got {len(found)}.")
    return found[0].float()


def _tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of a file."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise RecordError(
            f"states {path} cannot be read as safetensors ({type(error).__name__})."
        ) from error


def generator_of(seed: int, prompt: int) -> torch.Generator:
    """The noise of one prompt.

    Args:
        seed: Of the run.
        prompt: Its place.

    Returns:
        A generator that no other prompt has.
    """
    return torch.Generator().manual_seed(seed * 1_000_003 + prompt)
