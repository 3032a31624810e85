"""The prompts that an inversion reads: of a text, or the states of a file."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, final

import torch
from torch import Tensor

from insular.errors import InvalidArgumentError, RecordError
from insular.evidence import InputFact, sha256_of
from insular.recipes.hidden.inversion.spec import HiddenInversionSpec
from insular.recipes.hidden.text import read_text
from insular.recipes.text import check_context
from insular.records import Record, read_packaged
from insular.records.tokens import TokenisedRecord

if TYPE_CHECKING:
    from insular.models.loading import Decoder

CALIBRATION_LENGTH = 64
_CALIBRATION_RECORDS = 132
_TRUTH = "tokens:"


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Trajectory:
    """One prompt that is inverted: its tokens, or its stored states, or both."""

    id: str
    """The record's id, or the matrix's name."""
    truth: tuple[int, ...] | None
    """True tokens, where they are known."""
    states: Tensor | None = None
    """Stored states, one row a position; None for a prompt that is run here."""

    @property
    def n_tokens(self) -> int:
        """Its length."""
        return len(self.truth or ()) if self.states is None else len(self.states)


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
    *,
    reserved: Collection[str],
    progress: Callable[[str], None] | None = None,
) -> InversionInputs:
    """Read what is to be inverted.

    Guarantees:
        * No prompt whose id is reserved is inverted, nor is one that comes twice.
        * No document that a mechanism is fitted or scaled on has a prompt that is inverted.
        * Equal settings and text give equal prompts, in this process or another one.

    Args:
        spec: The run.
        decoder: The model.
        reserved: Ids of the token table's calibration records.
        progress: Called before long steps.

    Returns:
        The inputs.

    Raises:
        RecordError: If the text has too few prompts, or the file cannot be read.
        InvalidArgumentError: If prompts are longer than the context or states of another size, or
            the tokenizer has no start and end tokens to put around them.
    """
    if spec.states:
        return _from_file(spec, decoder)
    corpus = read_text(spec, progress=progress)
    check_context(spec.tokens, context_tokens=decoder.context_tokens)
    start, end = _markers(spec, decoder)

    def cut(record: Record) -> TokenisedRecord:
        body = _body(decoder.encode(record.text), start=start, end=end)
        tokens = body[: spec.tokens - len(start) - len(end)]
        # an empty text is no prompt, whatever stands around it
        whole = (*start, *tokens) if tokens else ()
        return TokenisedRecord(id=record.id, owner=record.owner, tokens=whole)

    free = [record for record in corpus.records if record.id not in reserved]
    documents = {owner: i for i, owner in enumerate(dict.fromkeys(one.owner for one in free))}
    mine = [one for one in free if not spec.fits or documents[one.owner] % 2 == 0]
    seen: set[tuple[int, ...]] = set()
    chosen = _spread(mine, cut, spec.prompts, seen=seen)
    if not chosen:
        raise RecordError(f"{spec.text} must hold a text that is not empty, got none.")
    extra = spec.fit + spec.calibration if spec.fits else 0
    others = _spread([one for one in free if documents[one.owner] % 2], cut, extra, seen=seen)
    if len(others) < extra:
        raise RecordError(
            f"{spec.text} must hold {extra} different prompts to fit and scale mechanisms on, in"
            f" every second of its {len(documents)} documents, got {len(others)}; give more text or"
            " smaller --fit and --calibration."
        )
    return InversionInputs(
        trajectories=tuple(Trajectory(id=one.id, truth=(*one.tokens, *end)) for one in chosen),
        # without end tokens: what a release costs is measured where the text goes on
        others=tuple(others),
        fact=InputFact(
            name="text",
            source=spec.text,
            sha256=corpus.source_digest,
            n_records=corpus.n_records,
        ),
    )


def _spread(
    records: Sequence[Record],
    cut: Callable[[Record], TokenisedRecord],
    n: int,
    *,
    seen: set[tuple[int, ...]],
) -> list[TokenisedRecord]:
    """Up to so many different prompts, from all over the records; adds them to ``seen``."""
    found: list[TokenisedRecord] = []
    stride = max(1, len(records) // max(n, 1))
    for record in (record for at in range(stride) for record in records[at::stride]):
        if len(found) == n:
            break
        prompt = cut(record)
        if prompt.tokens and prompt.tokens not in seen:
            seen.add(prompt.tokens)
            found.append(prompt)
    return found


def _markers(
    spec: HiddenInversionSpec, decoder: "Decoder"
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Tokens before and after each prompt; none unless asked for."""
    if not spec.special:
        return (), ()
    rows = len(decoder.model.get_input_embeddings().weight)
    start, end = (
        (token,) if isinstance(token, int) and 0 <= token < rows else ()
        for token in (
            getattr(decoder.tokenizer, name, None) for name in ("bos_token_id", "eos_token_id")
        )
    )
    if not start and not end:
        raise InvalidArgumentError(
            f"special must be off for model {spec.model}, whose tokenizer names no start and no end"
            " token; leave --special out."
        )
    if spec.tokens <= len(start) + len(end):
        raise InvalidArgumentError(
            f"tokens must be above the {len(start) + len(end)} that --special adds, got"
            f" tokens={spec.tokens}."
        )
    return start, end


def _body(ids: list[int], *, start: tuple[int, ...], end: tuple[int, ...]) -> tuple[int, ...]:
    """Token ids without the markers that some tokenizers add by themselves."""
    first = len(start) if start and tuple(ids[: len(start)]) == start else 0
    last = len(ids) - (len(end) if end and tuple(ids[-len(end) :]) == end else 0)
    return tuple(ids[first:last])


def _from_file(spec: HiddenInversionSpec, decoder: "Decoder") -> InversionInputs:
    """Every matrix of a safetensors file as a prompt."""
    tensors = read_tensors(Path(spec.states))
    size = int(decoder.model.get_input_embeddings().weight.shape[1])
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
    if not found:
        raise InvalidArgumentError(f"states {spec.states} must hold a matrix, got none.")
    fact = InputFact(
        name="states",
        source=spec.states,
        sha256=sha256_of(Path(spec.states)),
        n_records=len(found),
    )
    return InversionInputs(trajectories=tuple(found[: spec.prompts]), others=(), fact=fact)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of a file.

    Args:
        path: A safetensors file.

    Returns:
        Tensors by name.

    Raises:
        RecordError: If it cannot be read.
    """
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
