"""One logical batch to physical batches: sized by tokens, grouped by privacy unit."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import final

import torch

from insular import _check
from insular.errors import InvalidArgumentError
from insular.records.batches import PaddingSide, TokenBatch, collate
from insular.records.tokens import TokenisedRecord

Units = Sequence[tuple[TokenisedRecord, ...]]
"""The records of each privacy unit: one, or all that were drawn of one owner."""

MIN_TOKENS = 8
"""Least size of a forward: a float product with fewer rows may round in another way."""


@final
@dataclass(frozen=True, kw_only=True)
class Batching:
    """How physical batches are cut and padded. Neutral where the stack is isolated."""

    max_tokens: int
    """Most tokens of a forward: records times padded width. At least :data:`MIN_TOKENS`."""
    pad_token_id: int
    """Token id that fills up."""
    padding_side: PaddingSide = "right"
    """Where padding goes."""
    seats: int = 0
    """0 lets any records go together; 1 runs each alone; with k > 1 records go together only if
    their places are in the same of the fixed groups 0 to k - 1, k to 2k - 1, ..."""
    places: Mapping[str, int] = field(default_factory=dict, repr=False)
    """Record id to its fixed place in the corpus. Only ``seats`` above 1 reads it."""
    device: torch.device | str = "cpu"
    """Where the model runs."""

    def __post_init__(self) -> None:
        """Check the sizes."""
        _check.at_least(MIN_TOKENS, max_tokens=self.max_tokens)
        _check.at_least(0, pad_token_id=self.pad_token_id, seats=self.seats)


@final
@dataclass(frozen=True, kw_only=True)
class PhysicalBatch:
    """Records of one forward, and whose they are."""

    tokens: TokenBatch
    """The records, padded."""
    units: tuple[int, ...]
    """Position of each row's unit in the logical batch. Equal ones are neighbours."""
    rows: tuple[int, ...]
    """Position of each row's record among the records of the logical batch, unit by unit."""


@final
@dataclass(frozen=True, kw_only=True)
class _Row:
    """One record on its way into a batch."""

    unit: int
    row: int
    record: TokenisedRecord
    company: tuple[int, int]
    """Seats and padded width, which all records of a forward share."""


def physical_batches(units: Units, *, batching: Batching) -> Iterator[PhysicalBatch]:
    """Split a logical batch into physical ones, each made when it is asked for.

    The units with the longest records come first, and a batch ends where the next record would not
    fit or has another padded width.

    Guarantees:
        * Each record comes once, and a unit's records come one after another: at most one unit is
          begun and not finished at any time.
        * Records times padded width is at most ``max_tokens``.
        * A record's padded width depends on its own length and ``max_tokens`` alone: which lengths
          others have cannot move its rounding.
        * The order depends on the set of units and on the seats alone: neither the order in which
          units were drawn nor ``max_tokens`` moves it.
        * With ``seats`` k > 1, what shares a forward with a record has its place in the same group:
          adding a record changes the company of at most k - 1 others.

    Args:
        units: What was drawn; each record once.
        batching: Size, padding and seats.

    Yields:
        The physical batches.

    Raises:
        InvalidArgumentError: If a record is longer than ``max_tokens``, a unit is empty, a record
            comes twice, or seats above 1 meet a record without a place or a unit of several.
    """
    rows = _ordered(units, batching)
    start = 0
    while start < len(rows):
        company = rows[start].company
        most = start + batching.max_tokens // company[1]
        end = start + 1
        while end < min(most, len(rows)) and rows[end].company == company:
            end += 1
        yield _padded(rows[start:end], batching)
        start = end


def padded_width(n_tokens: int) -> int:
    """Width to which a record of that many tokens is padded: four steps an octave, 16 or more.

    Args:
        n_tokens: Its length.

    Returns:
        The next multiple of 16, of 32 above 128 tokens, of 64 above 256, and so on.
    """
    step = max(16, 2 ** ((n_tokens - 1).bit_length() - 1) // 4 if n_tokens > 1 else 0)
    return -(-n_tokens // step) * step


def _ordered(units: Units, batching: Batching) -> list[_Row]:
    """All records, checked, in the order in which they run."""
    grouped: list[tuple[tuple[int, int, str], list[_Row]]] = []
    seen: set[str] = set()
    for position, records in enumerate(units):
        _check_unit(records, seen, batching)
        mine = [
            _Row(unit=position, row=row, record=record, company=_company(record, batching))
            for row, record in enumerate(records, start=len(seen))
        ]
        seen.update(record.id for record in records)
        mine.sort(key=lambda row: (-len(row.record.tokens), row.record.id))
        first = mine[0]
        grouped.append(((first.company[0], -len(first.record.tokens), first.record.id), mine))
    grouped.sort(key=lambda pair: pair[0])
    rows = [row for _, mine in grouped for row in mine]
    if batching.seats == 1:
        return [replace(row, company=(i, row.company[1])) for i, row in enumerate(rows)]
    return rows


def _company(record: TokenisedRecord, batching: Batching) -> tuple[int, int]:
    """The seats and the width that a record shares with the others of its forward."""
    seats = batching.places[record.id] // batching.seats if batching.seats > 1 else 0
    return seats, min(padded_width(len(record.tokens)), batching.max_tokens)


def _check_unit(records: tuple[TokenisedRecord, ...], seen: set[str], batching: Batching) -> None:
    """Refuse a unit that cannot be batched."""
    if not records:
        raise InvalidArgumentError("each unit must have at least one record, got none in one.")
    for record in records:
        if len(record.tokens) > batching.max_tokens:
            raise InvalidArgumentError(
                f"max_tokens must hold the longest record, got max_tokens={batching.max_tokens} for"
                f" id={record.id!r} with {len(record.tokens)} tokens; raise it or shorten it."
            )
        if batching.seats > 1 and record.id not in batching.places:
            raise InvalidArgumentError(
                f"places must hold every record when seats={batching.seats}, got none for"
                f" id={record.id!r}; give its fixed place in the corpus."
            )
    ids = {record.id for record in records}
    if len(ids) < len(records) or ids & seen:
        raise InvalidArgumentError(
            "each record must be drawn once, got a second one of unit with"
            f" id={records[0].id!r}; a unit holds all its records, and comes once."
        )
    if batching.seats > 1 and len(records) > 1:
        raise InvalidArgumentError(
            f"seats must be 0 or 1 where a unit has several records, got seats={batching.seats} and"
            f" {len(records)} records beside id={records[0].id!r}: an owner would reach many seats."
        )


def _padded(rows: list[_Row], batching: Batching) -> PhysicalBatch:
    """The records of one forward."""
    tokens = collate(
        [row.record for row in rows],
        pad_token_id=batching.pad_token_id,
        width=rows[0].company[1],
        padding_side=batching.padding_side,
        device=batching.device,
    )
    return PhysicalBatch(
        tokens=tokens,
        units=tuple(row.unit for row in rows),
        rows=tuple(row.row for row in rows),
    )
