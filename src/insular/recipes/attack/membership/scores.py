"""How well a model predicts records: losses in batches by tokens, stored block by block."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np
import torch

from insular.audit.membership.judgement import join_by_id
from insular.audit.membership.results import ScoreBlock
from insular.evidence import RunStore
from insular.models.loading import Decoder
from insular.recipes.attack.attacked_model import AttackedModel
from insular.recipes.inputs import Progress
from insular.records import Record, TokenisedRecord
from insular.records.batches import IGNORED_LABEL, collate

if TYPE_CHECKING:
    from torch import Tensor

Array = np.ndarray


@final
@dataclass(frozen=True, kw_only=True)
class Scoring:
    """How records are scored."""

    lowest_percent: int
    """Share of the least likely tokens."""
    physical_tokens: int
    """Most tokens, padding included, of one forward."""
    block_records: int
    """Records of a block."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class RecordLosses:
    """What a model says of some records, in their order."""

    loss: Array
    """Mean loss of a record's tokens, in nats."""
    lowest: Array
    """Mean loss of its least likely tokens."""
    n_targets: Array
    """Tokens with a loss: all but the first."""


def record_losses_of(
    decoder: Decoder,
    records: Sequence[TokenisedRecord],
    *,
    lowest_percent: int = 20,
    physical_tokens: int = 2048,
) -> RecordLosses:
    """Losses of records, computed without gradients, records of like length together.

    Guarantees:
        * What a record gets depends on the others by rounding alone.
        * The order of the records does not matter: values come back in theirs.
        * No forward has more tokens than ``physical_tokens``, unless one record has.

    Args:
        decoder: The model.
        records: Tokenised, each of at least two tokens.
        lowest_percent: Share of the least likely tokens, rounded up to whole ones.
        physical_tokens: Most tokens of a forward, padding included.

    Returns:
        The losses.
    """
    order = sorted(range(len(records)), key=lambda i: len(records[i].tokens))
    loss, lowest = np.zeros(len(records)), np.zeros(len(records))
    device = next(decoder.model.parameters()).device
    for batch in _batches([len(records[i].tokens) for i in order], physical_tokens):
        rows = [order[i] for i in batch]
        tokens = collate(
            [records[i] for i in rows], pad_token_id=decoder.pad_token_id, device=device
        )
        with torch.inference_mode():
            logits = decoder.model(
                input_ids=tokens.input_ids,
                attention_mask=tokens.attention_mask,
                position_ids=tokens.position_ids,
                use_cache=False,
            ).logits
            losses = _token_losses(logits, tokens.labels).cpu().double().numpy()
        for row, i in enumerate(rows):
            mine = losses[row, : len(records[i].tokens) - 1]
            k = -(-len(mine) * lowest_percent // 100)
            loss[i], lowest[i] = mine.mean(), np.sort(mine)[-k:].mean()
    targets = np.array([len(record.tokens) - 1 for record in records], dtype=np.int64)
    return RecordLosses(loss=loss, lowest=lowest, n_targets=targets)


def score_blocks(
    attacked: AttackedModel,
    records: Sequence[TokenisedRecord],
    texts: Sequence[Record],
    store: RunStore,
    *,
    scoring: Scoring,
    reference: Decoder | None,
    progress: Progress,
) -> tuple[ScoreBlock, ...]:
    """Score what is not scored yet; each block is stored as soon as it is there.

    Guarantees:
        * A block whose result is stored is not scored again.

    Args:
        attacked: The model.
        records: All records, tokenised for it.
        texts: Their texts, which another reference model tokenises by itself.
        store: The run.
        scoring: How.
        reference: Another reference model; None for the model's own base, if it has one.
        progress: Called with a line for each block.

    Returns:
        Every block.
    """
    text_of = {record.id: record.text for record in texts}
    ordered = sorted(records, key=lambda record: (len(record.tokens), record.id))
    size = scoring.block_records
    blocks = []
    for block, start in enumerate(range(0, len(ordered), size)):
        slug, part = f"scores-{block + 1:03d}", ordered[start : start + size]
        if not store.has_result(slug):
            began = time.perf_counter()
            arrays = _block_arrays(attacked, part, text_of, scoring=scoring, reference=reference)
            found = ScoreBlock(
                block=block,
                ids=tuple(record.id for record in part),
                seconds=time.perf_counter() - began,
            )
            store.write_result(slug, replace(found, scores=store.write_arrays(slug, arrays)))
        blocks.append(store.read_result(slug, ScoreBlock))
        progress("scores", f"{min(start + size, len(ordered))} of {len(ordered)} records")
    progress("scores", "done")
    return tuple(blocks)


def gather_blocks(
    blocks: Sequence[ScoreBlock], store: RunStore, ids: Sequence[str]
) -> dict[str, Array]:
    """The stored arrays of all blocks, joined by record id.

    Args:
        blocks: The blocks.
        store: The run that keeps them.
        ids: The wanted records, in their order.

    Returns:
        Arrays by name, one value for each id.
    """
    pairs: dict[str, list[tuple[str, float]]] = {}
    for block in blocks:
        assert block.scores is not None
        for name, values in store.read_arrays(block.scores).items():
            pairs.setdefault(name, []).extend(zip(block.ids, values.tolist(), strict=True))
    return {name: join_by_id(found, ids, what=f"the {name}") for name, found in pairs.items()}


def _block_arrays(
    attacked: AttackedModel,
    records: Sequence[TokenisedRecord],
    text_of: dict[str, str],
    *,
    scoring: Scoring,
    reference: Decoder | None,
) -> dict[str, Array]:
    """The arrays of one block."""
    how: dict[str, Any] = {
        "lowest_percent": scoring.lowest_percent,
        "physical_tokens": scoring.physical_tokens,
    }
    found = record_losses_of(attacked.decoder, records, **how)
    arrays = {"loss": found.loss, "lowest": found.lowest, "n_targets": found.n_targets}
    if reference is not None:
        arrays["reference"] = _other_losses(
            attacked.decoder, reference, records, text_of, found.n_targets, how
        )
    elif attacked.has_base:
        with attacked.base() as base:
            arrays["reference"] = record_losses_of(base, records, **how).loss
    return arrays


def _other_losses(
    decoder: Decoder,
    reference: Decoder,
    records: Sequence[TokenisedRecord],
    text_of: dict[str, str],
    n_targets: Array,
    how: dict[str, Any],
) -> Array:
    """Loss of the same text under a model with another tokeniser, per token of the attacked one."""
    same = []
    for record in records:
        text = text_of[record.id]
        if record.lost_tokens:  # only what was scored is compared
            text = decoder.tokenizer.decode(list(record.tokens), skip_special_tokens=True)
        tokens = tuple(reference.encode(text))[: reference.context_tokens]
        padded = tokens if len(tokens) > 1 else (*tokens, *[reference.pad_token_id] * 2)[:2]
        same.append(TokenisedRecord(id=record.id, owner=record.owner, tokens=padded))
    found = record_losses_of(reference, same, **how)
    return found.loss * found.n_targets / n_targets


def _batches(lengths: Sequence[int], most: int) -> list[range]:
    """Runs of ascending lengths that fit, padded to their last one, into so many tokens."""
    batches, start = [], 0
    for end in range(1, len(lengths) + 1):
        if end == len(lengths) or (end + 1 - start) * lengths[end] > most:
            batches.append(range(start, end))
            start = end
    return batches


def _token_losses(logits: "Tensor", labels: "Tensor") -> "Tensor":
    """Loss of each token but the first; 0 where there is none."""
    targets = labels[:, 1:]
    scores = torch.nn.functional.cross_entropy(
        logits[:, :-1].float().flatten(0, 1),
        targets.flatten(),
        ignore_index=IGNORED_LABEL,
        reduction="none",
    )
    return scores.view(targets.shape)
