"""Tokenised records to tensors: one row a record, padded to one width."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, final

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from insular import _check
from insular.errors import InvalidArgumentError
from insular.records.tokens import TokenisedRecord

PaddingSide = Literal["left", "right"]
"""Where padding goes."""

IGNORED_LABEL = -100
"""Label of a position that has no loss: PyTorch's and Hugging Face's convention."""


@final
@dataclass(frozen=True, kw_only=True, repr=False)
class TokenBatch:
    """A batch of records as a decoder takes it, with the ids and owners of its rows."""

    record_ids: tuple[str, ...]
    """The record of each row. Unique."""
    owner_ids: tuple[str, ...]
    """The privacy unit of each row."""
    input_ids: Int[Tensor, "record token"]
    """Token ids; the padding id where the mask is False."""
    attention_mask: Bool[Tensor, "record token"]
    """True at real tokens."""
    position_ids: Int[Tensor, "record token"]
    """0, 1, 2, ... over the real tokens of each row; 0 at padding."""
    labels: Int[Tensor, "record token"]
    """Token ids, not shifted; -100 at padding and at each record's first token."""
    padding_side: PaddingSide
    """Where padding is."""

    @property
    def n_records(self) -> int:
        """Number of rows."""
        return len(self.record_ids)

    @property
    def n_tokens(self) -> int:
        """Number of real tokens."""
        return int(self.attention_mask.sum())

    @property
    def shape(self) -> tuple[int, int]:
        """Records and width in tokens, padding included."""
        n_records, width = self.input_ids.shape
        return n_records, width

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self.input_ids.device

    def to(self, device: torch.device | str) -> "TokenBatch":
        """Move the batch.

        Args:
            device: Where to.

        Returns:
            The same batch there.
        """
        return replace(
            self,
            input_ids=self.input_ids.to(device),
            attention_mask=self.attention_mask.to(device),
            position_ids=self.position_ids.to(device),
            labels=self.labels.to(device),
        )

    def select(self, indices: Sequence[int]) -> "TokenBatch":
        """Take rows, in the given order and at the same width.

        Args:
            indices: Rows, each at most once; negative ones count from the end.

        Returns:
            The batch of those rows, bit for bit.

        Raises:
            InvalidArgumentError: If there is none, one is out of range or one comes twice.
        """
        rows = [index + self.n_records if index < 0 else index for index in indices]
        if not rows or len(set(rows)) != len(rows) or not set(rows) <= set(range(self.n_records)):
            raise InvalidArgumentError(
                f"indices must be at least one distinct row of {self.n_records}, "
                f"got indices={list(indices)!r}."
            )
        index = torch.tensor(rows, device=self.device)
        return replace(
            self,
            record_ids=tuple(self.record_ids[row] for row in rows),
            owner_ids=tuple(self.owner_ids[row] for row in rows),
            input_ids=self.input_ids[index],
            attention_mask=self.attention_mask[index],
            position_ids=self.position_ids[index],
            labels=self.labels[index],
        )

    def __repr__(self) -> str:
        return (
            f"TokenBatch(shape={self.shape}, n_tokens={self.n_tokens}, "
            f"padding_side={self.padding_side!r}, device='{self.device}')"
        )


def collate(
    records: Sequence[TokenisedRecord],
    *,
    pad_token_id: int,
    width: int | None = None,
    padding_side: PaddingSide = "right",
    device: torch.device | str = "cpu",
) -> TokenBatch:
    """Pad records to one width.

    Guarantees:
        * Row i depends on record i, the width and the side only.
        * Position ids count real tokens only, so that left padding does not move a record's
          positions.
        * A real token with the padding's id keeps its label: the mask comes from lengths.
        * A record's first token is no target: left padding must not predict it.

    Args:
        records: At least one record, ids unique, each with at least one token.
        pad_token_id: Token id that fills up.
        width: Tokens in each row; None takes the longest record.
        padding_side: ``"right"`` or ``"left"``.
        device: Where the tensors go.

    Returns:
        The batch.

    Raises:
        InvalidArgumentError: If a record does not fit or an argument breaks its rule.
    """
    _check.one_of(("left", "right"), padding_side=padding_side)
    _check.at_least(0, pad_token_id=pad_token_id)
    if not records:
        raise InvalidArgumentError("records must hold at least one record, got none.")
    width = _checked_width(records, width)
    input_ids = torch.full((len(records), width), pad_token_id, dtype=torch.int64)
    attention_mask = torch.zeros(input_ids.shape, dtype=torch.bool)
    position_ids = torch.zeros_like(input_ids)
    for row, record in enumerate(records):
        length = len(record.tokens)
        start = width - length if padding_side == "left" else 0
        real = slice(start, start + length)
        input_ids[row, real] = torch.tensor(record.tokens, dtype=torch.int64)
        attention_mask[row, real] = True
        position_ids[row, real] = torch.arange(length)
    predicted = attention_mask & (position_ids > 0)
    return TokenBatch(
        record_ids=tuple(record.id for record in records),
        owner_ids=tuple(record.owner for record in records),
        input_ids=input_ids,
        attention_mask=attention_mask,
        position_ids=position_ids,
        labels=input_ids.masked_fill(~predicted, IGNORED_LABEL),
        padding_side=padding_side,
    ).to(device)


def _checked_width(records: Sequence[TokenisedRecord], width: int | None) -> int:
    """Check the records and return the batch's width."""
    seen: set[str] = set()
    for record in records:
        if record.id in seen:
            raise InvalidArgumentError(
                f"record ids must be unique in a batch, got id={record.id!r} twice; "
                "take each record once."
            )
        seen.add(record.id)
        if not record.tokens:
            raise InvalidArgumentError(
                f"each record must have at least one token, got none in id={record.id!r}; drop it."
            )
    longest = max(records, key=lambda record: len(record.tokens))
    if width is None:
        return len(longest.tokens)
    _check.at_least(1, width=width)
    if width < len(longest.tokens):
        raise InvalidArgumentError(
            f"width must be at least the longest record, got width={width} for "
            f"id={longest.id!r} with {len(longest.tokens)} tokens; raise width or shorten it."
        )
    return width
