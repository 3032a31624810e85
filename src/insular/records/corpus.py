"""A record, the privacy unit that owns it, and a corpus of records."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, final

from insular import _check
from insular.errors import InvalidArgumentError, RecordError

Unit = Literal["record", "owner"]
"""The privacy unit: each record on its own, or all records of an owner together."""

MissingOwner = Literal["error", "drop", "own"]
"""What happens to a record without an owner."""


@final
@dataclass(frozen=True, kw_only=True)
class Record:
    """One text and who owns it. Its repr shows a digest, never the text."""

    id: str
    """Name of the record, unique in its corpus. Reports and errors show it."""
    owner: str
    """The privacy unit. Equal to ``id`` where each record is its own unit."""
    text: str = field(repr=False)
    """The private text."""

    def __repr__(self) -> str:
        digest = hashlib.sha256(self.text.encode(errors="replace")).hexdigest()[:12]
        return (
            f"Record(id={self.id!r}, owner={self.owner!r}, "
            f"n_characters={len(self.text)}, sha256={digest})"
        )


@final
@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a corpus came from. Public: it goes into evidence."""

    name: str
    """File name, without its folder."""
    sha256: str
    """Digest of the file's bytes."""
    package: str | None = None
    """Package that carried the file, where one did."""
    version: str | None = None
    """Version of that package."""
    licence: str | None = None
    """Licence of the text, where it is known."""


@final
@dataclass(frozen=True, kw_only=True, repr=False)
class Corpus:
    """Records in reading order, with what reading counted.

    Guarantees:
        * Record ids are unique.
        * Under unit ``"record"``, each owner equals its record's id.
        * ``repr`` shows no text.

    Raises:
        RecordError: If there is no record, or two records share an id.
        InvalidArgumentError: If the unit is unknown or does not fit the owners.
    """

    name: str
    """Short name, the prefix of positional ids."""
    unit: Unit
    """The privacy unit."""
    records: tuple[Record, ...]
    """At least one record, in reading order. Duplicate texts are kept: each is a record."""
    source: Source | None = None
    """Where the records came from; None where they were built in memory."""
    blank_lines: int = 0
    """Empty or white-space-only lines or rows that were skipped."""
    blank_texts: int = 0
    """Rows with other fields but no text, skipped: they have no token to learn from."""
    missing_owner: MissingOwner | None = None
    """The choice made for records without an owner; None under unit ``"record"``."""
    dropped_without_owner: int = 0
    """Records dropped because they had no owner (``missing_owner="drop"``)."""
    owned_alone: int = 0
    """Records without an owner that became their own (``missing_owner="own"``)."""

    def __post_init__(self) -> None:
        _check.one_of(("record", "owner"), unit=self.unit)
        if not self.records:
            raise RecordError(f"corpus {self.name} must hold at least one record, got none.")
        seen: set[str] = set()
        for record in self.records:
            if record.id in seen:
                raise RecordError(
                    f"record ids must be unique in corpus {self.name}, "
                    f"got id={record.id!r} twice; rename one."
                )
            seen.add(record.id)
            if self.unit == "record" and record.owner != record.id:
                raise InvalidArgumentError(
                    "owner must equal the record id under unit='record', "
                    f"got owner={record.owner!r} for id={record.id!r}; use unit='owner'."
                )

    @property
    def n_records(self) -> int:
        """Number of records: the n of a per-record sampling rate."""
        return len(self.records)

    @cached_property
    def n_owners(self) -> int:
        """Number of distinct owners: the n of a per-owner sampling rate."""
        return len({record.owner for record in self.records})

    @property
    def n_units(self) -> int:
        """Number of privacy units, whichever the unit is."""
        return self.n_owners

    @cached_property
    def digest(self) -> str:
        """SHA-256 over ids, owners and texts in order, each framed by its length."""
        return digest_of(
            part for record in self.records for part in (record.id, record.owner, record.text)
        )

    @property
    def source_digest(self) -> str:
        """SHA-256 of the file that was read, or of the records where they were built in memory."""
        return self.source.sha256 if self.source else self.digest

    def __repr__(self) -> str:
        return (
            f"Corpus(name={self.name!r}, unit={self.unit!r}, n_records={self.n_records}, "
            f"n_owners={self.n_owners}, digest={self.digest[:12]})"
        )


def digest_of(parts: Iterable[str]) -> str:
    """Hash strings so that no two different sequences give the same input to the hash.

    Args:
        parts: The strings, in order.

    Returns:
        SHA-256 as 64 hexadecimal digits, over each string's UTF-8 length and bytes.
    """
    hasher = hashlib.sha256()
    for part in parts:
        encoded = part.encode()
        hasher.update(len(encoded).to_bytes(8, "big"))
        hasher.update(encoded)
    return hasher.hexdigest()
