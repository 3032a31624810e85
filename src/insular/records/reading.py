"""Files of records to a corpus: text, ids and owners, one pass."""

from pathlib import Path

from insular import _check
from insular.errors import InvalidArgumentError, RecordError
from insular.records._builder import CorpusBuilder
from insular.records._formats import FORMATS, Format
from insular.records.corpus import Corpus, MissingOwner


def read_corpus(
    path: str | Path,
    *,
    file_format: str | None = None,
    text_field: str = "text",
    id_field: str | None = None,
    owner_field: str | None = None,
    encoding: str = "utf-8",
    missing_owner: MissingOwner = "error",
) -> Corpus:
    """Read a file of records as text, ids and owners.

    The suffix names the format: ``.jsonl`` or ``.ndjson``, ``.json`` (one list of objects),
    ``.csv``, ``.tsv``, ``.parquet``, and ``.txt`` or ``.md`` (each line is a record).

    Guarantees:
        * Each row is a record: duplicates and very long records are kept as they are.
        * Blank lines and rows without text are skipped and counted.
        * A byte-order mark never enters a column name or a text; line ends become LF.
        * Bytes that are not in ``encoding`` are an error, never replaced.
        * With ``owner_field``, the unit is the owner or reading fails: records are never
          silently taken as their own units.
        * Surrounding white space in an owner is dropped, and 3, 3.0 and "3" are one owner:
          one person must not become two units.
        * An id that the file does not give is the file's stem and the row's number, as in
          ``tickets:17``.

    Args:
        path: The file.
        file_format: One of jsonl, json, csv, tsv, parquet, text; None takes the suffix.
        text_field: Column with the text. Ignored for plain text.
        id_field: Column with record ids, unique; None counts rows.
        owner_field: Column with the owner; None makes each record its own unit.
        encoding: Encoding of the file. Parquet ignores it.
        missing_owner: For a record whose owner is absent, null, blank or spelled nan, null
            or none: refuse the file, drop the record, or make it its own owner.

    Returns:
        The corpus, with what was skipped, dropped and chosen.

    Raises:
        RecordError: If the file or a row cannot be read; names file, line and remedy.
        InvalidArgumentError: If an option is unknown or does not fit the format.
    """
    path = Path(path)
    _check.one_of(("error", "drop", "own"), missing_owner=missing_owner)
    form = _format_of(path, file_format)
    if not form.has_columns:
        for name, value in (("id_field", id_field), ("owner_field", owner_field)):
            if value is not None:
                raise InvalidArgumentError(
                    f"{name} must be empty for plain text, which has no columns, got "
                    f"{name}={value!r}; use JSONL or CSV."
                )
        text_field = "text"
    builder = CorpusBuilder(
        path=path,
        place=form.place,
        text_field=text_field,
        id_field=id_field,
        owner_field=owner_field,
        missing_owner=missing_owner,
    )
    digests: list[str] = []
    try:
        for row in form.rows(path, encoding, digests):
            builder.add(row)
    except OSError as error:
        raise RecordError(_why_unreadable(path, error)) from None
    return builder.corpus(sha256=digests[0])


def _format_of(path: Path, file_format: str | None) -> Format:
    """Find the format by name or by suffix."""
    if file_format is not None:
        _check.one_of(tuple(FORMATS), file_format=file_format)
        return FORMATS[file_format]
    suffix = path.suffix.lower()
    for form in FORMATS.values():
        if suffix in form.suffixes:
            return form
    if path.is_dir():
        raise RecordError(f"{path} must be a file of records, got a folder; name a file in it.")
    if not path.exists():
        raise RecordError(f"{path} does not exist; check the path.")
    known = ", ".join(suffix for form in FORMATS.values() for suffix in form.suffixes)
    raise RecordError(
        f"{path.name} must end in one of {known}, got suffix {suffix!r}; "
        f"rename it or set file_format to one of {', '.join(FORMATS)}."
    )


def _why_unreadable(path: Path, error: OSError) -> str:
    """Say in one line why a file cannot be opened."""
    if isinstance(error, FileNotFoundError):
        return f"{path} does not exist; check the path."
    if path.is_dir():
        return f"{path} must be a file of records, got a folder; name a file in it."
    return f"{path} cannot be read: {error.strerror or error}; check its permissions."
