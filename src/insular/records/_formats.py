"""One reader per file format: a path in, rows with their line numbers out."""

import csv
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from insular.errors import MissingDependencyError, RecordError
from insular.records._lines import LineReader

# csv counts its limit in a C long, which has 32 bits on some platforms.
_CSV_FIELD_LIMIT = 2**31 - 1


@final
@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of a file: its place and its fields. A blank row has no fields."""

    number: int
    """Line, row or item number, from 1."""
    fields: Mapping[str, Any] | None
    """Values by column; None for a blank line."""


@final
@dataclass(frozen=True, kw_only=True)
class Format:
    """A file format that can hold records."""

    suffixes: tuple[str, ...]
    """File name endings, lower case."""
    place: str
    """What ``Row.number`` counts: line, row or item."""
    has_columns: bool
    """Whether a row has named fields; plain text has the field ``text`` only."""
    rows: Callable[[Path, str, list[str]], Iterator[Row]]
    """Yields the rows of (path, encoding) and appends the file's digest at the end."""


def _text_rows(path: Path, encoding: str, digests: list[str]) -> Iterator[Row]:
    """Each line is a record."""
    lines = LineReader(path, encoding)
    for number, line in enumerate(lines, start=1):
        text = line.removesuffix("\n")
        yield Row(number=number, fields={"text": text} if text.strip() else None)
    digests.append(lines.sha256)


def _jsonl_rows(path: Path, encoding: str, digests: list[str]) -> Iterator[Row]:
    """Each line is a JSON object."""
    lines = LineReader(path, encoding)
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            yield Row(number=number, fields=None)
            continue
        value = _parsed(line, where=f"{path.name} line {number}")
        yield Row(number=number, fields=_object(value, where=f"{path.name} line {number}"))
    digests.append(lines.sha256)


def _json_rows(path: Path, encoding: str, digests: list[str]) -> Iterator[Row]:
    """One JSON list of objects."""
    lines = LineReader(path, encoding)
    content = "".join(lines)
    if not content.strip():
        digests.append(lines.sha256)
        return
    items = _parsed(content, where=path.name)
    if not isinstance(items, list):
        raise RecordError(
            f"{path.name} must hold one JSON list of objects, got {type(items).__name__}; "
            "for one object per line use the suffix .jsonl."
        )
    for number, item in enumerate(items, start=1):
        yield Row(number=number, fields=_object(item, where=f"{path.name} item {number}"))
    digests.append(lines.sha256)


def _csv_rows(path: Path, encoding: str, digests: list[str], *, delimiter: str) -> Iterator[Row]:
    """A header, then one row per record; a quoted field may hold line ends."""
    lines = LineReader(path, encoding)
    previous_limit = csv.field_size_limit(_CSV_FIELD_LIMIT)
    try:
        yield from _delimited(path, csv.reader(lines, delimiter=delimiter, strict=True))
    finally:
        csv.field_size_limit(previous_limit)
    digests.append(lines.sha256)


def _delimited(path: Path, reader: Any) -> Iterator[Row]:
    """Pair each row of a csv reader with the header and its first line."""
    header: list[str] | None = None
    while True:
        number = reader.line_num + 1
        try:
            values = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise RecordError(
                f"{path.name} line {number}: not valid CSV ({error}); "
                "quote fields that hold the delimiter, quotes or line ends."
            ) from None
        if not any(value.strip() for value in values):
            yield Row(number=number, fields=None)
        elif header is None:
            header = values
            if len(set(values)) != len(values):
                raise RecordError(
                    f"{path.name} line {number}: column names must differ, "
                    "got the same name twice; rename one in the header."
                )
        elif len(values) != len(header):
            raise RecordError(
                f"{path.name} line {number}: a row must have {len(header)} fields as the header, "
                f"got {len(values)}; quote fields that hold the delimiter."
            )
        else:
            yield Row(number=number, fields=dict(zip(header, values, strict=True)))


def _parquet_rows(path: Path, encoding: str, digests: list[str]) -> Iterator[Row]:
    """Each row of a Parquet file; its strings are UTF-8 by definition."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingDependencyError(
            f"{path.name} needs pyarrow to be read; run: pip install pyarrow"
        ) from None
    number = 0
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=1024):
                for fields in batch.to_pylist():
                    number += 1
                    yield Row(number=number, fields=fields)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise RecordError(
            f"{path.name}: not a readable Parquet file after row {number} "
            f"({type(error).__name__}); write it again, or use JSONL."
        ) from None
    with path.open("rb") as stream:
        digests.append(hashlib.file_digest(stream, "sha256").hexdigest())


def _parsed(content: str, *, where: str) -> Any:
    """Parse JSON; the error says where and why and quotes nothing."""
    try:
        return json.loads(content)
    except json.JSONDecodeError as error:
        line = f", line {error.lineno}" if error.lineno > 1 else ""
        raise RecordError(
            f"{where}: not valid JSON ({error.msg}{line}, column {error.colno}); fix it."
        ) from None
    except (ValueError, RecursionError) as error:
        raise RecordError(
            f"{where}: JSON that cannot be read ({type(error).__name__}); "
            "simplify its numbers and nesting."
        ) from None


def _object(value: Any, *, where: str) -> Mapping[str, Any]:
    """Return the value if it is a JSON object."""
    if not isinstance(value, dict):
        raise RecordError(
            f"{where}: a record must be a JSON object, got {type(value).__name__}; "
            "write it as an object with a text field."
        )
    return value


def _comma_rows(path: Path, encoding: str, digests: list[str]) -> Iterator[Row]:
    """Rows of a comma-separated file."""
    return _csv_rows(path, encoding, digests, delimiter=",")


def _tab_rows(path: Path, encoding: str, digests: list[str]) -> Iterator[Row]:
    """Rows of a tab-separated file."""
    return _csv_rows(path, encoding, digests, delimiter="\t")


FORMATS: dict[str, Format] = {
    "jsonl": Format(
        suffixes=(".jsonl", ".ndjson"), place="line", has_columns=True, rows=_jsonl_rows
    ),
    "json": Format(suffixes=(".json",), place="item", has_columns=True, rows=_json_rows),
    "csv": Format(suffixes=(".csv",), place="line", has_columns=True, rows=_comma_rows),
    "tsv": Format(suffixes=(".tsv",), place="line", has_columns=True, rows=_tab_rows),
    "parquet": Format(suffixes=(".parquet",), place="row", has_columns=True, rows=_parquet_rows),
    "text": Format(suffixes=(".txt", ".md"), place="line", has_columns=False, rows=_text_rows),
}
"""The formats by name."""
