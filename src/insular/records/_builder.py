"""Rows to records: the policy for texts, ids and owners."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from insular.errors import RecordError
from insular.records._formats import Row
from insular.records.corpus import Corpus, MissingOwner, Record, Source

_NOT_AN_OWNER = frozenset({"", "nan", "null", "none"})
_SHOWN = 10


@final
@dataclass(kw_only=True)
class CorpusBuilder:
    """Turns rows into records and counts what it leaves out."""

    path: Path
    place: str
    text_field: str
    id_field: str | None
    owner_field: str | None
    missing_owner: MissingOwner
    records: list[Record] = field(default_factory=list)
    row_of_id: dict[str, int] = field(default_factory=dict)
    without_owner: list[int] = field(default_factory=list)
    owner_column_seen: bool = False
    blank_lines: int = 0
    blank_texts: int = 0

    def add(self, row: Row) -> None:
        """Take one row."""
        if row.fields is None:
            self.blank_lines += 1
            return
        text = self._text(row)
        if not text.strip():
            self.blank_texts += 1
            return
        record_id = self._id(row)
        if self.owner_field is None:
            owner = record_id
        else:
            owner = self._owner(row, self.owner_field)
        if owner is None:
            self.without_owner.append(row.number)
            if self.missing_owner != "own":
                return
            owner = f"unowned:{record_id}"
        self.records.append(Record(id=record_id, owner=owner, text=text))

    def corpus(self, *, sha256: str) -> Corpus:
        """Finish: settle missing owners, refuse an empty corpus."""
        missing = len(self.without_owner)
        if missing and not self.owner_column_seen:
            raise RecordError(
                f"{self.path.name}: no column {self.owner_field!r} in any row; check its name, "
                "or leave owner_field out if each record is its own privacy unit."
            )
        if missing and self.missing_owner == "error":
            raise RecordError(
                f"{self.path.name}: column {self.owner_field!r} gives no owner on "
                f"{self._places(self.without_owner)}; fill it in, or set missing_owner to "
                "'drop' (leave these records out) or 'own' (each is its own owner)."
            )
        if not self.records:
            left_out = self.blank_lines + self.blank_texts
            raise RecordError(
                f"{self.path.name} must hold at least one record, got none "
                f"({left_out} blank, {missing} without owner); check the file and its fields."
            )
        owned = self.owner_field is not None
        return Corpus(
            name=self.path.stem,
            unit="owner" if owned else "record",
            records=tuple(self.records),
            source=Source(name=self.path.name, sha256=sha256),
            blank_lines=self.blank_lines,
            blank_texts=self.blank_texts,
            missing_owner=self.missing_owner if owned else None,
            dropped_without_owner=missing if self.missing_owner == "drop" else 0,
            owned_alone=missing if self.missing_owner == "own" else 0,
        )

    def _text(self, row: Row) -> str:
        """Return the row's text, which must be a string of real characters."""
        value = self._value(row, self.text_field)
        if not isinstance(value, str):
            raise self._error(
                row,
                f"field {self.text_field!r} must be a string, got {type(value).__name__}; "
                "give each record its text.",
            )
        if not _is_unicode(value):
            raise self._error(
                row,
                f"field {self.text_field!r} holds half of a surrogate pair, which is not a "
                "character; write the text again as UTF-8.",
            )
        return value

    def _id(self, row: Row) -> str:
        """Return the row's id, which must be new."""
        if self.id_field is None:
            return f"{self.path.stem}:{row.number}"
        name = _name(self._value(row, self.id_field))
        if name is None:
            raise self._error(
                row,
                f"id column {self.id_field!r} must hold a string or an integer; "
                "fill it in, or leave id_field empty to count rows.",
            )
        if name in self.row_of_id:
            raise self._error(
                row,
                f"id {name!r} stands on {self.place} {self.row_of_id[name]} already; "
                "ids must be unique: change one, or leave id_field empty to count rows.",
            )
        self.row_of_id[name] = row.number
        return name

    def _owner(self, row: Row, owner_field: str) -> str | None:
        """Return the row's owner, or None if it has none."""
        fields: Mapping[str, Any] = row.fields or {}
        if owner_field in fields:
            self.owner_column_seen = True
        elif _near(owner_field, fields) is not None:
            raise self._no_column(row, owner_field)
        value = fields.get(owner_field)
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return None
        if isinstance(value, str) and value.strip().lower() in _NOT_AN_OWNER:
            return None
        name = _name(value)
        if name is None:
            raise self._error(
                row,
                f"owner column {owner_field!r} must hold a string or an integer, got "
                f"{type(value).__name__}; write owners as strings.",
            )
        return name

    def _value(self, row: Row, column: str) -> Any:
        """Return a field that every row must have."""
        fields: Mapping[str, Any] = row.fields or {}
        if column not in fields:
            raise self._no_column(row, column)
        return fields[column]

    def _no_column(self, row: Row, column: str) -> RecordError:
        """Name the missing column; other names are not quoted: a first row may be a record."""
        fields: Mapping[str, Any] = row.fields or {}
        near = _near(column, fields)
        count = ", or leave id_field empty to count rows" if column == self.id_field else ""
        remedy = (
            f"did you mean {near!r}{count}?"
            if near
            else f"check its name and the file's header{count}."
        )
        return self._error(row, f"no column {column!r} among {len(fields)} columns; {remedy}")

    def _error(self, row: Row, problem: str) -> RecordError:
        """Say where a problem is."""
        return RecordError(f"{self.path.name} {self.place} {row.number}: {problem}")

    def _places(self, numbers: Sequence[int]) -> str:
        """List row numbers, the first few of them."""
        shown = ", ".join(map(str, numbers[:_SHOWN]))
        more = f" and {len(numbers) - _SHOWN} more" if len(numbers) > _SHOWN else ""
        return f"{self.place}{'s' if len(numbers) > 1 else ''} {shown}{more}"


def _name(value: object) -> str | None:
    """Write an id or owner as a string: 3, 3.0 and '3' are the same one."""
    if isinstance(value, str):
        return value.strip() or None if _is_unicode(value) else None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _is_unicode(text: str) -> bool:
    """Whether every code point is a character that UTF-8 can hold."""
    return re.search("[\ud800-\udfff]", text) is None


def _near(column: str, fields: Iterable[str]) -> str | None:
    """Find a column that differs in case and surrounding white space only."""
    wanted = column.strip().lower()
    return next((name for name in fields if str(name).strip().lower() == wanted), None)
