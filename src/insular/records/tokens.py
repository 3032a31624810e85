"""Tokenised records, and what tokenising left out. Needs no torch."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, final

from insular import _check
from insular.errors import InvalidArgumentError, RecordError
from insular.records.corpus import Corpus, Record, Unit

TooLong = Literal["error", "truncate", "window"]
"""What happens to a record with more tokens than the context holds."""

_SHOWN = 5


@final
@dataclass(frozen=True, kw_only=True)
class TokenisedRecord:
    """The token ids of one record, or of one window of it."""

    id: str
    """The record's id; a window adds its number, as in ``tickets:17#2``."""
    owner: str
    """The privacy unit. All windows of a record have one owner."""
    tokens: tuple[int, ...] = field(repr=False)
    """Token ids. Private: they spell the text."""
    lost_tokens: int = 0
    """Tokens cut off at the end (``too_long="truncate"``)."""

    def __repr__(self) -> str:
        return (
            f"TokenisedRecord(id={self.id!r}, owner={self.owner!r}, "
            f"n_tokens={len(self.tokens)}, lost_tokens={self.lost_tokens})"
        )


@final
@dataclass(frozen=True, kw_only=True, repr=False)
class TokenisedCorpus:
    """Tokenised records in corpus order, with what tokenising cut, split and dropped."""

    name: str
    """Name of the corpus."""
    unit: Unit
    """The privacy unit. ``"owner"`` wherever records were split into windows."""
    records: tuple[TokenisedRecord, ...]
    """At least one record."""
    corpus_digest: str
    """Digest of the corpus that was tokenised."""
    max_tokens: int
    """Longest record, in tokens."""
    too_long: TooLong
    """The choice made for longer records."""
    too_short_ids: tuple[str, ...] = ()
    """Records dropped because they are too short to have a next-token loss."""
    truncated_ids: tuple[str, ...] = ()
    """Records that lost their end."""
    split_ids: tuple[str, ...] = ()
    """Records that became several windows."""

    @property
    def n_records(self) -> int:
        """Number of rows to batch: records, or windows of records."""
        return len(self.records)

    @cached_property
    def n_owners(self) -> int:
        """Number of privacy units that are left."""
        return len({record.owner for record in self.records})

    @cached_property
    def n_tokens(self) -> int:
        """Tokens that are kept."""
        return sum(len(record.tokens) for record in self.records)

    @cached_property
    def lost_tokens(self) -> int:
        """Tokens that were cut off."""
        return sum(record.lost_tokens for record in self.records)

    @cached_property
    def digest(self) -> str:
        """SHA-256 over ids, owners and tokens in order, each framed by its length."""
        hasher = hashlib.sha256()
        for record in self.records:
            tokens = b"".join(token.to_bytes(8, "big", signed=True) for token in record.tokens)
            for part in (record.id.encode(), record.owner.encode(), tokens):
                hasher.update(len(part).to_bytes(8, "big"))
                hasher.update(part)
        return hasher.hexdigest()

    def __repr__(self) -> str:
        return (
            f"TokenisedCorpus(name={self.name!r}, unit={self.unit!r}, "
            f"n_records={self.n_records}, n_owners={self.n_owners}, n_tokens={self.n_tokens}, "
            f"lost_tokens={self.lost_tokens}, n_too_short={len(self.too_short_ids)})"
        )


def tokenise(
    corpus: Corpus,
    encode: Callable[[str], Sequence[int]],
    *,
    max_tokens: int,
    min_tokens: int = 2,
    too_long: TooLong = "error",
) -> TokenisedCorpus:
    """Turn each text into token ids that fit the context.

    Guarantees:
        * The tokens of a record depend on its text alone: ``encode`` sees one text at a time.
        * No token is lost without being counted.
        * Windows of one record stay one privacy unit: they share its owner, and the unit is
          the owner, so that their gradients are clipped together.
        * Windows cover the record: joined, they are its tokens. The last one starts earlier
          if it would have fewer than ``min_tokens`` tokens, and then overlaps.

    Args:
        corpus: The records.
        encode: Tokeniser: a text in, token ids out, special tokens included.
        max_tokens: Longest record that the model takes, in tokens.
        min_tokens: Shortest record that is kept. At least 2: one token has no next token.
        too_long: Refuse the corpus, cut the record's end off, or split it into windows.

    Returns:
        The tokenised records, with the ids of those that were dropped, cut or split.

    Raises:
        RecordError: If a record is too long and ``too_long="error"``, or nothing is left.
        InvalidArgumentError: If an option breaks its rule.
    """
    _check.at_least(2, min_tokens=min_tokens)
    _check.at_least(min_tokens, max_tokens=max_tokens)
    _check.one_of(("error", "truncate", "window"), too_long=too_long)
    fitted: list[tuple[Record, tuple[int, ...]]] = []
    short: list[str] = []
    long: dict[str, int] = {}
    for record in corpus.records:
        tokens = tuple(int(token) for token in encode(record.text))
        if len(tokens) < min_tokens:
            short.append(record.id)
            continue
        if len(tokens) > max_tokens:
            long[record.id] = len(tokens)
        fitted.append((record, tokens))
    if long and too_long == "error":
        raise RecordError(_too_long_message(corpus.name, long, max_tokens=max_tokens))
    if not fitted:
        raise RecordError(
            f"corpus {corpus.name} must hold a record of at least {min_tokens} tokens, but all "
            f"{len(short)} are too short to have a next-token loss; give longer texts."
        )
    if too_long == "window":
        records = [part for item in fitted for part in _windows(*item, max_tokens, min_tokens)]
    else:
        records = [_cut(record, tokens, max_tokens) for record, tokens in fitted]
    split = too_long == "window" and bool(long)
    if len({record.id for record in records}) != len(records):
        raise InvalidArgumentError(
            "record ids must not look like window ids such as 'a#0', but after splitting two "
            "are the same; rename the records whose ids end in # and a number."
        )
    return TokenisedCorpus(
        name=corpus.name,
        unit="owner" if split else corpus.unit,
        records=tuple(records),
        corpus_digest=corpus.digest,
        max_tokens=max_tokens,
        too_long=too_long,
        too_short_ids=tuple(short),
        truncated_ids=tuple(long) if too_long == "truncate" else (),
        split_ids=tuple(long) if split else (),
    )


def _cut(record: Record, tokens: tuple[int, ...], max_tokens: int) -> TokenisedRecord:
    """Keep the first tokens of a record and count the rest."""
    return TokenisedRecord(
        id=record.id,
        owner=record.owner,
        tokens=tokens[:max_tokens],
        lost_tokens=max(0, len(tokens) - max_tokens),
    )


def _windows(
    record: Record, tokens: tuple[int, ...], max_tokens: int, min_tokens: int
) -> Iterator[TokenisedRecord]:
    """Split a record into windows; one that fits keeps its id."""
    if len(tokens) <= max_tokens:
        yield _cut(record, tokens, max_tokens)
        return
    for position, start in enumerate(range(0, len(tokens), max_tokens)):
        start = min(start, len(tokens) - min_tokens)
        window = tokens[start : start + max_tokens]
        yield TokenisedRecord(id=f"{record.id}#{position}", owner=record.owner, tokens=window)


def _too_long_message(name: str, long: dict[str, int], *, max_tokens: int) -> str:
    """Name the records that do not fit, the first few of them."""
    shown = ", ".join(f"{key} ({length})" for key, length in list(long.items())[:_SHOWN])
    more = f" and {len(long) - _SHOWN} more" if len(long) > _SHOWN else ""
    return (
        f"records must have at most {max_tokens} tokens, got more in corpus {name}: "
        f"{shown}{more}; set too_long to 'truncate' (loses their end) or 'window' (splits "
        "them, still one privacy unit each), or raise max_tokens."
    )
