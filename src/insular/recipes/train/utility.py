"""Loss on public text: the only measurement of a trained model that costs no budget."""

import math
from collections.abc import Callable, Sequence

import torch

from insular.errors import RecordError
from insular.recipes.adapted import AdaptedModel
from insular.recipes.audit.spec import PACKAGED_TEXTS
from insular.recipes.train.data import check_public
from insular.recipes.train.spec import TrainSpec
from insular.records import Corpus, TokenisedRecord, read_corpus, read_packaged, tokenise
from insular.records.batches import collate
from insular.training.losses import record_losses


def public_records(
    spec: TrainSpec,
    training: Corpus,
    encode: Callable[[str], Sequence[int]],
    *,
    progress: Callable[[str], None],
) -> tuple[TokenisedRecord, ...]:
    """The first records of the public text that are long enough to say something.

    Args:
        spec: Names the text.
        training: What is learnt from; no record may be in both.
        encode: Tokeniser.
        progress: Called before a fetch.

    Returns:
        The records; none if no text is named.

    Raises:
        RecordError: If the text shares a record with ``training``, or is the same packaged text.
    """
    if spec.validation == "none":
        return ()
    if spec.validation == spec.text:
        raise RecordError(
            f"validation must be public text, got {spec.validation}, which is learnt from; "
            "name another, or --validation none."
        )
    if spec.validation in PACKAGED_TEXTS:
        corpus = read_packaged(spec.validation, progress=progress)
    else:
        corpus = read_corpus(spec.validation, text_field=spec.text_field, encoding=spec.encoding)
    check_public(corpus, training)
    part = Corpus(
        name=corpus.name,
        unit=corpus.unit,
        records=corpus.records[: 4 * spec.validation_records],
        source=corpus.source,
    )
    tokens = tokenise(part, encode, max_tokens=spec.tokens, too_long="truncate")
    return tokens.records[: spec.validation_records]


def public_loss(adapted: AdaptedModel, records: Sequence[TokenisedRecord]) -> float:
    """Mean next-token loss over all targets of the records, one record a forward.

    The forward keeps its graph: a forward without one makes some 4-bit layers repack their weights
    for good, after which they pass no gradient back.

    Args:
        adapted: The model.
        records: Public records.

    Returns:
        Nats per token.
    """
    adapted.set_modes()
    device = next(adapted.model.parameters()).device
    total, n_targets = [], 0
    for record in records:
        batch = collate([record], pad_token_id=adapted.decoder.pad_token_id, device=device)
        with torch.enable_grad():
            logits = adapted.model(
                input_ids=batch.input_ids,
                attention_mask=batch.attention_mask,
                position_ids=batch.position_ids,
                use_cache=False,
            ).logits
            loss = float(record_losses(logits, batch.labels).detach()[0])
        n_record = len(record.tokens) - 1
        total.append(loss * n_record)
        n_targets += n_record
    return math.fsum(total) / n_targets
