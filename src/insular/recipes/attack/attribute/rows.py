"""Records with their fields, the attribute's true value among them. No error prints a field."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from insular.errors import RecordError
from insular.recipes.attack.attribute.spec import AttributeSpec


@final
@dataclass(frozen=True, kw_only=True)
class Row:
    """A record's fields as texts. Its repr shows none."""

    id: str
    """Name of the record, unique."""
    fields: dict[str, str]
    """What the template needs, the attribute included."""

    def __repr__(self) -> str:
        return f"Row(id={self.id!r}, n_fields={len(self.fields)})"


def read_rows(path: Path, spec: AttributeSpec, *, needed: Sequence[str]) -> tuple[Row, ...]:
    """Read records with their fields.

    Args:
        path: JSON lines.
        spec: Names id, attribute and values.
        needed: Fields that each record must have.

    Returns:
        The records.

    Raises:
        RecordError: If the file or a line cannot be read, an id is there twice, or a field or
            value is not what it must be. No field's content is printed.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError):
        raise RecordError(
            f"{path} must be a file of JSON lines in UTF-8; check the path."
        ) from None
    found: dict[str, Row] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        place = f"{path.name} line {number}"
        row = _row(line, spec, needed, place=place, unnamed=f"{path.stem}:{number}")
        if row.id in found:
            raise RecordError(f"{place}: id {row.id!r} stands twice; rename one.")
        found[row.id] = row
    if not found:
        raise RecordError(f"{path.name} must hold at least one record, got none.")
    return tuple(found.values())


def _row(line: str, spec: AttributeSpec, needed: Sequence[str], *, place: str, unnamed: str) -> Row:
    """One line as a record whose value is one of the known ones."""
    try:
        content = json.loads(line)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise RecordError(f"{place}: a record must be a JSON object; mend the line.")
    named = (spec.id_field,) if spec.id_field else ()
    missing = [name for name in (*named, *needed) if content.get(name) is None]
    if missing:
        raise RecordError(
            f"{place}: a record must have {', '.join(dict.fromkeys(missing))}; fill it in, or leave"
            " the record out."
        )
    fields = {name: str(content[name]).strip() for name in needed}
    if fields[spec.attribute] not in spec.values:
        raise RecordError(
            f"{place}: {spec.attribute} must be one of the {len(spec.values)} values, and is not;"
            " add it to --values, or leave the record out."
        )
    return Row(id=str(content[spec.id_field]) if spec.id_field else unnamed, fields=fields)
