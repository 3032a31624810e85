"""The records of an audit: read, tokenised, divided into what each part works on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from insular.errors import InvalidArgumentError, RecordError
from insular.evidence import InputFact
from insular.recipes.audit.spec import PACKAGED_TEXTS, AuditSpec
from insular.records import Corpus, Record, TokenisedRecord, read_corpus, read_packaged, tokenise


@final
@dataclass(frozen=True, kw_only=True)
class AuditText:
    """The records of one audit."""

    base: tuple[TokenisedRecord, ...]
    """The base batch."""
    spares: tuple[TokenisedRecord, ...]
    """As many records to bring in, none shorter than a base record."""
    width: int
    """Padded length of the base batch, in tokens."""
    usable: tuple[TokenisedRecord, ...]
    """All records that are long enough, in the order of the text: what sensitivity and census
    take theirs from."""
    n_cut: int
    """Records of base and spares that were cut to the longest allowed length."""
    fact: InputFact
    """Name and digest of the text, for the manifest."""

    @property
    def usable_width(self) -> int:
        """Length of the longest usable record, in tokens."""
        return max(len(record.tokens) for record in self.usable)

    @property
    def baseline(self) -> tuple[TokenisedRecord, ...]:
        """The base batch without its last record: candidates are added to these."""
        return self.base[:-1]

    def candidates(self, n_records: int) -> tuple[TokenisedRecord, ...]:
        """The first usable records outside the baseline, in the order of the text.

        Args:
            n_records: How many at most.

        Returns:
            Them, at least one.
        """
        baseline = {record.id for record in self.baseline}
        return tuple(record for record in self.usable if record.id not in baseline)[:n_records]

    def others(self, record_id: str, n_records: int) -> tuple[TokenisedRecord, ...]:
        """The baseline, then the usable records outside it, all without one record.

        Args:
            record_id: Id of the one.
            n_records: How many at most.

        Returns:
            Them.
        """
        everyone = (*self.baseline, *self.candidates(len(self.usable)))
        return tuple(record for record in everyone if record.id != record_id)[:n_records]


def load_corpus(spec: AuditSpec, *, progress: Callable[[str], None] | None = None) -> Corpus:
    """Read the text of an audit.

    Args:
        spec: Names the text.
        progress: Called before a fetch.

    Returns:
        The corpus.
    """
    if spec.text in PACKAGED_TEXTS:
        return read_packaged(spec.text, progress=progress)
    return read_corpus(
        spec.text,
        text_field=spec.text_field,
        id_field=spec.id_field or None,
        owner_field=spec.owner_field or None,
        encoding=spec.encoding,
    )


def choose_records(
    corpus: Corpus, encode: Callable[[str], Sequence[int]], spec: AuditSpec
) -> AuditText:
    """Choose a base batch and spares, from different owners where there are enough.

    The first ``32 * batch`` records (or twice the candidates) are looked at, new owners first. Of
    those with at least half of ``tokens`` (of all, where these do not suffice) the shortest are the
    base batch, so that its lengths differ and it has padding; the longest are the spares, so that
    each can be cut to any base record's length.

    Guarantees:
        * The same corpus, tokeniser and spec give the same records.
        * No spare is shorter than a base record.

    Args:
        corpus: The text.
        encode: Tokeniser.
        spec: Batch size and longest record.

    Returns:
        The records.

    Raises:
        RecordError: If there are too few records.
    """
    chosen = _first_of_each_owner(corpus, max(32 * spec.batch, 2 * spec.candidates))
    if len(chosen) < 2 * spec.batch:
        raise RecordError(
            f"an audit of --batch {spec.batch} must have {2 * spec.batch} records (half of them"
            f" are brought in), got {len(chosen)} in {corpus.name}; give more text, or a smaller"
            " --batch."
        )
    part = Corpus(name=corpus.name, unit=corpus.unit, records=tuple(chosen), source=corpus.source)
    tokens = tokenise(part, encode, max_tokens=spec.tokens, min_tokens=4, too_long="truncate")
    usable = [r for r in tokens.records if len(r.tokens) >= spec.tokens // 2]
    if len(usable) < 2 * spec.batch:
        usable = list(tokens.records)
    if len(usable) < 2 * spec.batch:
        short = ", ".join(tokens.too_short_ids[:5])
        raise RecordError(
            f"a record must have at least 4 tokens to be audited, got fewer in {short}; leave"
            " such records out of the text."
        )
    by_length = sorted(usable, key=lambda record: len(record.tokens))
    base, spares = tuple(by_length[: spec.batch]), tuple(by_length[-spec.batch :])
    return AuditText(
        base=base,
        spares=spares,
        width=max(len(record.tokens) for record in base),
        usable=tuple(usable),
        n_cut=sum(record.lost_tokens > 0 for record in (*base, *spares)),
        fact=InputFact(
            name="text",
            source=spec.text,
            sha256=corpus.source_digest,
            n_records=corpus.n_records,
        ),
    )


def check_context(tokens: int, *, context_tokens: int) -> None:
    """Refuse records longer than the model's context.

    Args:
        tokens: Longest record.
        context_tokens: What the model takes.

    Raises:
        InvalidArgumentError: Naming both.
    """
    if tokens > context_tokens:
        raise InvalidArgumentError(
            f"tokens must be at most the model's context of {context_tokens}, got"
            f" tokens={tokens}; choose a smaller --tokens."
        )


def _first_of_each_owner(corpus: Corpus, n_records: int) -> list[Record]:
    """The first records, new owners first."""
    fresh, others, owners = [], [], set()
    for record in corpus.records:
        if record.owner in owners:
            others.append(record)
        else:
            owners.add(record.owner)
            fresh.append(record)
    return (fresh + others)[:n_records]
