"""The batches that an isolation audit compares: a base batch, and one change at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from insular.audit.spec import Axis
from insular.errors import InvalidArgumentError
from insular.records.tokens import TokenisedRecord


@final
@dataclass(frozen=True, kw_only=True)
class Case:
    """A batch to run, and what it changes in the base batch."""

    name: str
    """Unique name."""
    axis: Axis
    """What is changed."""
    records: tuple[TokenisedRecord, ...]
    """The batch, in order."""
    width: int
    """Padded length, in tokens."""
    kept: tuple[tuple[int, int], ...]
    """Position in the base batch and position here, for each record that stays."""
    changed: tuple[str, ...]
    """Ids of the base records that were replaced, removed or moved."""
    brought_in: tuple[str, ...] = ()
    """Ids of the records that took their place."""
    bound: float | None = None
    """Separable bound of the pair in units of C: 2 to replace, 1 to remove; None if no pair."""


def plan_cases(
    base: Sequence[TokenisedRecord],
    spares: Sequence[TokenisedRecord],
    *,
    width: int,
    extra_padding_tokens: int,
) -> tuple[Case, ...]:
    """Plan every comparison of an isolation audit.

    Guarantees:
        * A content case keeps every record's length, so every tensor keeps its shape.
        * A length case keeps the batch's padded shape, and brings in a shorter record.
        * Each base record is replaced once on the content axis, and each other record watches.

    Args:
        base: The base batch, at least two records.
        spares: Records to bring in; each at least as long as the longest base record.
        width: Padded length of the base batch, in tokens.
        extra_padding_tokens: Padding that the shape axis adds.

    Returns:
        The cases, grouped by axis.

    Raises:
        InvalidArgumentError: If there are fewer than two records, or too few or too short spares.
    """
    if len(base) < 2:
        raise InvalidArgumentError(
            f"an isolation audit must have at least 2 records, got {len(base)};"
            " give more text, or a larger --batch."
        )
    if len(spares) < len(base):
        raise InvalidArgumentError(
            f"an isolation audit must have a spare record for each of {len(base)}, got"
            f" {len(spares)}; give more text, or a smaller --batch."
        )
    return (
        *_replacements(base, spares, width=width),
        _reordered(base, width=width),
        *_removals(base, width=width),
        *_reshapes(base, width=width, extra=extra_padding_tokens),
    )


def _replacements(
    base: Sequence[TokenisedRecord], spares: Sequence[TokenisedRecord], *, width: int
) -> list[Case]:
    """Each record replaced in turn: by one of equal length, then, for some, by a shorter one."""
    cases = []
    for position, (old, spare) in enumerate(zip(base, spares, strict=False)):
        cases.append(_replaced(base, position, _cut(spare, len(old.tokens)), "content", width))
    for position in _telling(base):
        old = base[position]
        n_tokens = max(2, len(old.tokens) // 2)  # a single token has no loss
        if n_tokens < len(old.tokens):
            short = _cut(spares[position], n_tokens)
            cases.append(_replaced(base, position, short, "length", width))
    return cases


def _replaced(
    base: Sequence[TokenisedRecord],
    position: int,
    new: TokenisedRecord,
    axis: Axis,
    width: int,
) -> Case:
    """The base batch with one record replaced."""
    records = [*base[:position], new, *base[position + 1 :]]
    return Case(
        name=f"{axis}-{position}",
        axis=axis,
        records=tuple(records),
        width=width,
        kept=tuple((i, i) for i in range(len(base)) if i != position),
        changed=(base[position].id,),
        brought_in=(new.id,),
        bound=2.0,
    )


def _reordered(base: Sequence[TokenisedRecord], *, width: int) -> Case:
    """The base batch backwards."""
    last = len(base) - 1
    return Case(
        name="order-reversed",
        axis="order",
        records=tuple(reversed(base)),
        width=width,
        kept=tuple((i, last - i) for i in range(len(base))),
        changed=tuple(record.id for record in base),
    )


def _removals(base: Sequence[TokenisedRecord], *, width: int) -> list[Case]:
    """The base batch without its first, its longest and its last record."""
    cases = []
    for position in _telling(base):
        rest = [i for i in range(len(base)) if i != position]
        cases.append(
            Case(
                name=f"presence-{position}",
                axis="presence",
                records=tuple(base[i] for i in rest),
                width=width,
                kept=tuple((i, here) for here, i in enumerate(rest)),
                changed=(base[position].id,),
                bound=1.0,
            )
        )
    return cases


def _reshapes(base: Sequence[TokenisedRecord], *, width: int, extra: int) -> list[Case]:
    """Each record alone and unpadded, two half batches, and the base batch with more padding."""
    cases = [_subset(base, [i], f"alone-{i}", len(base[i].tokens)) for i in range(len(base))]
    half = len(base) // 2
    if half > 1:
        cases.append(_subset(base, list(range(half)), "first-half", width))
        cases.append(_subset(base, list(range(half, len(base))), "second-half", width))
    cases.append(_subset(base, list(range(len(base))), "padded", width + extra))
    return cases


def _subset(base: Sequence[TokenisedRecord], positions: list[int], name: str, width: int) -> Case:
    """Some records of the base batch, at another width."""
    return Case(
        name=f"shape-{name}",
        axis="shape",
        records=tuple(base[i] for i in positions),
        width=width,
        kept=tuple((i, here) for here, i in enumerate(positions)),
        changed=tuple(r.id for i, r in enumerate(base) if i not in positions),
    )


def _telling(base: Sequence[TokenisedRecord]) -> list[int]:
    """First, longest and last position, each once: the longest may set a batch-wide maximum."""
    longest = max(range(len(base)), key=lambda i: len(base[i].tokens))
    return sorted({0, longest, len(base) - 1})


def _cut(record: TokenisedRecord, n_tokens: int) -> TokenisedRecord:
    """The record's first tokens, under an id that says so."""
    if len(record.tokens) < n_tokens:
        raise InvalidArgumentError(
            f"a spare record must have at least {n_tokens} tokens, got {len(record.tokens)} in"
            f" {record.id}; give longer text, or a smaller --tokens."
        )
    if len(record.tokens) == n_tokens:
        return record
    return TokenisedRecord(
        id=f"{record.id}[:{n_tokens}]",
        owner=record.owner,
        tokens=record.tokens[:n_tokens],
        lost_tokens=record.lost_tokens + len(record.tokens) - n_tokens,
    )
