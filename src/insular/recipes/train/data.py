"""The records of a training run, by protected unit, and what was left out of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast, final

from insular.errors import RecordError
from insular.evidence import InputFact
from insular.recipes.audit.spec import PACKAGED_TEXTS
from insular.recipes.train.results import TrainData
from insular.recipes.train.spec import TrainSpec
from insular.records import (
    Corpus,
    TokenisedCorpus,
    TokenisedRecord,
    read_corpus,
    read_packaged,
    tokenise,
)
from insular.records.corpus import MissingOwner
from insular.records.tokens import TooLong


@final
@dataclass(frozen=True, kw_only=True)
class TrainingText:
    """What a run learns from."""

    units: tuple[tuple[TokenisedRecord, ...], ...]
    """The records of each protected unit, in the order of the text."""
    rows: tuple[TokenisedRecord, ...]
    """All of them; what ``sample = "record"`` draws from."""
    data: TrainData
    """Counts for the evidence."""
    fact: InputFact
    """Name and digest of the text, for the manifest."""
    corpus: Corpus
    """The text itself."""


def read_training_corpus(
    spec: TrainSpec, *, progress: Callable[[str], None] | None = None
) -> Corpus:
    """Read the text of a run with the protected unit that was asked for.

    Args:
        spec: Names text and unit.
        progress: Called before a fetch.

    Returns:
        The corpus.

    Raises:
        RecordError: If the text cannot be read, or has no such owner.
    """
    if spec.text not in PACKAGED_TEXTS:
        return read_corpus(
            spec.text,
            text_field=spec.text_field,
            id_field=spec.id_field or None,
            owner_field=spec.unit if spec.by_owner else None,
            encoding=spec.encoding,
            missing_owner=cast(MissingOwner, spec.missing_owner),
        )
    corpus = read_packaged(spec.text, progress=progress)
    if spec.unit == "owner":
        return corpus
    if spec.by_owner:
        raise RecordError(
            f"unit must be record or owner for the packaged text {spec.text}, got "
            f"unit={spec.unit!r}."
        )
    alone = tuple(replace(record, owner=record.id) for record in corpus.records)
    return replace(corpus, unit="record", records=alone, missing_owner=None)


def prepare_text(
    corpus: Corpus, encode: Callable[[str], Sequence[int]], spec: TrainSpec
) -> TrainingText:
    """Tokenise a corpus and gather each unit's records.

    Guarantees:
        * What one unit contributes depends on that unit's own records alone: the limit keeps the
          first ``records_per_owner`` of each owner.
        * Whatever is left out, cut or shared is counted.

    Args:
        corpus: The text.
        encode: Tokeniser.
        spec: Longest record, what happens to longer ones, limit of each owner.

    Returns:
        The records.

    Raises:
        RecordError: If fewer than two units are left: there would be no one to hide among.
    """
    tokens = tokenise(corpus, encode, max_tokens=spec.tokens, too_long=cast(TooLong, spec.too_long))
    units: dict[str, list[TokenisedRecord]] = {}
    for record in tokens.records:
        units.setdefault(record.owner, []).append(record)
    limit = spec.records_per_owner or len(tokens.records)
    kept = tuple(tuple(records[:limit]) for records in units.values())
    if len(kept) < 2:
        raise RecordError(
            f"corpus {corpus.name} must have at least 2 units to hide among, got {len(kept)} with "
            f"unit={spec.unit!r}; name another --unit, or give more text."
        )
    rows = tuple(record for records in kept for record in records)
    source = corpus.source
    return TrainingText(
        units=kept,
        rows=rows,
        data=_counts(corpus, tokens, kept),
        fact=InputFact(
            name="text",
            source=spec.text,
            sha256=source.sha256 if source else corpus.digest,
            n_records=corpus.n_records,
        ),
        corpus=corpus,
    )


def _counts(
    corpus: Corpus, tokens: TokenisedCorpus, kept: tuple[tuple[TokenisedRecord, ...], ...]
) -> TrainData:
    """What was read, left out, cut and shared."""
    n_rows = sum(map(len, kept))
    owners: dict[str, set[str]] = {}
    for record in corpus.records:
        owners.setdefault(record.text, set()).add(record.owner)
    shared = {text for text, found in owners.items() if len(found) > 1}
    return TrainData(
        name=corpus.name,
        sha256=corpus.digest,
        n_records=n_rows,
        n_units=len(kept),
        largest_share=max(map(len, kept)) / n_rows,
        n_over_limit=len(tokens.records) - n_rows,
        duplicates_across_owners=len(shared),
        n_too_short=len(tokens.too_short_ids),
        n_truncated=len(tokens.truncated_ids),
        lost_tokens=tokens.lost_tokens,
        n_without_owner=corpus.dropped_without_owner + corpus.owned_alone,
    )


def check_public(validation: Corpus, training: Corpus) -> None:
    """Refuse a validation text that shares a record with the text that is learnt from.

    Args:
        validation: Declared public.
        training: Protected.

    Raises:
        RecordError: With the number of shared texts, and what to do.
    """
    protected = {" ".join(record.text.split()).casefold() for record in training.records}
    shared = sum(" ".join(r.text.split()).casefold() in protected for r in validation.records)
    if shared:
        raise RecordError(
            f"validation must be public text, got {validation.name} with {shared} records that "
            f"{training.name} has too: a loss on them would be a private number without noise; "
            "give other text, or --validation none."
        )
