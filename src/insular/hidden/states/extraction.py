"""Extract states of many prompts at several layers, shard by shard, into evidence."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from insular.errors import EvidenceError, InvalidArgumentError
from insular.evidence import ArrayRef, RunStore, encode
from insular.hidden.states.extraction_results import (
    ExtractionResult,
    ExtractionShard,
    LayerFacts,
    MassiveCoordinate,
)
from insular.hidden.states.extraction_spec import ExtractionSpec
from insular.hidden.states.forward import SplitDecoder
from insular.hidden.states.prompts import batch_places, distinct, prompt_digest
from insular.records.batches import TokenBatch, collate
from insular.records.tokens import TokenisedRecord

Arrays = dict[str, np.ndarray]
"""A shard's arrays by name."""
Progress = Callable[[str], None]
"""Called with one line per shard."""


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Extraction:
    """Extracted states in memory, with what they are."""

    result: ExtractionResult
    """What was extracted."""
    arrays: dict[int, np.ndarray]
    """Layer to rows in the order of the prompts, float32."""

    def states(self, layer: int) -> Float[Tensor, "row hidden"]:
        """The states of a layer.

        Args:
            layer: One of the extracted layers.

        Returns:
            One row per prompt, or per token, prompt by prompt.

        Raises:
            InvalidArgumentError: If the layer was not extracted.
        """
        if layer not in self.arrays:
            raise InvalidArgumentError(
                f"layer must be one of the extracted layers {self.result.spec.layers}, "
                f"got layer={layer}."
            )
        return torch.tensor(self.arrays[layer])


def extract_states(
    decoder: SplitDecoder,
    records: Sequence[TokenisedRecord],
    spec: ExtractionSpec,
    *,
    model_digest: str,
    pad_token_id: int = 0,
    store: RunStore | None = None,
    name: str = "states",
    progress: Progress | None = None,
) -> Extraction:
    """Run prompts and keep their states, at each prompt's last token or at all of them.

    Guarantees:
        * Padding leaves no row, and a row depends on its own prompt, up to rounding.
        * An extraction that was interrupted goes on at its first missing shard and gives the same
          bytes; a shard of other settings, prompts or another model is refused.
        * Repeated prompts are reported, whether they are removed or kept.

    Args:
        decoder: The decoder.
        records: Tokenised prompts.
        spec: The settings.
        model_digest: Digest of the model's files, which tells shards of other models.
        pad_token_id: Token id that fills up.
        store: Where shards and result go; None keeps them in memory alone.
        name: Name of the result, and start of the shards' names.
        progress: Called with one line per shard.

    Returns:
        The states, with the result that ``store`` holds as ``<name>.json``.

    Raises:
        InvalidArgumentError: If there is no prompt, or a layer is out of range.
    """
    decoder.check_layers(*spec.layers)
    kept, repeated = distinct(records)
    prompts = kept if spec.duplicates == "remove" else list(records)
    digests = tuple(prompt_digest(one.tokens) for one in prompts)
    digest = _input_digest(spec, decoder, model_digest=model_digest, prompts=digests)
    order = sorted(range(len(prompts)), key=lambda place: (len(prompts[place].tokens), place))
    size = spec.shard_prompts
    parts = [tuple(order[start : start + size]) for start in range(0, len(order), size)]
    shards: list[Arrays] = []
    refs: list[ArrayRef] = []
    for index, places in enumerate(parts):
        shard_name = f"{name}-shard-{index:04d}"
        arrays = None if store is None else _stored(store, shard_name, digest, refs)
        if arrays is None:
            chosen = [prompts[place] for place in places]
            arrays = _compute(decoder, chosen, spec, pad_token_id=pad_token_id)
            if store is not None:
                refs.append(store.write_arrays(shard_name, arrays))
                shard = ExtractionShard(input_digest=digest, places=places, arrays=refs[-1])
                store.write_result(shard_name, shard)
        shards.append(arrays)
        if progress is not None:
            progress(f"states of {sum(map(len, parts[: index + 1]))} of {len(order)} prompts")
    result = ExtractionResult(
        spec=spec,
        input_digest=digest,
        model_digest=model_digest,
        dtype=str(decoder.dtype).removeprefix("torch."),
        device=str(decoder.device),
        attention=decoder.attention,
        hidden=shards[0][_key("states", spec.layers[0])].shape[1],
        record_ids=tuple(one.id for one in prompts),
        prompt_digests=digests,
        lengths_tokens=tuple(len(one.tokens) for one in prompts),
        duplicate_ids=repeated,
        facts=tuple(_facts(layer, shards, spec.massive_factor) for layer in spec.layers),
        shards=tuple(refs),
    )
    if store is not None:
        store.write_result(name, result)
    return Extraction(result=result, arrays=_merged(result, shards, parts))


def read_states(store: RunStore, *, name: str = "states") -> Extraction:
    """Read an extraction back; changed files are refused.

    Args:
        store: The run that holds it.
        name: As it was written.

    Returns:
        The same states and result.
    """
    result = store.read_result(name, ExtractionResult)
    shards = [
        store.read_result(f"{name}-shard-{index:04d}", ExtractionShard)
        for index in range(len(result.shards))
    ]
    arrays = [dict(store.read_arrays(ref)) for ref in result.shards]
    return Extraction(
        result=result, arrays=_merged(result, arrays, [shard.places for shard in shards])
    )


def _key(kind: str, layer: int) -> str:
    """Name of an array."""
    return f"{kind}-{layer}"


def _input_digest(
    spec: ExtractionSpec, decoder: SplitDecoder, *, model_digest: str, prompts: Sequence[str]
) -> str:
    """SHA-256 over all that the states depend on."""
    parts = (encode(spec), model_digest, str(decoder.dtype), str(decoder.device), *prompts)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _stored(store: RunStore, name: str, digest: str, refs: list[ArrayRef]) -> Arrays | None:
    """A shard that an earlier run finished."""
    if not store.has_result(name):
        return None
    shard = store.read_result(name, ExtractionShard)
    if shard.input_digest != digest:
        raise EvidenceError(
            f"{store.path / name}.json belongs to other settings, prompts or another model; use "
            "another name or a new run folder."
        )
    refs.append(shard.arrays)
    return dict(store.read_arrays(shard.arrays))


def _compute(
    decoder: SplitDecoder,
    prompts: Sequence[TokenisedRecord],
    spec: ExtractionSpec,
    *,
    pad_token_id: int,
) -> Arrays:
    """Run one shard's prompts, whose lengths ascend."""
    found: dict[str, list[np.ndarray]] = {}
    lengths = [len(one.tokens) for one in prompts]
    for rows in batch_places(lengths, batch_tokens=spec.batch_tokens):
        batch = collate(
            [prompts[row] for row in rows],
            pad_token_id=pad_token_id,
            padding_side=spec.padding_side,
            device=decoder.device,
        )
        for layer, states in decoder.states(batch, layers=spec.layers).items():
            for kind, value in _layer_arrays(states.float(), batch, spec).items():
                found.setdefault(_key(kind, layer), []).append(value)
    return {
        name: np.concatenate(parts) if name.startswith("states") else np.sum(parts, axis=0)
        for name, parts in found.items()
    }


def _layer_arrays(
    states: Float[Tensor, "record token hidden"], batch: TokenBatch, spec: ExtractionSpec
) -> Arrays:
    """The wanted rows of one batch and layer, and sums for the layer's facts."""
    real, first = batch.attention_mask, batch.attention_mask & (batch.position_ids == 0)
    lengths = real.sum(dim=1, keepdim=True)
    last = real & (batch.position_ids == lengths - 1)
    every = real & ~first if spec.first_tokens == "drop" else real
    rows = states[last if spec.positions == "last" else every]
    norms = states.double().norm(dim=2)
    sums = [int(first.sum()), float(norms[first].sum())]
    sums += [int((real & ~first).sum()), float(norms[real & ~first].sum())]
    return {
        "states": rows.cpu().numpy(),
        "squares": rows.double().square().sum(dim=0).cpu().numpy(),
        "norms": np.array(sums),
    }


def _facts(layer: int, shards: Sequence[Arrays], massive_factor: float) -> LayerFacts:
    """What dominates a layer's states."""
    squares = np.sum([shard[_key("squares", layer)] for shard in shards], axis=0)
    n_rows = sum(len(shard[_key("states", layer)]) for shard in shards)
    n_first, first, n_other, other = np.sum(
        [shard[_key("norms", layer)] for shard in shards], axis=0
    )
    root = np.sqrt(squares / max(n_rows, 1))
    median = float(np.median(root))
    massive = [at for at in np.argsort(-root) if root[at] > massive_factor * median]
    return LayerFacts(
        layer=layer,
        first_token_norm=float(first / n_first),
        other_token_norm=float(other / n_other) if n_other else None,
        massive=tuple(
            MassiveCoordinate(
                coordinate=int(at),
                root_mean_square=float(root[at]),
                over_median=float(root[at] / median) if median else None,
            )
            for at in massive
        ),
    )


def _merged(
    result: ExtractionResult, shards: Sequence[Arrays], parts: Sequence[Sequence[int]]
) -> dict[int, np.ndarray]:
    """Each layer's rows, in the order of the prompts."""
    counts = np.array(result.rows_by_prompt)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    places = np.concatenate(
        [np.arange(starts[at], starts[at] + counts[at]) for part in parts for at in part]
    )
    merged: dict[int, np.ndarray] = {}
    for layer in result.spec.layers:
        rows = np.concatenate([shard[_key("states", layer)] for shard in shards])
        merged[layer] = np.empty_like(rows)
        merged[layer][places] = rows
    return merged
