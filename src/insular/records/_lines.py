"""Bytes to lines of text: encodings, byte-order marks, line ends, and where a bad byte is."""

import codecs
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import final

from insular.errors import InvalidArgumentError, RecordError

_LINE_END = re.compile(rb"\r\n|\r|\n")


@final
class LineReader:
    """Reads a file once, line by line, and hashes its bytes on the way."""

    def __init__(self, path: Path, encoding: str) -> None:
        self._path = path
        self._encoding = _known(encoding)
        self._hasher = hashlib.sha256()

    @property
    def sha256(self) -> str:
        """Digest of the bytes read so far: of the file, once all lines are read."""
        return self._hasher.hexdigest()

    def __iter__(self) -> Iterator[str]:
        """Yield each line with its end made LF; a byte-order mark is dropped."""
        offset = 0
        number = 1
        for raw in self._chunks():
            content = raw
            if offset == 0 and raw.startswith(codecs.BOM_UTF8):
                content = raw[len(codecs.BOM_UTF8) :]
            try:
                text = content.decode(self._encoding)
            except UnicodeDecodeError as error:
                start = error.start + len(raw) - len(content)
                raise self._bad_byte(raw, offset=offset, start=start, line=number) from None
            offset += len(raw)
            # Old files end lines with a lone CR: the same line ends for every reader.
            for line in _split(text.removeprefix("\ufeff") if number == 1 else text):
                yield line
                number += 1

    def _chunks(self) -> Iterator[bytes]:
        """Yield raw lines, or the whole file where a line end is not the byte 0x0A."""
        with self._path.open("rb") as file:
            if "\n".encode(self._encoding) == b"\n":
                for raw in file:
                    self._hasher.update(raw)
                    yield raw
            else:
                raw = file.read()
                self._hasher.update(raw)
                yield raw

    def _bad_byte(self, raw: bytes, *, offset: int, start: int, line: int) -> RecordError:
        """Build the error that says where the bytes stop being text."""
        line += len(_LINE_END.findall(raw[:start]))
        hint = "encoding='latin-1' or 'cp1252'"
        if offset == 0 and raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            hint = "encoding='utf-16'"
        value = f"0x{raw[start]:02x}" if start < len(raw) else "the end of the file"
        return RecordError(
            f"{self._path.name} line {line}: byte {value} at byte offset {offset + start} "
            f"is not {self._encoding}; save the file as UTF-8 or set encoding, "
            f"for example {hint}."
        )


def _split(text: str) -> Iterator[str]:
    """Split at CRLF, CR and LF only: other separators may stand inside a JSON string."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    start = 0
    while (end := text.find("\n", start)) >= 0:
        yield text[start : end + 1]
        start = end + 1
    if start < len(text):
        yield text[start:]


def _known(encoding: str) -> str:
    """Return the encoding's usual name, or refuse it."""
    try:
        "".encode(encoding)
        name = codecs.lookup(encoding).name
    except LookupError:
        raise InvalidArgumentError(
            f"encoding must be a text encoding that Python knows, got encoding={encoding!r}; "
            "use for example 'utf-8', 'utf-16', 'latin-1'."
        ) from None
    return "utf-8" if name == "utf-8-sig" else name
